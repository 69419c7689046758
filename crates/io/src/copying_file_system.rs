//! A file system whose maps are copies made by read calls. It is for tools that inspect damaged
//! files and continue behind unreadable parts.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::unreadable_pages::UnreadableMark;
use crate::{File, FileSystem, LockGuard, Map, MapMode, ZeroedMemory, pass_on};

/// Bytes that are read by one call. If that fails, they are read page by page.
const PIECE_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4_096;

/// A wrapper of a file system that maps files by reading them. A map takes as much memory as its
/// length, and has zeros where nothing could be read ([`Map::unreadable_in`]). All other calls go
/// to the wrapped file system.
#[derive(Clone, Copy)]
pub struct CopyingFileSystem<'a>(pub &'a dyn FileSystem);

impl std::fmt::Debug for CopyingFileSystem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByCalls")
    }
}

impl FileSystem for CopyingFileSystem<'_> {
    fn open(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(CopyingFile(self.0.open(path, writable)?)))
    }

    pass_on! { 0:
        fn create(path: &Path) -> io::Result<Arc<dyn File>>;
        fn rename(from: &Path, to: &Path) -> io::Result<()>;
        fn remove(path: &Path) -> io::Result<()>;
        fn list(directory: &Path) -> io::Result<Vec<String>>;
        fn create_directory(directory: &Path) -> io::Result<()>;
        fn sync_directory(directory: &Path) -> io::Result<()>;
        fn exists(path: &Path) -> bool;
        fn hard_link(from: &Path, to: &Path) -> io::Result<()>;
        fn lock(path: &Path) -> io::Result<LockGuard>;
        fn lock_to_read(path: &Path) -> io::Result<LockGuard>;
        fn free_bytes(directory: &Path) -> io::Result<u64>;
        fn mount_identity(directory: &Path) -> [u8; 16];
    }
}

struct CopyingFile(Arc<dyn File>);

impl File for CopyingFile {
    pass_on! { 0:
        fn write_all_at(bytes: &[u8], offset: u64) -> io::Result<()>;
        fn read_exact_at(buffer: &mut [u8], offset: u64) -> io::Result<()>;
        fn length() -> io::Result<u64>;
        fn set_length(length: u64) -> io::Result<()>;
        fn allocate(length: u64) -> io::Result<()>;
        fn sync() -> io::Result<()>;
        fn drop_cached(offset: u64, length: usize);
        fn will_need(offset: u64, length: usize);
    }

    fn map(&self, length: u64, mode: MapMode) -> io::Result<Arc<dyn Map>> {
        if mode == MapMode::Write {
            return self.0.map(length, mode);
        }
        if length > self.0.length()? {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(Arc::new(CopiedMap::of(&*self.0, usize::try_from(length).map_err(io::Error::other)?)))
    }
}

/// A copy of a file, with zeros in its unreadable ranges.
struct CopiedMap {
    /// The bytes; at least one, because the memory must not be empty.
    memory: ZeroedMemory,
    length: usize,
    /// The unreadable ranges, in order.
    unreadable: Vec<Range<usize>>,
    _noted: Option<UnreadableMark>,
}

impl CopiedMap {
    fn of(file: &dyn File, length: usize) -> CopiedMap {
        let memory = ZeroedMemory::new(length.max(1));
        // SAFETY: the memory has this length, is zeroed, and is not shared yet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.pointer(), length) };
        let mut unreadable: Vec<Range<usize>> = Vec::new();
        for (number, piece) in bytes.chunks_mut(PIECE_BYTES).enumerate() {
            let begin = number * PIECE_BYTES;
            if file.read_exact_at(piece, begin as u64).is_ok() {
                continue;
            }
            for (number, page) in piece.chunks_mut(PAGE_BYTES).enumerate() {
                let begin = begin + number * PAGE_BYTES;
                if file.read_exact_at(page, begin as u64).is_ok() {
                    continue;
                }
                page.fill(0);
                let end = begin + page.len();
                match unreadable.last_mut().filter(|last| last.end == begin) {
                    Some(last) => last.end = end,
                    None => unreadable.push(begin..end),
                }
            }
        }
        let noted = (!unreadable.is_empty()).then(UnreadableMark::begin);
        CopiedMap { memory, length, unreadable, _noted: noted }
    }
}

impl Map for CopiedMap {
    fn pointer(&self) -> *mut u8 {
        self.memory.pointer()
    }

    fn length(&self) -> usize {
        self.length
    }

    fn unreadable_in(&self, offset: usize, length: usize) -> Option<usize> {
        let end = offset.saturating_add(length);
        let touched = self.unreadable.iter().find(|range| range.start < end && range.end > offset);
        touched.map(|range| range.start.max(offset)).filter(|_| length > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_unreadable;
    use crate::simulated::SimulatedFileSystem;

    #[test]
    fn unreadable_pages_are_known_zeros_and_the_rest_is_copied() {
        let files = SimulatedFileSystem::new();
        files.create_directory(Path::new("/d")).unwrap();
        let (path, length) = (Path::new("/d/a"), 3 * PIECE_BYTES + 100);
        files.create(path).unwrap().write_all_at(&vec![7; length], 0).unwrap();
        let map = || {
            CopyingFileSystem(&files).open(path, false).unwrap().map(length as u64, MapMode::Read)
        };
        let whole = map().unwrap();
        assert_eq!(whole.bytes(), vec![7; length]);
        assert_eq!(whole.unreadable_in(0, length), None);
        let bad = PIECE_BYTES + PAGE_BYTES + 5..PIECE_BYTES + 2 * PAGE_BYTES + 1;
        files.fail_reads(path, bad.start as u64..bad.end as u64).unwrap();
        files.fail_reads(path, length as u64 - 1..length as u64).unwrap();
        let map = map().unwrap();
        assert!(any_unreadable());
        let (begin, end) = (PIECE_BYTES + PAGE_BYTES, PIECE_BYTES + 3 * PAGE_BYTES);
        assert!(map.bytes()[..begin].iter().all(|byte| *byte == 7));
        assert!(map.bytes()[begin..end].iter().all(|byte| *byte == 0));
        assert!(map.bytes()[end..3 * PIECE_BYTES].iter().all(|byte| *byte == 7));
        assert_eq!(map.unreadable_in(0, length), Some(begin));
        assert_eq!(map.unreadable_in(begin + 9, 1), Some(begin + 9));
        assert_eq!(map.unreadable_in(0, begin), None);
        assert_eq!(map.unreadable_in(end, length - end), Some(3 * PIECE_BYTES));
    }
}
