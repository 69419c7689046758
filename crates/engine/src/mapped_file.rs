//! A map with its pointer and length in fields: a look-up needs them a dozen times, and each would
//! otherwise be a call through the trait.

use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use pellucid_io::{FileBytes, FileSystem, Map, MapMode, any_unreadable};

use crate::error::{Error, Result};

/// The description of bytes that the medium could not deliver.
const UNREADABLE: &str = "the page cannot be read from the medium, or written to it";

/// The smallest page: if a byte cannot be read, its whole page cannot.
pub(crate) const PAGE_BYTES: usize = 4_096;

/// Maps a whole file that is not written any more.
pub(crate) fn map_file(files: &dyn FileSystem, path: &Path) -> Result<Arc<dyn Map>> {
    let open = || {
        let file = files.open(path, false)?;
        file.map(file.length()?, MapMode::Read)
    };
    open().map_err(|error| Error::io("read", path, error))
}

/// The ranges of a map that could not be read, in order, each as (offset, length).
pub(crate) fn unreadable_parts(map: &dyn Map) -> Vec<(u64, u64)> {
    let (mut parts, mut from, length) = (Vec::new(), 0, map.length());
    while let Some(begin) = map.unreadable_in(from, length - from) {
        let mut end = begin;
        while end < length && map.unreadable_in(end, 1).is_some() {
            end = ((end / PAGE_BYTES + 1) * PAGE_BYTES).min(length);
        }
        parts.push((begin as u64, (end - begin) as u64));
        from = end;
    }
    parts
}

/// A map with its pointer and length.
pub(crate) struct MappedFile {
    pointer: *mut u8,
    length: usize,
    map: Arc<dyn Map>,
}

// SAFETY: the pointer points to memory of the map, which may be shared between threads. The users
// decide which thread may write where, as with the map itself.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// The first byte, as [`Map::pointer`] returns it.
    #[inline]
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// The length in bytes.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// All bytes of a map that is not written any more, as [`Map::bytes`] returns them.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the map holds `length` bytes from `pointer` on as long as it lives, and the
        // caller guarantees that they are not written any more.
        unsafe { std::slice::from_raw_parts(self.pointer, self.length) }
    }

    /// Returns an error if a page in `range`, which was just used, failed ([`Map::unreadable_in`]):
    /// reads have then returned zeros, and writes are lost. `path` is the file.
    #[inline]
    pub(crate) fn check(&self, range: Range<usize>, path: &Path) -> Result<()> {
        if any_unreadable() { self.check_slowly(range, path) } else { Ok(()) }
    }

    #[cold]
    fn check_slowly(&self, range: Range<usize>, path: &Path) -> Result<()> {
        match self.map.unreadable_in(range.start, range.len()) {
            None => Ok(()),
            Some(offset) => Err(Error::corruption(path, offset as u64, UNREADABLE)),
        }
    }

    /// The bytes at `offset`, which are not written any more.
    #[inline]
    pub(crate) fn value(&self, offset: usize, length: usize) -> FileBytes {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.length));
        let begin = self.pointer.wrapping_add(offset).cast_const();
        // SAFETY: the range is within the map. The record there was complete before its sequence
        // number was published, and an offset in the journal is never overwritten.
        unsafe { FileBytes::mapped(&self.map, begin, length) }
    }
}

impl From<Arc<dyn Map>> for MappedFile {
    fn from(map: Arc<dyn Map>) -> MappedFile {
        MappedFile { pointer: map.pointer(), length: map.length(), map }
    }
}

impl Deref for MappedFile {
    type Target = dyn Map;

    fn deref(&self) -> &(dyn Map + 'static) {
        &*self.map
    }
}
