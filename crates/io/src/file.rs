//! The traits: what a store asks of the file system, and no more.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Methods that do what a field's methods of the same names do, for a file system or a file that
/// stands before another one.
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
    /// Reading at random: reading ahead would only evict what is useful.
    ReadRandom,
    /// Reading and writing. The space must have been allocated before ([`File::allocate`]): what is
    /// written where a full disk has none is known by [`Map::unreadable_in`] alone.
    Write,
}

/// The file system, as far as a store needs it.
pub trait FileSystem: Send + Sync {
    /// Creates a file for reading and writing, and empties it if it exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens a file that exists.
    fn open(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn File>>;
    /// Renames a file, in place of one that has the name already. The name is durable once the
    /// directory is synced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Maps and open files of it stay valid.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names of the files in a directory, in ascending order, without directories.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Creates a directory and those above it; that it exists already is no error.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable: creations, renames, removals.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// True if a file or directory of this name exists.
    fn exists(&self, path: &Path) -> bool;
    /// Gives a file a second name.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Locks a file, which is created if need be, for this process alone until the guard is
    /// dropped. [`io::ErrorKind::WouldBlock`] says that another one holds it.
    fn lock(&self, path: &Path) -> io::Result<LockGuard>;
    /// Bytes that can still be written in the file system that holds `directory`.
    fn free_bytes(&self, directory: &Path) -> io::Result<u64>;
    /// The identity of this mounting, in this boot of the machine, of the file system that holds
    /// `directory`: what was in the page cache is intact for as long as the identity stays. The
    /// image of a volume has another one, and so has a disk that was taken off and came back. Zero
    /// if it is unknown.
    fn mount_identity(&self, directory: &Path) -> [u8; 16];
}

/// An open file.
pub trait File: Send + Sync {
    /// Writes all bytes at `offset`, and makes the file longer if need be.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Fills `buffer` from `offset`; the end of the file before that is an error.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts the file, or makes it longer with zeros that may have no space on the medium yet.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Makes the file at least `length` bytes long with space that is really there: a full disk is
    /// an error here ([`io::ErrorKind::StorageFull`]).
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Returns once all bytes written so far, by call or by map, are on the medium.
    fn sync(&self) -> io::Result<()>;
    /// Says that the bytes that were just read from `offset` on are not needed again soon, so that
    /// what else is cached need not make room for them. A hint: it may do nothing.
    fn drop_cached(&self, offset: u64, length: usize) {
        let _ = (offset, length);
    }
    /// Says that the bytes from `offset` on will be read soon: the system begins to fetch them, and
    /// no others around them, and the caller need not wait. A hint: it may do nothing.
    fn will_need(&self, offset: u64, length: usize) {
        let _ = (offset, length);
    }
    /// Maps the first `length` bytes, which must be within the file.
    fn map(&self, length: u64, mode: MapMode) -> io::Result<Arc<dyn Map>>;
}

/// Bytes of a file in memory.
pub trait Map: Send + Sync {
    /// The first byte. It stays where it is for as long as the map lives. Writing is allowed in
    /// maps made with [`MapMode::Write`] only.
    fn pointer(&self) -> *mut u8;
    /// The length in bytes.
    fn length(&self) -> usize;
    /// All bytes of a map that nobody writes to any more.
    ///
    /// A caller that shares a map with a writer must not use this, but take the parts that are
    /// settled by [`Map::pointer`].
    fn bytes(&self) -> &[u8] {
        // SAFETY: the map holds `length` bytes from `pointer` for as long as it lives, and the
        // caller asserts that nobody writes to them.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.length()) }
    }
    /// Asks for the pages from `offset` to be made present and writable now, so that the first
    /// touch does not have to wait for them. A hint: it may do nothing.
    fn prefault(&self, offset: usize, length: usize) {
        let _ = (offset, length);
    }
    /// Brings the pages from `offset` into memory without changing them, so that a write to them
    /// need not wait until there is memory. A hint: it may do nothing.
    fn bring_in(&self, offset: usize, length: usize) {
        let _ = (offset, length);
    }
    /// Says that nobody writes to the bytes any more, before they are synced: a sync has to look up
    /// every place that a page is mapped at, and to tell each processor of each page that it makes
    /// clean. The bytes stay in memory, and are mapped again, in large pieces, when they are read.
    /// A hint: it may do nothing.
    fn settle(&self) {}
    /// Says that from now on the bytes are read in any order, as with [`MapMode::ReadRandom`]: for
    /// a map that was written in order. A hint: it may do nothing.
    fn expect_random(&self) {}
    /// Asks for large pages for the first `length` bytes, as far as they are not yet in memory.
    /// Touching them costs much less, and a sync of a change writes all of a large page. It is
    /// advice.
    fn prefer_large_pages(&self, length: usize) {
        let _ = length;
    }
    /// The first of these bytes that could not be read or written since the map was made,
    /// and are zeros that nobody keeps; `None` if all were there. Bytes that nobody has used are
    /// not known. To be asked **behind** the use of the bytes, if
    /// [`any_unreadable`](crate::any_unreadable) says that there is a reason to.
    fn unreadable_in(&self, offset: usize, length: usize) -> Option<usize> {
        let _ = (offset, length);
        None
    }
    /// True if all pages of the `length` bytes from `offset` are in memory, so that reading them
    /// does not wait for the medium. What lives in memory anyway always is.
    fn is_resident(&self, offset: usize, length: usize) -> bool {
        let _ = (offset, length);
        true
    }
}

/// Holds a lock until it is dropped.
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
