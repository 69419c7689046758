//! The traits of files and file systems, with only the operations that a store needs.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Methods that forward to the methods of a field with the same names, for wrappers of a file
/// system or a file.
///
/// ```
/// struct Dry<'a>(&'a [u8]);
///
/// impl Dry<'_> {
///     pellucid_io::pass_on! { 0:
///         fn len() -> usize;
///         fn starts_with(needle: &[u8]) -> bool;
///     }
/// }
///
/// assert!(Dry(b"dry").len() == 3 && Dry(b"dry").starts_with(b"d"));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! pass_on {
    ($field:tt: $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $returned:ty)?;)*) => {
        $(
            fn $name(&self, $($argument: $type),*) $(-> $returned)? {
                self.$field.$name($($argument),*)
            }
        )*
    };
}

/// The purpose of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapMode {
    /// Reading in any order; the operating system may read ahead.
    Read,
    /// Reading at random places: reading ahead would only evict useful pages.
    ReadRandom,
    /// Reading and writing. The space must have been allocated before ([`File::allocate`]). Without
    /// space on a full disk, writes are lost, which only [`Map::unreadable_in`] shows.
    Write,
}

/// The file system, as far as a store needs it.
pub trait FileSystem: Send + Sync {
    /// Creates a file for reading and writing, and empties it if it exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file.
    fn open(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn File>>;
    /// Renames a file, and replaces an existing file of the new name. The new name is durable once
    /// the directory is synced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Maps and open files of it stay valid.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names of the files in a directory, in ascending order, without directories.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Creates a directory and its missing parents. It is no error if it exists already.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable: creations, renames, removals.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// True if a file or directory of this name exists.
    fn exists(&self, path: &Path) -> bool;
    /// Gives a file a second name.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Locks a file exclusively until the guard is dropped; creates it if necessary. The error is
    /// [`io::ErrorKind::WouldBlock`] if another holder has the lock.
    fn lock(&self, path: &Path) -> io::Result<LockGuard>;
    /// Locks a file as [`FileSystem::lock`] does, for a holder that changes nothing: others of the
    /// same kind may share the lock, and a file that exists need not be writable.
    fn lock_to_read(&self, path: &Path) -> io::Result<LockGuard> {
        self.lock(path)
    }
    /// The bytes that can still be written in the file system of `directory`.
    fn free_bytes(&self, directory: &Path) -> io::Result<u64>;
    /// The identity of the present mount of the file system of `directory`, in this boot of the
    /// machine. As long as it stays the same, the contents of the page cache are intact. A copied
    /// image of a volume has another identity, and so has a disk that was removed and came back.
    /// Zero if it is unknown.
    fn mount_identity(&self, directory: &Path) -> [u8; 16];
}

/// An open file.
pub trait File: Send + Sync {
    /// Writes all bytes at `offset`, and extends the file if necessary.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Fills `buffer` from `offset`. It is an error if the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Truncates the file, or extends it with zeros that may have no space on the medium yet.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Extends the file to at least `length` bytes, with allocated space. A full disk is an error
    /// ([`io::ErrorKind::StorageFull`]).
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Returns once all bytes written so far, by call or by map, are on the medium.
    fn sync(&self) -> io::Result<()>;
    /// Hints that the bytes that were just read from `offset` on are not needed again soon, so that
    /// they do not displace other cached bytes. It may do nothing.
    fn drop_cached(&self, offset: u64, length: usize) {
        let _ = (offset, length);
    }
    /// Hints that the bytes from `offset` on will be read soon: the system begins to fetch exactly
    /// them, and the caller does not wait. It may do nothing.
    fn will_need(&self, offset: u64, length: usize) {
        let _ = (offset, length);
    }
    /// Maps the first `length` bytes, which must be within the file.
    fn map(&self, length: u64, mode: MapMode) -> io::Result<Arc<dyn Map>>;
}

/// A map of a file in memory.
pub trait Map: Send + Sync {
    /// The address of the first byte. It does not change while the map lives. Writing is allowed
    /// only in maps made with [`MapMode::Write`].
    fn pointer(&self) -> *mut u8;
    /// The length in bytes.
    fn length(&self) -> usize;
    /// All bytes of a map that is not written any more.
    ///
    /// A caller that shares a map with a writer must not use this. It must access the parts that
    /// are complete by [`Map::pointer`].
    fn bytes(&self) -> &[u8] {
        // SAFETY: the map has `length` bytes from `pointer` on while it lives, and the caller
        // asserts that they are not written.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.length()) }
    }
    /// Hints that the pages from `offset` on should be made present and writable now, so that the
    /// first access does not wait for them. It may do nothing.
    fn prefault(&self, offset: usize, length: usize) {
        let _ = (offset, length);
    }
    /// Hints that the pages from `offset` on should be loaded into memory without changing them, so
    /// that a write to them does not wait. It may do nothing.
    fn bring_in(&self, offset: usize, length: usize) {
        let _ = (offset, length);
    }
    /// Hints, before a sync, that the bytes are not written any more, so that they can be unmapped:
    /// a sync has to find all mappings of each page, and to notify each processor of each page that
    /// becomes clean. The bytes stay in memory, and are mapped again, in large pieces, when they
    /// are read. It may do nothing.
    fn settle(&self) {}
    /// Hints that from now on the bytes are read at random places, as with
    /// [`MapMode::ReadRandom`], for a map that was written in order. It may do nothing.
    fn expect_random(&self) {}
    /// Hints that large pages should be used for the first `length` bytes, as far as they are not
    /// in memory yet. Then first accesses cost much less, but a sync writes a whole large page for
    /// any change in it. It may do nothing.
    fn prefer_large_pages(&self, length: usize) {
        let _ = length;
    }
    /// The offset of the first of these bytes that could not be read or written since the map was
    /// made. Such bytes are zeros, and writes to them are lost. `None` if there are none. Bytes
    /// that were not accessed yet are not known. Call it **after** the use of the bytes, if
    /// [`any_unreadable`](crate::any_unreadable) returns true.
    fn unreadable_in(&self, offset: usize, length: usize) -> Option<usize> {
        let _ = (offset, length);
        None
    }
    /// True if all pages of the `length` bytes from `offset` on are in memory, so that reading them
    /// does not wait for the medium. Always true for files that exist only in memory.
    fn is_resident(&self, offset: usize, length: usize) -> bool {
        let _ = (offset, length);
        true
    }
}

/// The guard of a locked file, which releases the lock when it is dropped.
pub struct LockGuard {
    _held: Box<dyn Any + Send + Sync>,
}

impl LockGuard {
    /// A guard that releases its lock by dropping `held`.
    #[must_use]
    pub fn new(held: Box<dyn Any + Send + Sync>) -> LockGuard {
        LockGuard { _held: held }
    }
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LockGuard")
    }
}
