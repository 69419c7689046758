//! How an entry lies in RocksDB: a head of fixed length before the value.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | sequence number |
//! | 8 | when it was written, in milliseconds since the Unix epoch |
//! | 8 | when its time is over, likewise; zero for never |

use std::cell::RefCell;

use pellucid_clock::WallTime;
use pellucid_store::{Head, StoreError};

/// Room that each thread keeps for entries.
const ENTRY_BYTES_KEPT: usize = 64 << 10;

thread_local! {
    static ENTRY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Bytes of the head.
pub(crate) const HEAD_LENGTH: usize = 24;

/// The head of an entry, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) sequence: u64,
    pub(crate) written_at_ms: u64,
    pub(crate) expires_at_ms: u64,
}

impl Stored {
    /// Hands the entry's bytes to `write`. They lie where those of the entry before did, because
    /// RocksDB copies them, and the room for them would cost more than the copy.
    pub(crate) fn with<T>(self, value: &[u8], write: impl FnOnce(&[u8]) -> T) -> T {
        ENTRY.with_borrow_mut(|bytes| {
            bytes.clear();
            for number in [self.sequence, self.written_at_ms, self.expires_at_ms] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(value);
            let done = write(bytes);
            bytes.shrink_to(ENTRY_BYTES_KEPT);
            done
        })
    }

    /// The head of an entry's bytes.
    pub(crate) fn of(bytes: &[u8]) -> Result<Stored, StoreError> {
        let number = |place: usize| {
            let bytes = bytes.get(place * 8..place * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let all = (number(0), number(1), number(2));
        let (Some(sequence), Some(written_at_ms), Some(expires_at_ms)) = all else {
            let length = bytes.len();
            return Err(StoreError::Corruption(format!(
                "an entry of {length} bytes is too short for its head: is the folder Pellucid's?"
            )));
        };
        Ok(Stored { sequence, written_at_ms, expires_at_ms })
    }

    /// Whether its time is not over.
    pub(crate) fn is_live(self) -> bool {
        self.expires_at_ms == 0 || self.expires_at_ms > WallTime::now().unix_ms()
    }

    /// The head of an entry that has so many bytes.
    pub(crate) fn head(self, entry_length: usize) -> Head {
        let Stored { sequence, written_at_ms, .. } = self;
        Head { sequence, written_at_ms, value_length: (entry_length - HEAD_LENGTH) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_short_entries_are_refused() {
        let stored = Stored { sequence: 7, written_at_ms: 8, expires_at_ms: 9 };
        let bytes = stored.with(b"value", <[u8]>::to_vec);
        assert_eq!(Stored::of(&bytes), Ok(stored));
        assert_eq!(stored.head(bytes.len()).value_length, 5);
        assert!(!stored.is_live() && Stored { expires_at_ms: 0, ..stored }.is_live());
        assert!(Stored::of(&bytes[..23]).is_err());
    }
}
