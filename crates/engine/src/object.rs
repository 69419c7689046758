//! What a look-up returns.

use std::ops::Deref;
use std::sync::Arc;

use pellucid_io::Map;

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
    pub(crate) fn from_found(found: FoundEntry) -> Head {
        Head {
            sequence: found.sequence,
            written_at_ms: found.written_at_ms,
            expires_at_ms: found.expires_at_ms,
            value_length: found.value_length,
            metadata: Metadata(found.head),
        }
    }
}

/// The bytes of a head. Few bytes are held without an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata(ledger::Head);

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

/// The bytes of a value. As a rule they lie in the mapped journal: nothing is copied, and the
/// segment stays mapped for as long as the value lives.
#[derive(Clone)]
pub struct Value(ValueBytes);

#[derive(Clone)]
enum ValueBytes {
    Mapped { map: Arc<dyn Map>, offset: usize, length: usize },
    Owned(Arc<[u8]>),
}

impl Value {
    /// The value at `offset` of `map`, which nobody writes to any more.
    pub(crate) fn mapped(map: Arc<dyn Map>, offset: usize, length: usize) -> Value {
        assert!(offset.checked_add(length).is_some_and(|end| end <= map.length()));
        Value(ValueBytes::Mapped { map, offset, length })
    }

    /// A value that was copied or unpacked.
    pub(crate) fn owned(bytes: Arc<[u8]>) -> Value {
        Value(ValueBytes::Owned(bytes))
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: `mapped` checked that the range is within the map, which lives as long as
            // `self`. The record there was complete before its sequence number was published, and a
            // place in the journal is never written twice.
            ValueBytes::Mapped { map, offset, length } => unsafe {
                std::slice::from_raw_parts(map.pointer().add(*offset), *length)
            },
            ValueBytes::Owned(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}
