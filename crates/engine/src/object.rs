//! What a look-up returns.

use std::ops::Deref;

pub use pellucid_io::FileBytes as Value;

use crate::ledger::{self, FoundEntry};

/// What the ledger knows of a key: all but its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The sequence number of the write: no two writes have the same, and later ones have higher.
    pub sequence: u64,
    /// When it was written, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// When it expires, in milliseconds since the Unix epoch; 0 for never.
    pub expires_at_ms: u64,
    /// Length of the value in bytes.
    pub value_length: u32,
    /// The head that it was written with.
    pub metadata: Metadata,
}

impl Head {
    pub(crate) fn from_found(mut found: FoundEntry) -> Head {
        Head::taken_from(&mut found)
    }

    /// The head of what was found, without moving the rest of it.
    #[inline]
    pub(crate) fn taken_from(found: &mut FoundEntry) -> Head {
        Head {
            sequence: found.sequence,
            written_at_ms: found.written_at_ms,
            expires_at_ms: found.expires_at_ms,
            value_length: found.value_length,
            metadata: Metadata(found.take_head()),
        }
    }
}

/// The bytes of a head. Few bytes are held without an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata(ledger::Head);

impl From<ledger::Head> for Metadata {
    fn from(head: ledger::Head) -> Metadata {
        Metadata(head)
    }
}

impl Deref for Metadata {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A key's head and value.
#[derive(Clone, Debug)]
pub struct Object {
    /// All but the value.
    pub head: Head,
    /// The value.
    pub value: Value,
}
