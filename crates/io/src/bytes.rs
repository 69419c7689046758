//! The bytes that a read of a file returns.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::file::Map;
use crate::short::ShortBytes;
use crate::unreadable::any_unreadable;

/// Bytes of a file. As a rule they lie in a map of it: nothing is copied, and the file stays mapped
/// for as long as they live. Up to 64 of them that were copied need no allocation.
#[derive(Clone)]
pub struct FileBytes(Source);

#[derive(Clone)]
enum Source {
    /// In the map, which is held for that.
    Mapped {
        begin: *const u8,
        length: usize,
        map: Arc<dyn Map>,
    },
    Copied(ShortBytes<64>),
}

// SAFETY: the pointer names bytes of the map that nobody writes to any more, and the map may be
// shared between threads.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

impl FileBytes {
    /// The `length` bytes of `map` at `begin`, without a call to the map.
    ///
    /// # Safety
    /// They lie within the map, and nobody writes to them any more.
    #[inline]
    #[must_use]
    pub unsafe fn mapped(map: &Arc<dyn Map>, begin: *const u8, length: usize) -> FileBytes {
        FileBytes(Source::Mapped { begin, length, map: Arc::clone(map) })
    }

    /// Bytes that were copied or unpacked.
    #[inline]
    #[must_use]
    pub fn copied(bytes: impl Into<ShortBytes<64>>) -> FileBytes {
        FileBytes(Source::Copied(bytes.into()))
    }

    /// Whether the bytes, which were just used, were those that were checked when they were
    /// read: their pages may have left memory since, and may not be readable a second time.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let Source::Mapped { begin, length, map } = &self.0 else { return true };
        let offset = begin.addr() - map.pointer().addr();
        !any_unreadable() || map.unreadable_in(offset, *length).is_none()
    }

    /// Bytes of memory that they take; none where they lie in a map.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match &self.0 {
            Source::Mapped { .. } => 0,
            Source::Copied(bytes) => bytes.len(),
        }
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: `mapped` asks for bytes within the map, which lives as long as `self`, and
            // for nobody to write to them.
            Source::Mapped { begin, length, .. } => unsafe {
                std::slice::from_raw_parts(*begin, *length)
            },
            Source::Copied(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for FileBytes {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileBytes({} bytes)", self.len())
    }
}
