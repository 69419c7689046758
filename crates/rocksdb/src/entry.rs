//! How an entry lies in RocksDB: a head before the value.
//!
//! | bytes | what |
//! |---|---|
//! | 7 | sequence number |
//! | 1 | 1 if the entry is there until it is removed, 2 if its time ends |
//! | 6 | when it was written, in milliseconds since the Unix epoch |
//! | 6, after a 2 alone | when its time is over, likewise |
//!
//! Each byte is one more in the log, its checksum and the memtable, so none is spent on what is
//! zero in nearly all entries. Those of earlier states have 0 where the kind is now: the sequence
//! number and both times have 8 bytes there, and a time of zero ends never.

use std::cell::RefCell;

use pellucid_clock::WallTime;
use pellucid_store::{Head, Object, StoreError, Value};

/// Room that each thread keeps for entries.
const ENTRY_BYTES_KEPT: usize = 64 << 10;
/// Where the number behind the sequence number begins that says what kind of head it is.
const KIND_SHIFT: u32 = 56;
const SEQUENCE_MAX: u64 = (1 << KIND_SHIFT) - 1;
const KIND_EARLIER: u64 = 0;
const KIND_LASTING: u64 = 1;
const KIND_EXPIRING: u64 = 2;
const TIME_BYTES: usize = 6;
/// The last time that has room: in the year 10889.
const TIME_MAX_MS: u64 = (1 << (8 * TIME_BYTES)) - 1;
/// The bytes of a head before its times, and of all kinds of heads.
const NUMBER_BYTES: usize = 8;
const LASTING_LENGTH: usize = NUMBER_BYTES + TIME_BYTES;
const EXPIRING_LENGTH: usize = LASTING_LENGTH + TIME_BYTES;
const EARLIER_LENGTH: usize = 24;

thread_local! {
    static ENTRY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The head of an entry, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) sequence: u64,
    pub(crate) written_at_ms: u64,
    /// Zero for never.
    pub(crate) expires_at_ms: u64,
}

impl Stored {
    /// Hands the entry's bytes to `write`. They lie where those of the entry before did, because
    /// RocksDB copies them, and the room for them would cost more than the copy.
    pub(crate) fn with<T>(self, value: &[u8], write: impl FnOnce(&[u8]) -> T) -> T {
        assert!(self.sequence <= SEQUENCE_MAX, "nobody writes so often");
        let time = |ms: u64| ms.min(TIME_MAX_MS).to_le_bytes();
        let is_lasting = self.expires_at_ms == 0;
        let kind = if is_lasting { KIND_LASTING } else { KIND_EXPIRING };
        let mut head = [0; EXPIRING_LENGTH];
        head[..NUMBER_BYTES].copy_from_slice(&(self.sequence | (kind << KIND_SHIFT)).to_le_bytes());
        head[NUMBER_BYTES..LASTING_LENGTH].copy_from_slice(&time(self.written_at_ms)[..TIME_BYTES]);
        head[LASTING_LENGTH..].copy_from_slice(&time(self.expires_at_ms)[..TIME_BYTES]);
        let head = if is_lasting { &head[..LASTING_LENGTH] } else { &head[..] };
        ENTRY.with_borrow_mut(|bytes| {
            bytes.clear();
            bytes.reserve(head.len() + value.len());
            bytes.extend_from_slice(head);
            bytes.extend_from_slice(value);
            let done = write(bytes);
            bytes.shrink_to(ENTRY_BYTES_KEPT);
            done
        })
    }

    /// The head of an entry's bytes, and the value behind it.
    pub(crate) fn of(bytes: &[u8]) -> Result<(Stored, &[u8]), StoreError> {
        Stored::split(bytes).ok_or_else(|| {
            let length = bytes.len();
            StoreError::Corruption(format!(
                "an entry of {length} bytes has no head that is known: is the folder Pellucid's?"
            ))
        })
    }

    fn split(bytes: &[u8]) -> Option<(Stored, &[u8])> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + NUMBER_BYTES)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        // A time, by the eight bytes that end where it ends.
        let time =
            |end: usize| Some(number(end - NUMBER_BYTES)? >> (8 * (NUMBER_BYTES - TIME_BYTES)));
        let first = number(0)?;
        let (written_at_ms, expires_at_ms, length) = match first >> KIND_SHIFT {
            KIND_LASTING => (time(LASTING_LENGTH)?, 0, LASTING_LENGTH),
            KIND_EXPIRING => (time(LASTING_LENGTH)?, time(EXPIRING_LENGTH)?, EXPIRING_LENGTH),
            KIND_EARLIER => (number(8)?, number(16)?, EARLIER_LENGTH),
            _ => return None,
        };
        let stored = Stored { sequence: first & SEQUENCE_MAX, written_at_ms, expires_at_ms };
        Some((stored, &bytes[length..]))
    }

    /// Whether its time is not over.
    pub(crate) fn is_live(self) -> bool {
        self.expires_at_ms == 0 || self.expires_at_ms > WallTime::now().unix_ms()
    }

    /// What is wanted of an entry, if it is there and its time is not over.
    pub(crate) fn shown<T>(
        bytes: Option<&[u8]>,
        shown: fn(Stored, &[u8]) -> T,
    ) -> Result<Option<T>, StoreError> {
        let Some(bytes) = bytes else { return Ok(None) };
        let (stored, value) = Stored::of(bytes)?;
        Ok(stored.is_live().then(|| shown(stored, value)))
    }

    /// The head of an entry with this value.
    pub(crate) fn head(self, value: &[u8]) -> Head {
        let Stored { sequence, written_at_ms, .. } = self;
        Head { sequence, written_at_ms, value_length: value.len() as u64 }
    }

    /// The same with a copy of the value.
    pub(crate) fn object(self, value: &[u8]) -> Object {
        Object { head: self.head(value), value: Value::Owned(value.to_vec()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_short_entries_are_refused() {
        let expiring = Stored { sequence: SEQUENCE_MAX, written_at_ms: 8, expires_at_ms: 9 };
        let lasting = Stored { expires_at_ms: 0, ..expiring };
        for (stored, length) in [(expiring, 20), (lasting, 14)] {
            let bytes = stored.with(b"value", <[u8]>::to_vec);
            assert_eq!(bytes.len(), length + 5);
            assert_eq!(Stored::of(&bytes), Ok((stored, &b"value"[..])));
            assert_eq!(Stored::of(&bytes[..length]), Ok((stored, &b""[..])));
            for cut in 0..length {
                assert!(Stored::of(&bytes[..cut]).is_err(), "{cut} bytes");
            }
        }
        assert!(!expiring.is_live() && lasting.is_live());
        assert!(Stored::of(b"not a head of ours at all").is_err());
    }

    #[test]
    fn times_without_room_end_last() {
        let stored = Stored { sequence: 1, written_at_ms: u64::MAX, expires_at_ms: u64::MAX };
        let bytes = stored.with(b"", <[u8]>::to_vec);
        let ends = Stored { written_at_ms: TIME_MAX_MS, expires_at_ms: TIME_MAX_MS, ..stored };
        assert_eq!(Stored::of(&bytes), Ok((ends, &b""[..])));
    }

    /// Folders of earlier states are read.
    #[test]
    fn heads_of_earlier_states_are_known() {
        let bytes: Vec<u8> = [7_u64, 8, 9].iter().flat_map(|number| number.to_le_bytes()).collect();
        let stored = Stored { sequence: 7, written_at_ms: 8, expires_at_ms: 9 };
        let with_value = [&bytes[..], b"value"].concat();
        assert_eq!(Stored::of(&with_value), Ok((stored, &b"value"[..])));
        assert!(Stored::of(&bytes[..23]).is_err());
    }
}
