//! The encoding of an entry in RocksDB: a head, followed by the value.
//!
//! | bytes | field |
//! |---|---|
//! | 7 | sequence number, which contains the time of the write |
//! | 1 | kind: 3 if the entry does not expire, 4 if it does |
//! | 6, only for kind 4 | expiry in milliseconds since the Unix epoch |
//!
//! Every byte is written to the log and the memtable, and covered by a checksum. So the head has no
//! field that is zero in nearly all entries, or that is known otherwise.

use std::cell::RefCell;

use pellucid_clock::{Clock, rising};
use pellucid_store::{Head, Object, StoreError, Value};

use crate::sequences::written_at_ms;

/// Capacity of the entry buffer that each thread keeps, in bytes.
const ENTRY_BYTES_KEPT: usize = 64 << 10;
/// The bit at which the kind begins, in the number that holds sequence number and kind.
const KIND_SHIFT: u32 = 56;
const SEQUENCE_MAX: u64 = (1 << KIND_SHIFT) - 1;
const KIND_LASTING: u64 = 3;
const KIND_EXPIRING: u64 = 4;
const TIME_BYTES: usize = 6;
/// The largest expiry that six bytes can hold: in the year 10889.
const TIME_MAX_MS: u64 = (1 << (8 * TIME_BYTES)) - 1;
/// Length of sequence number and kind in bytes.
const NUMBER_BYTES: usize = 8;
/// Length of a head with an expiry in bytes.
const EXPIRING_LENGTH: usize = NUMBER_BYTES + TIME_BYTES;

thread_local! {
    static ENTRY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The head of an entry, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHead {
    pub(crate) sequence: u64,
    /// Zero for never.
    pub(crate) expires_at_ms: u64,
}

impl EntryHead {
    /// Calls `write` with the encoded entry. The bytes are in a buffer that the thread reuses:
    /// RocksDB copies them, and allocating a new buffer would cost more than the copy.
    pub(crate) fn with<T>(self, value: &[u8], write: impl FnOnce(&[u8]) -> T) -> T {
        assert!(self.sequence <= SEQUENCE_MAX, "sequence numbers fit until the year 2109");
        let number = |kind: u64| (self.sequence | (kind << KIND_SHIFT)).to_le_bytes();
        ENTRY.with_borrow_mut(|bytes| {
            bytes.clear();
            bytes.reserve(EXPIRING_LENGTH + value.len());
            if self.expires_at_ms == 0 {
                bytes.extend_from_slice(&number(KIND_LASTING));
            } else {
                let time = self.expires_at_ms.min(TIME_MAX_MS).to_le_bytes();
                bytes.extend_from_slice(&number(KIND_EXPIRING));
                bytes.extend_from_slice(&time[..TIME_BYTES]);
            }
            bytes.extend_from_slice(value);
            let done = write(bytes);
            bytes.shrink_to(ENTRY_BYTES_KEPT);
            done
        })
    }

    /// Decodes an entry into its head and its value.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Result<(EntryHead, &[u8]), StoreError> {
        EntryHead::split(bytes).ok_or_else(|| unknown_head(bytes.len()))
    }

    #[inline]
    fn split(bytes: &[u8]) -> Option<(EntryHead, &[u8])> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + NUMBER_BYTES)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        // The six bytes of a time, read as the upper bytes of the eight that end at the same place.
        let time =
            |end: usize| Some(number(end - NUMBER_BYTES)? >> (8 * (NUMBER_BYTES - TIME_BYTES)));
        let first = number(0)?;
        let (expires_at_ms, length) = match first >> KIND_SHIFT {
            KIND_LASTING => (0, NUMBER_BYTES),
            KIND_EXPIRING => (time(EXPIRING_LENGTH)?, EXPIRING_LENGTH),
            _ => return None,
        };
        let stored = EntryHead { sequence: first & SEQUENCE_MAX, expires_at_ms };
        Some((stored, &bytes[length..]))
    }

    /// True if the entry has not expired.
    #[inline]
    pub(crate) fn is_live(self) -> bool {
        self.expires_at_ms == 0 || self.expires_at_ms > rising(Clock::system().wall()).unix_ms()
    }

    /// Applies `shown` to an entry; `None` if there is none, or if it has expired.
    #[inline]
    pub(crate) fn shown<T>(
        bytes: Option<&[u8]>,
        shown: impl Fn(EntryHead, &[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        let Some(bytes) = bytes else { return Ok(None) };
        let (stored, value) = EntryHead::of(bytes)?;
        Ok(stored.is_live().then(|| shown(stored, value)))
    }

    /// The head of an entry with this value.
    #[inline]
    pub(crate) fn head(self, value: &[u8]) -> Head {
        let (sequence, written_at_ms) = (self.sequence, written_at_ms(self.sequence));
        Head { sequence, written_at_ms, value_length: value.len() as u64 }
    }

    /// The object with this head and a copy of the value.
    #[inline]
    pub(crate) fn object(self, value: &[u8]) -> Object {
        Object { head: self.head(value), value: Value::Owned(value.to_vec()) }
    }
}

#[cold]
fn unknown_head(length: usize) -> StoreError {
    StoreError::Corruption(format!(
        "an entry of {length} bytes has no head that is known: is the folder Pellucid's?"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_round_trip_and_short_entries_are_refused() {
        let expiring = EntryHead { sequence: SEQUENCE_MAX, expires_at_ms: 9 };
        let lasting = EntryHead { expires_at_ms: 0, ..expiring };
        for (stored, length) in [(expiring, 14), (lasting, 8)] {
            let bytes = stored.with(b"value", <[u8]>::to_vec);
            assert_eq!(bytes.len(), length + 5);
            assert_eq!(EntryHead::of(&bytes), Ok((stored, &b"value"[..])));
            assert_eq!(EntryHead::of(&bytes[..length]), Ok((stored, &b""[..])));
            for cut in 0..length {
                assert!(EntryHead::of(&bytes[..cut]).is_err(), "{cut} bytes");
            }
            assert_eq!(stored.is_live(), stored == lasting);
        }
        assert!(EntryHead::of(b"not a head of ours at all").is_err());
    }

    #[test]
    fn an_expiry_beyond_the_largest_becomes_the_largest() {
        let bytes = EntryHead { sequence: 1, expires_at_ms: u64::MAX }.with(b"", <[u8]>::to_vec);
        let ends = EntryHead { sequence: 1, expires_at_ms: TIME_MAX_MS };
        assert_eq!(EntryHead::of(&bytes), Ok((ends, &b""[..])));
    }
}
