//! Bytes that were read from a file, mapped or copied.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::file::Map;
use crate::short_bytes::ShortBytes;
use crate::unreadable_pages::any_unreadable;

/// Bytes of a file. Usually they lie in a map of it: then nothing is copied, and the file stays
/// mapped as long as they live. Otherwise they are a copy; up to 64 bytes need no allocation.
#[derive(Clone)]
pub struct FileBytes(Source);

#[derive(Clone)]
enum Source {
    /// Bytes in a map, which is kept alive by this.
    Mapped {
        begin: *const u8,
        length: usize,
        map: Arc<dyn Map>,
    },
    Copied(ShortBytes<64>),
}

// SAFETY: the pointer is to bytes of the map that are not written any more, and the map may be
// shared between threads.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

impl FileBytes {
    /// The `length` bytes of `map` at `begin`, without a call of the map.
    ///
    /// # Safety
    /// The bytes must lie within the map, and must not be written any more.
    #[inline]
    #[must_use]
    pub unsafe fn mapped(map: &Arc<dyn Map>, begin: *const u8, length: usize) -> FileBytes {
        FileBytes(Source::Mapped { begin, length, map: Arc::clone(map) })
    }

    /// Bytes that were copied or decompressed.
    #[inline]
    #[must_use]
    pub fn copied(bytes: impl Into<ShortBytes<64>>) -> FileBytes {
        FileBytes(Source::Copied(bytes.into()))
    }

    /// True if the bytes, which were just used, were readable. They were checked when they were
    /// first read, but their pages may have been evicted since, and a second read of them may fail.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        if !any_unreadable() {
            return true;
        }
        let Source::Mapped { begin, length, map } = &self.0 else { return true };
        let offset = begin.addr() - map.pointer().addr();
        map.unreadable_in(offset, *length).is_none()
    }

    /// The bytes of memory that they take; zero if they lie in a map.
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
            // SAFETY: by the contract of `mapped`, the bytes lie within the map, which lives as
            // long as `self`, and are not written any more.
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
