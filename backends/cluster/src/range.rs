//! Pages of a range: the ask for a page, and the encoding of its entries.
//!
//! A range over the whole cluster is read page by page. A peer keeps no state between two pages,
//! and the reader holds one page of each node.

use pellucid_store::KEY_LENGTH_MAX;

use crate::frame::{CONTENT_BYTES_MAX, FrameError};
use crate::numbers::{u32_at, u64_at};

/// A page is complete once its entries have this many bytes. Its last entry may exceed the limit.
pub const PAGE_BYTES: usize = 128 * 1024;
/// Limit of a node's values in bytes: a page has to fit into a frame, whatever its last entry is.
pub const VALUE_BYTES_MAX: usize = CONTENT_BYTES_MAX - PAGE_BYTES - ENTRY_BYTES - KEY_LENGTH_MAX;

const REVERSE: u8 = 1;
const HAS_END: u8 = 2;
const BEHIND: u8 = 4;
/// Length in bytes of an entry's fixed fields.
const ENTRY_BYTES: usize = 32;
/// Offset of the expiry in an entry.
const EXPIRES_AT: usize = 16;

/// The ask for a page. It is the value of the ask's frame, and the frame's key is the page's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeAsk<'a> {
    /// True if the range is read from its end.
    pub reverse: bool,
    /// True if the ask's key is that of the previous page's last entry, which must not come again.
    /// In reverse, the page ends before that key, and `end` is ignored.
    pub behind: bool,
    /// The exclusive end of the range.
    pub end: Option<&'a [u8]>,
    /// Limit of the page's entries.
    pub entries_max: u32,
    /// The start of the range, where the ask's key is not: in reverse and with `behind`.
    pub first: &'a [u8],
}

impl<'a> RangeAsk<'a> {
    /// Appends the encoded ask to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let flags = flag(self.reverse, REVERSE)
            | flag(self.end.is_some(), HAS_END)
            | flag(self.behind, BEHIND);
        out.push(flags);
        out.extend_from_slice(&self.entries_max.to_le_bytes());
        out.extend_from_slice(&(self.first.len() as u16).to_le_bytes());
        out.extend_from_slice(self.first);
        out.extend_from_slice(self.end.unwrap_or_default());
    }

    /// Decodes the value of an ask.
    ///
    /// # Errors
    /// If the bytes are not a valid ask for a page.
    pub fn decode(bytes: &'a [u8]) -> Result<RangeAsk<'a>, FrameError> {
        let wrong = FrameError::Malformed("range");
        let (head, rest) = bytes.split_first_chunk::<7>().ok_or(wrong.clone())?;
        let flags = head[0];
        let entries_max = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let first_length = usize::from(u16::from_le_bytes([head[5], head[6]]));
        let (first, end) = rest.split_at_checked(first_length).ok_or(wrong.clone())?;
        let has_end = flags & HAS_END != 0;
        let is_sound = flags & !(REVERSE | HAS_END | BEHIND) == 0
            && (has_end || end.is_empty())
            && first.len() <= KEY_LENGTH_MAX;
        if !is_sound {
            return Err(wrong);
        }
        let end = has_end.then_some(end);
        let (reverse, behind) = (flags & REVERSE != 0, flags & BEHIND != 0);
        Ok(RangeAsk { reverse, behind, end, entries_max, first })
    }
}

/// One entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry<'a> {
    /// The sequence number of the entry.
    pub sequence: u64,
    /// The time at which the entry was written, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// The time at which the entry expires, in milliseconds since the Unix epoch; zero for never.
    pub expires_at_ms: u64,
    /// The key of the entry.
    pub key: &'a [u8],
    /// The value of the entry.
    pub value: &'a [u8],
}

impl PageEntry<'_> {
    /// Appends the encoded entry to a page.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.sequence, self.written_at_ms, self.expires_at_ms] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        let length = u32::try_from(self.value.len()).expect("a value is below 4 GiB");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
    }

    /// Sets the expiry of an encoded entry at the beginning of `bytes`. It is set afterwards
    /// because a scan gives the expiry of an entry only once the entry is no longer borrowed.
    pub fn set_expires_at_ms(bytes: &mut [u8], expires_at_ms: u64) {
        bytes[EXPIRES_AT..EXPIRES_AT + 8].copy_from_slice(&expires_at_ms.to_le_bytes());
    }
}

/// A received page, and the position of its reader.
#[derive(Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    at: usize,
}

impl Page {
    /// A page with these bytes, read from its first entry on.
    ///
    /// # Errors
    /// If the bytes are not a sequence of complete entries.
    pub fn new(bytes: Vec<u8>) -> Result<Page, FrameError> {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = decode(rest).ok_or(FrameError::Malformed("page"))?.1;
        }
        Ok(Page { bytes, at: 0 })
    }

    /// The current entry; `None` behind the last one.
    #[must_use]
    pub fn entry(&self) -> Option<PageEntry<'_>> {
        Some(decode(&self.bytes[self.at..])?.0)
    }

    /// Moves to the next entry.
    pub fn advance(&mut self) {
        if let Some((_, rest)) = decode(&self.bytes[self.at..]) {
            self.at = self.bytes.len() - rest.len();
        }
    }
}

/// The entry at the beginning of `bytes`, and the bytes behind it; `None` if it is not complete.
fn decode(bytes: &[u8]) -> Option<(PageEntry<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<ENTRY_BYTES>()?;
    let (key, rest) = rest.split_at_checked(u32_at(head, 24) as usize)?;
    let (value, rest) = rest.split_at_checked(u32_at(head, 28) as usize)?;
    let (sequence, written_at_ms) = (u64_at(head, 0), u64_at(head, 8));
    let expires_at_ms = u64_at(head, EXPIRES_AT);
    Some((PageEntry { sequence, written_at_ms, expires_at_ms, key, value }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ask_for_a_page_round_trips() {
        for (reverse, behind, end) in
            [(false, false, None), (true, true, Some(b"z".as_slice())), (false, true, Some(b""))]
        {
            let ask = RangeAsk { reverse, behind, end, entries_max: 70_000, first: b"first" };
            let mut bytes = Vec::new();
            ask.encode(&mut bytes);
            assert_eq!(RangeAsk::decode(&bytes), Ok(ask));
            assert!(RangeAsk::decode(&bytes[..9]).is_err());
        }
        assert!(RangeAsk::decode(b"").is_err());
        assert!(RangeAsk::decode(&[0xff; 20]).is_err());
    }

    #[test]
    fn a_page_is_read_entry_by_entry() {
        let mut bytes = Vec::new();
        let entries = [
            PageEntry { sequence: 1, written_at_ms: 3, expires_at_ms: 0, key: b"a", value: b"one" },
            PageEntry { sequence: 2, written_at_ms: 4, expires_at_ms: 5, key: b"b", value: b"" },
        ];
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        assert!(Page::new(bytes[..bytes.len() - 1].to_vec()).is_err());
        assert!(Page::new(vec![0xff; 40]).is_err());
        let mut page = Page::new(bytes).unwrap();
        for entry in entries {
            assert_eq!(page.entry(), Some(entry));
            page.advance();
        }
        assert_eq!(page.entry(), None);
    }
}
