//! Pages of mapped files that cannot be read or written: because of a bad sector, a truncated file,
//! or a full file system. Such an access raises the signal SIGBUS, which by default ends the
//! process.
//!
//! The signal handler of this module replaces the page by a page of zeros, notes its address, and
//! returns, so that the access continues with zeros. Code that reads or writes mapped files checks
//! **afterwards** ([`Map::unreadable_in`](crate::Map::unreadable_in)) whether the bytes were real.
//! While no page has failed, the check is one load of a counter that is zero ([`any_unreadable`]).
//!
//! This is sound, because
//! - the handler replaces only pages of maps that are registered here: for any other address it
//!   passes the signal on to the previous handler;
//! - a map is removed from the register before it is unmapped, and code that accesses a map keeps
//!   it alive, so the page belongs to that map and not to a later one at the same address;
//! - the handler calls only `mmap`, a system call that uses no state of the process. It takes no
//!   lock, allocates nothing, and reads atomics whose changes it can detect (a generation is
//!   incremented before and after each change);
//! - the page is noted before it is replaced, so that code that has read zeros finds the note;
//! - no byte of the page had a value for this access before, and zeros are a possible value of any
//!   file: all code that decodes mapped bytes validates them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Once, OnceLock};

use crate::page::page_size_bytes;

/// The slots of a chunk of the register.
const SLOTS_A_CHUNK: usize = 1_024;
/// The most chunks: they have slots for more maps than Linux allows a process by default
/// (`vm.max_map_count`). Further maps are not registered, and their bad pages end the process.
const CHUNKS_MAX: usize = 64;
/// The most bad pages that are noted individually. Beyond it, all of a map counts as bad.
const PAGES_MAX: usize = 1_024;

/// A slot of the register, for one map.
struct Slot {
    is_taken: AtomicBool,
    /// The generation, which is odd while the next three fields are being changed.
    generation: AtomicU64,
    /// The first address of the map; zero if there is none.
    begin: AtomicUsize,
    length: AtomicUsize,
    is_writable: AtomicBool,
    /// The number of replaced pages.
    replaced: AtomicU64,
    /// True if not all replaced pages are in [`PAGES`].
    is_whole: AtomicBool,
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            is_taken: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            begin: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            is_writable: AtomicBool::new(false),
            replaced: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
        }
    }

    /// Registers another map in this slot. Only the owner of the slot may call this.
    fn set(&self, begin: usize, length: usize, is_writable: bool) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.length.store(length, Ordering::SeqCst);
        self.is_writable.store(is_writable, Ordering::SeqCst);
        self.begin.store(begin, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// None unless `address` lies within the map; else true if the map is writable.
    fn holds(&self, address: usize) -> Option<bool> {
        let generation = self.generation.load(Ordering::SeqCst);
        let begin = self.begin.load(Ordering::SeqCst);
        let length = self.length.load(Ordering::SeqCst);
        let is_writable = self.is_writable.load(Ordering::SeqCst);
        // A slot that is being changed is not that of a map that is being accessed.
        let is_settled =
            generation.is_multiple_of(2) && self.generation.load(Ordering::SeqCst) == generation;
        let is_within = begin != 0 && address >= begin && address - begin < length;
        (is_settled && is_within).then_some(is_writable)
    }
}

type Chunk = [Slot; SLOTS_A_CHUNK];

/// The register. A chunk is never freed.
static CHUNKS: [OnceLock<Box<Chunk>>; CHUNKS_MAX] = [const { OnceLock::new() }; CHUNKS_MAX];
/// The addresses of replaced pages; zero in free entries.
static PAGES: [AtomicUsize; PAGES_MAX] = [const { AtomicUsize::new(0) }; PAGES_MAX];
/// The number of replaced pages that are still mapped, plus that of [`UnreadableMark`] values.
static REPLACED: AtomicU64 = AtomicU64::new(0);
/// The number of a slot below which no slot is free.
static FREE_FROM: AtomicUsize = AtomicUsize::new(0);
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4_096);
/// The handler before this one; it is set before this one is installed.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// True if a page of any mapped file could not be read or written. Call it after the use of mapped
/// bytes. If it returns true, check those bytes by
/// [`Map::unreadable_in`](crate::Map::unreadable_in).
#[inline]
#[must_use]
pub fn any_unreadable() -> bool {
    fence(Ordering::Acquire);
    REPLACED.load(Ordering::Relaxed) != 0
}

/// The mark of another object that is used like a map and has unreadable pages, while it exists.
pub(crate) struct UnreadableMark(());

impl UnreadableMark {
    pub(crate) fn begin() -> UnreadableMark {
        REPLACED.fetch_add(1, Ordering::SeqCst);
        UnreadableMark(())
    }
}

impl Drop for UnreadableMark {
    fn drop(&mut self) {
        REPLACED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The registration of a map. It must be dropped before the map is unmapped.
pub(crate) struct MapRegistration {
    slot: &'static Slot,
    number: usize,
}

impl MapRegistration {
    /// Registers a map that was just made; `None` if the register is full.
    pub(crate) fn begin(
        pointer: *const u8,
        length: usize,
        is_writable: bool,
    ) -> Option<MapRegistration> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let (number, slot) = take_slot()?;
        slot.set(pointer.addr(), length, is_writable);
        Some(MapRegistration { slot, number })
    }

    /// The offset in the map of the first of these bytes that lies in a replaced page, if there is
    /// one.
    pub(crate) fn first_in(&self, offset: usize, length: usize) -> Option<usize> {
        if self.slot.replaced.load(Ordering::Acquire) == 0 || length == 0 {
            return None;
        }
        if self.slot.is_whole.load(Ordering::Acquire) {
            return Some(offset);
        }
        let base = self.slot.begin.load(Ordering::Relaxed);
        let (begin, end) = (base + offset, base + offset + length);
        let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
        let pages = PAGES.iter().map(|page| page.load(Ordering::Acquire));
        let touched = pages.filter(|page| *page != 0 && *page < end && page + page_bytes > begin);
        touched.min().map(|page| page.max(begin) - base)
    }
}

impl Drop for MapRegistration {
    fn drop(&mut self) {
        let slot = self.slot;
        let begin = slot.begin.load(Ordering::Relaxed);
        let map = begin..begin + slot.length.load(Ordering::Relaxed);
        slot.set(0, 0, false);
        let replaced = slot.replaced.swap(0, Ordering::SeqCst);
        if replaced > 0 {
            slot.is_whole.store(false, Ordering::SeqCst);
            for page in PAGES.iter().filter(|page| map.contains(&page.load(Ordering::SeqCst))) {
                page.store(0, Ordering::SeqCst);
            }
            REPLACED.fetch_sub(replaced, Ordering::SeqCst);
        }
        slot.is_taken.store(false, Ordering::SeqCst);
        FREE_FROM.fetch_min(self.number, Ordering::SeqCst);
    }
}

/// The chunk with this number, which is allocated if necessary.
fn chunk(number: usize) -> &'static Chunk {
    CHUNKS[number].get_or_init(|| Box::new([const { Slot::new() }; SLOTS_A_CHUNK]))
}

/// Takes a free slot, and returns it with its number; none if all are taken.
fn take_slot() -> Option<(usize, &'static Slot)> {
    let from = FREE_FROM.load(Ordering::SeqCst);
    let is_taken = |slot: &Slot| slot.is_taken.swap(true, Ordering::SeqCst);
    for number in from..CHUNKS_MAX * SLOTS_A_CHUNK {
        let slot = &chunk(number / SLOTS_A_CHUNK)[number % SLOTS_A_CHUNK];
        if !is_taken(slot) {
            // This fails if a slot below was freed meanwhile, which then is the right value.
            let (next, order) = (number + 1, Ordering::SeqCst);
            let _ = FREE_FROM.compare_exchange(from, next, order, order);
            return Some((number, slot));
        }
    }
    None
}

/// The slot of the registered map with `address`, and true if the map is writable. For the handler.
fn find_slot(address: usize) -> Option<(&'static Slot, bool)> {
    let mut slots = CHUNKS.iter().filter_map(OnceLock::get).flat_map(|chunk| chunk.iter());
    slots.find_map(|slot| slot.holds(address).map(|is_writable| (slot, is_writable)))
}

/// Installs the handler. If the system refuses, a bad page ends the process.
fn install() {
    PAGE_BYTES.store(page_size_bytes(), Ordering::Relaxed);
    // SAFETY: zeros are a valid value of this plain C structure.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = on_bus_error as *const () as usize;
    // Runs on the alternate signal stack, if the thread has one: its own may be the bad page.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both actions are valid, and the handler is async-signal-safe.
    unsafe {
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return;
        }
        BEFORE.get_or_init(|| before);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid description of the signal; `errno` belongs to this thread.
    let (code, address, errno) =
        unsafe { ((*info).si_code, (*info).si_addr().addr(), *libc::__errno_location()) };
    let is_bad_page = code == libc::BUS_ADRERR || code == libc::BUS_MCEERR_AR;
    if !(is_bad_page && replace_page(address)) {
        pass_on(signal, info, context);
    }
    // SAFETY: as above. The interrupted code may be about to read `errno`.
    unsafe { *libc::__errno_location() = errno };
}

/// Replaces the page with `address` by a page of zeros. False if it is not in a registered map.
fn replace_page(address: usize) -> bool {
    let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
    let page = address & !(page_bytes - 1);
    let Some((slot, is_writable)) = find_slot(address) else { return false };
    // The note comes before the zeros can be read.
    note(slot, page);
    let writable = if is_writable { libc::PROT_WRITE } else { 0 };
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the page belongs to a registered map, which stays mapped, because this thread was
    // about to access it. An inaccessible page of a file is replaced by one with the same
    // protection.
    let mapped = unsafe {
        let page = std::ptr::with_exposed_provenance_mut(page);
        libc::mmap(page, page_bytes, libc::PROT_READ | writable, flags, -1, 0)
    };
    mapped != libc::MAP_FAILED
}

/// Notes that `page` of the map in `slot` is replaced.
fn note(slot: &Slot, page: usize) {
    let order = Ordering::SeqCst;
    let is_noted = PAGES.iter().any(|place| {
        place.load(order) == page || place.compare_exchange(0, page, order, order).is_ok()
    });
    if !is_noted {
        slot.is_whole.store(true, order);
    }
    slot.replaced.fetch_add(1, order);
    REPLACED.fetch_add(1, order);
}

/// Handles the signal as the previous action would have done.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // It was set before this handler was installed.
    let Some(before) = BEFORE.get() else { std::process::abort() };
    match before.sa_sigaction {
        libc::SIG_IGN => {}
        libc::SIG_DFL => {
            // SAFETY: the action is the previous one. The signal is delivered again, and ends the
            // process, as soon as this handler returns.
            unsafe {
                libc::sigaction(signal, before, std::ptr::null_mut());
                libc::raise(signal);
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: handlers that are installed with this flag have this type.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: handlers that are installed without this flag have this type.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;

    use super::*;
    use crate::{FileSystem, MapMode, SystemFileSystem};

    /// The environment variable that marks a child process of a test, which may end by the signal.
    const CHILD: &str = "PELLUCID_IO_BUS_ERROR_CHILD";

    fn run_child(test: &str) -> std::process::ExitStatus {
        let name = format!("unreadable_pages::tests::{test}");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([&name, "--exact", "--nocapture"]).env(CHILD, "1");
        child.output().unwrap().status
    }

    fn is_child() -> bool {
        std::env::var_os(CHILD).is_some()
    }

    fn read(pointer: *const u8, offset: usize) -> u8 {
        // SAFETY: the callers' offsets are within their maps.
        unsafe { pointer.add(offset).read_volatile() }
    }

    /// Regression: the first read of a page beyond the end of a truncated file ended the process.
    #[test]
    fn pages_that_are_gone_are_read_as_zeros_and_known_by_their_place() {
        if !is_child() {
            assert!(
                run_child("pages_that_are_gone_are_read_as_zeros_and_known_by_their_place")
                    .success()
            );
            return;
        }
        let page = PAGE_BYTES.load(Ordering::Relaxed);
        let folder = tempfile::tempdir().unwrap();
        let file = SystemFileSystem.create(&folder.path().join("gone")).unwrap();
        file.write_all_at(&vec![7; 8 * page], 0).unwrap();
        let map = file.map(8 * page as u64, MapMode::Read).unwrap();
        let other = file.map(page as u64, MapMode::Write).unwrap();
        assert_eq!(read(map.pointer(), 5 * page), 7);
        assert!(!any_unreadable());
        file.set_length(4 * page as u64).unwrap();
        assert_eq!(read(map.pointer(), 5 * page + 3), 0);
        assert_eq!(read(map.pointer(), 5 * page), 0);
        assert!(any_unreadable());
        assert_eq!(map.unreadable_in(0, 8 * page), Some(5 * page));
        assert_eq!(map.unreadable_in(5 * page + 9, 4), Some(5 * page + 9));
        assert_eq!(map.unreadable_in(0, 5 * page), None);
        assert_eq!(map.unreadable_in(6 * page, 2 * page), None, "nobody has asked for it");
        assert_eq!(read(map.pointer(), 3 * page), 7);
        file.set_length(0).unwrap();
        // SAFETY: the first byte is within the map, which is writable.
        unsafe { other.pointer().write_volatile(9) };
        assert_eq!(other.unreadable_in(0, 1), Some(0), "what was written is nowhere");
        drop((map, other));
        assert!(!any_unreadable(), "what is not mapped concerns nobody");
    }

    #[test]
    fn other_bus_errors_still_end_the_process() {
        if !is_child() {
            let status = run_child("other_bus_errors_still_end_the_process");
            assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let ours = SystemFileSystem.create(&folder.path().join("ours")).unwrap();
        ours.write_all_at(&[7; 100], 0).unwrap();
        let _map = ours.map(100, MapMode::Read).unwrap();
        let theirs = map_past_the_end(&folder.path().join("theirs"));
        // The signal ends the process without another chance.
        drop(folder);
        read(theirs, 0);
    }

    /// A map of an empty file, which is not registered.
    fn map_past_the_end(path: &Path) -> *const u8 {
        use std::os::fd::AsRawFd;
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path).unwrap();
        let descriptor = file.as_raw_fd();
        let (null, shared) = (std::ptr::null_mut(), libc::MAP_SHARED);
        // SAFETY: a new map at an address that the kernel chooses.
        unsafe { libc::mmap(null, 4_096, libc::PROT_READ, shared, descriptor, 0) }.cast()
    }
}
