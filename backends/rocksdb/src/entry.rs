//! The form of an entry in RocksDB: a head before the value.
//!
//! | bytes | what |
//! |---|---|
//! | 7 | sequence number, which tells when the entry was written |
//! | 1 | 3 if the entry is there until it is removed, 4 if its time ends |
//! | 6, after a 4 alone | when its time is over, in milliseconds since the Unix epoch |
//!
//! Each byte is one more in the log, its checksum and the memtable, so none is spent on what is
//! zero in nearly all entries, or known.

use std::cell::RefCell;

use pellucid_clock::Clock;
use pellucid_store::{Head, Object, StoreError, Value};

use crate::sequences::written_at_ms;

/// Room that each thread keeps for entries.
const ENTRY_BYTES_KEPT: usize = 64 << 10;
/// The offset at which the number behind the sequence number begins that says what kind of head it
/// is.
const KIND_SHIFT: u32 = 56;
const SEQUENCE_MAX: u64 = (1 << KIND_SHIFT) - 1;
const KIND_LASTING: u64 = 3;
const KIND_EXPIRING: u64 = 4;
const TIME_BYTES: usize = 6;
/// The last time that has room: in the year 10889.
const TIME_MAX_MS: u64 = (1 << (8 * TIME_BYTES)) - 1;
/// The bytes of a head before its times, and of all kinds of heads.
const NUMBER_BYTES: usize = 8;
const EXPIRING_LENGTH: usize = NUMBER_BYTES + TIME_BYTES;

thread_local! {
    static ENTRY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The head of an entry, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) sequence: u64,
    /// Zero for never.
    pub(crate) expires_at_ms: u64,
}

impl Stored {
    /// Hands the entry's bytes to `write`. They lie where those of the entry before did, because
    /// RocksDB copies them, and the room for them would cost more than the copy.
    pub(crate) fn with<T>(self, value: &[u8], write: impl FnOnce(&[u8]) -> T) -> T {
        assert!(self.sequence <= SEQUENCE_MAX, "the numbers last for a century");
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

    /// The head of an entry's bytes, and the value behind it.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Result<(Stored, &[u8]), StoreError> {
        Stored::split(bytes).ok_or_else(|| unknown_head(bytes.len()))
    }

    #[inline]
    fn split(bytes: &[u8]) -> Option<(Stored, &[u8])> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + NUMBER_BYTES)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        // A time, by the eight bytes that end where it ends.
        let time =
            |end: usize| Some(number(end - NUMBER_BYTES)? >> (8 * (NUMBER_BYTES - TIME_BYTES)));
        let first = number(0)?;
        let (expires_at_ms, length) = match first >> KIND_SHIFT {
            KIND_LASTING => (0, NUMBER_BYTES),
            KIND_EXPIRING => (time(EXPIRING_LENGTH)?, EXPIRING_LENGTH),
            _ => return None,
        };
        let stored = Stored { sequence: first & SEQUENCE_MAX, expires_at_ms };
        Some((stored, &bytes[length..]))
    }

    /// True if its time is not over.
    #[inline]
    pub(crate) fn is_live(self) -> bool {
        self.expires_at_ms == 0 || self.expires_at_ms > Clock::system().wall().rising().unix_ms()
    }

    /// The part of an entry that is wanted, if it is there and its time is not over.
    #[inline]
    pub(crate) fn shown<T>(
        bytes: Option<&[u8]>,
        shown: impl Fn(Stored, &[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        let Some(bytes) = bytes else { return Ok(None) };
        let (stored, value) = Stored::of(bytes)?;
        Ok(stored.is_live().then(|| shown(stored, value)))
    }

    /// The head of an entry with this value.
    #[inline]
    pub(crate) fn head(self, value: &[u8]) -> Head {
        let (sequence, written_at_ms) = (self.sequence, written_at_ms(self.sequence));
        Head { sequence, written_at_ms, value_length: value.len() as u64 }
    }

    /// The same with a copy of the value.
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
    fn heads_come_back_and_short_entries_are_refused() {
        let expiring = Stored { sequence: SEQUENCE_MAX, expires_at_ms: 9 };
        let lasting = Stored { expires_at_ms: 0, ..expiring };
        for (stored, length) in [(expiring, 14), (lasting, 8)] {
            let bytes = stored.with(b"value", <[u8]>::to_vec);
            assert_eq!(bytes.len(), length + 5);
            assert_eq!(Stored::of(&bytes), Ok((stored, &b"value"[..])));
            assert_eq!(Stored::of(&bytes[..length]), Ok((stored, &b""[..])));
            for cut in 0..length {
                assert!(Stored::of(&bytes[..cut]).is_err(), "{cut} bytes");
            }
            assert_eq!(stored.is_live(), stored == lasting);
        }
        assert!(Stored::of(b"not a head of ours at all").is_err());
    }

    #[test]
    fn times_without_room_end_last() {
        let bytes = Stored { sequence: 1, expires_at_ms: u64::MAX }.with(b"", <[u8]>::to_vec);
        let ends = Stored { sequence: 1, expires_at_ms: TIME_MAX_MS };
        assert_eq!(Stored::of(&bytes), Ok((ends, &b""[..])));
    }
}
