//! The results of reads.

pub use pellucid_io::FileBytes as Value;

use crate::ledger::{self, FoundEntry};

/// Everything about a key except its value, as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The sequence number of the write: unique, and higher for later writes.
    pub sequence: u64,
    /// The time of the write, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// The time of expiry, in milliseconds since the Unix epoch; 0 for never.
    pub expires_at_ms: u64,
    /// Length of the value in bytes.
    pub value_length: u32,
    /// The head bytes that the write gave.
    pub metadata: Metadata,
}

impl Head {
    pub(crate) fn from_found(mut found: FoundEntry) -> Head {
        Head::taken_from(&mut found)
    }

    /// Moves the head out of `found`, and leaves the rest in place.
    #[inline]
    pub(crate) fn taken_from(found: &mut FoundEntry) -> Head {
        Head {
            sequence: found.sequence,
            written_at_ms: found.written_at_ms,
            expires_at_ms: found.expires_at_ms,
            value_length: found.value_length,
            metadata: found.take_head(),
        }
    }
}

/// The bytes of a head. A short head needs no allocation.
pub type Metadata = ledger::Head;

/// A key's head and value.
#[derive(Clone, Debug)]
pub struct Object {
    /// The head.
    pub head: Head,
    /// The value.
    pub value: Value,
}
