//! What a look-up returns.

use std::ops::Deref;
use std::sync::Arc;

use pellucid_io::{Map, any_unreadable};

use crate::ledger::{self, FoundEntry, HeldValue};
use crate::mapped::Mapped;

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

/// The bytes of a value. As a rule they lie in the mapped journal: nothing is copied, and the
/// segment stays mapped for as long as the value lives. A short one that lies in the ledger is
/// copied into this, without an allocation.
#[derive(Clone)]
pub struct Value(ValueBytes);

#[derive(Clone)]
enum ValueBytes {
    /// In the map, which is held for that.
    Mapped { begin: *const u8, length: usize, _map: Arc<dyn Map> },
    /// Copied or unpacked.
    Copied(HeldValue),
}

// SAFETY: the pointer names bytes of the map that nobody writes to any more, and the map may be
// shared between threads.
unsafe impl Send for ValueBytes {}
// SAFETY: as above.
unsafe impl Sync for ValueBytes {}

impl Value {
    /// The value at `offset` of `map`, which nobody writes to any more.
    #[inline]
    pub(crate) fn mapped(map: &Mapped, offset: usize, length: usize) -> Value {
        assert!(offset.checked_add(length).is_some_and(|end| end <= map.length()));
        let begin = map.pointer().wrapping_add(offset).cast_const();
        Value(ValueBytes::Mapped { begin, length, _map: Arc::clone(map.map()) })
    }

    /// Whether the bytes, which were just used, were those that were checked when the value was
    /// found: their pages may have left memory since, and may not be readable a second time.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let ValueBytes::Mapped { begin, length, _map: map } = &self.0 else { return true };
        let offset = begin.addr() - map.pointer().addr();
        !any_unreadable() || map.unreadable_in(offset, *length).is_none()
    }

    /// A value that was copied or unpacked.
    #[inline]
    pub(crate) fn owned(bytes: impl Into<HeldValue>) -> Value {
        Value(ValueBytes::Copied(bytes.into()))
    }

    /// Bytes of memory that it takes; none where it lies in a mapped file.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match &self.0 {
            ValueBytes::Mapped { .. } => 0,
            ValueBytes::Copied(bytes) => bytes.len(),
        }
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
            ValueBytes::Mapped { begin, length, .. } => unsafe {
                std::slice::from_raw_parts(*begin, *length)
            },
            ValueBytes::Copied(bytes) => bytes,
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
