//! Pages of mapped files that cannot be read or written: a bad sector, a file that somebody cut
//! off, a file system that is full. The processor's access ends in the signal SIGBUS, which by
//! default ends the process.
//!
//! Here the signal's handler puts a page of zeros where the page was, notes which one, and returns:
//! the access goes on over zeros. Whoever reads or writes mapped files asks **afterwards**
//! ([`Map::unreadable_in`](crate::Map::unreadable_in)) whether the bytes were there. As long as all
//! pages are, that is one load of a number that is zero ([`any_unreadable`]).
//!
//! This is sound, because
//! - the handler replaces pages of maps that are registered here and nothing else: for any other
//!   address it does what would have been done without it;
//! - a registered map is taken off the register before it is unmapped, and whoever touches one
//!   keeps it alive, so the page belongs to that map and not to its successor;
//! - it calls `mmap` alone, which is a system call and touches no state of the process's own, takes
//!   no lock, allocates nothing, and reads atomics that are changed in an order that it can tell
//!   (a generation before and after each change);
//! - the note is made before the page is replaced: whoever has read zeros finds it afterwards;
//! - no byte of the page had a value for this access before, and zeros are as good a value as any
//!   that a file may have: all that decodes mapped bytes trusts none of them.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use crate::page::page_size_bytes;

/// Maps that can be registered are a multiple of it.
const SLOTS_A_CHUNK: usize = 1_024;
/// More maps than Linux lets a process have (`vm.max_map_count`) by default. Those beyond are not
/// watched, and their bad pages end the process.
const CHUNKS_MAX: usize = 64;
/// Bad pages that are known one by one. Where there are more, all of a map counts as bad.
const PAGES_MAX: usize = 1_024;

/// A place on the register, for one map.
struct Slot {
    is_taken: AtomicBool,
    /// Odd while the rest is being changed.
    generation: AtomicU64,
    /// The first address, or zero.
    begin: AtomicUsize,
    length: AtomicUsize,
    is_writable: AtomicBool,
    /// Pages that were replaced.
    replaced: AtomicU64,
    /// Not all of them are in [`PAGES`].
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

    /// Makes it stand for other bytes. Only whoever has taken it may.
    fn set(&self, begin: usize, length: usize, is_writable: bool) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.length.store(length, Ordering::SeqCst);
        self.is_writable.store(is_writable, Ordering::SeqCst);
        self.begin.store(begin, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Nothing unless `address` lies within the map; true if that is writable.
    fn holds(&self, address: usize) -> Option<bool> {
        let generation = self.generation.load(Ordering::SeqCst);
        let begin = self.begin.load(Ordering::SeqCst);
        let length = self.length.load(Ordering::SeqCst);
        let is_writable = self.is_writable.load(Ordering::SeqCst);
        // A slot that changes is not that of a map that is being read.
        let is_settled =
            generation.is_multiple_of(2) && self.generation.load(Ordering::SeqCst) == generation;
        let is_within = begin != 0 && address >= begin && address - begin < length;
        (is_settled && is_within).then_some(is_writable)
    }
}

type Chunk = [Slot; SLOTS_A_CHUNK];

/// The register. A chunk that was made stays.
static CHUNKS: [AtomicPtr<Chunk>; CHUNKS_MAX] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS_MAX];
/// Addresses of replaced pages, and zeros.
static PAGES: [AtomicUsize; PAGES_MAX] = [const { AtomicUsize::new(0) }; PAGES_MAX];
/// Pages that were replaced and are still mapped, and what counts like them.
static REPLACED: AtomicU64 = AtomicU64::new(0);
/// A place on the register below which none is free.
static FREE_FROM: AtomicUsize = AtomicUsize::new(0);
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4_096);
/// The handler before this one; never null once this one is installed, and never freed.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// True if a page of any mapped file could not be read or written: then those whose bytes have just
/// been used have to be asked for. To be called behind that use.
#[inline]
#[must_use]
pub fn any_unreadable() -> bool {
    fence(Ordering::Acquire);
    REPLACED.load(Ordering::Relaxed) != 0
}

/// Something else that is used like a map and has unreadable pages, for as long as it is there.
pub(crate) struct Noted(());

impl Noted {
    pub(crate) fn begin() -> Noted {
        REPLACED.fetch_add(1, Ordering::SeqCst);
        Noted(())
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        REPLACED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A map on the register, until this is dropped, which has to be before it is unmapped.
pub(crate) struct Watch {
    slot: &'static Slot,
    number: usize,
}

impl Watch {
    /// Registers a map that was just made; `None` if there is no room on the register.
    pub(crate) fn begin(pointer: *const u8, length: usize, is_writable: bool) -> Option<Watch> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let (number, slot) = take_slot()?;
        slot.set(pointer.addr(), length, is_writable);
        Some(Watch { slot, number })
    }

    /// The offset in the map of the first replaced page of these bytes, if there is one; at
    /// `offset` at the earliest.
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

impl Drop for Watch {
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

/// The chunk with this number, made if need be.
fn chunk(number: usize) -> &'static Chunk {
    let place = &CHUNKS[number];
    // SAFETY: a chunk that was made is never freed, nor changed but through atomics.
    if let Some(chunk) = unsafe { place.load(Ordering::Acquire).as_ref() } {
        return chunk;
    }
    let made = Box::into_raw(Box::new([const { Slot::new() }; SLOTS_A_CHUNK]));
    let (null, order) = (std::ptr::null_mut(), Ordering::AcqRel);
    match place.compare_exchange(null, made, order, Ordering::Acquire) {
        // SAFETY: it was just made, and stays.
        Ok(_) => unsafe { &*made },
        Err(other) => {
            // SAFETY: nobody has seen the one that came second; the first stays.
            unsafe {
                drop(Box::from_raw(made));
                &*other
            }
        }
    }
}

/// Takes a free place, with its number.
fn take_slot() -> Option<(usize, &'static Slot)> {
    let from = FREE_FROM.load(Ordering::SeqCst);
    let is_taken = |slot: &Slot| slot.is_taken.swap(true, Ordering::SeqCst);
    for number in from..CHUNKS_MAX * SLOTS_A_CHUNK {
        let slot = &chunk(number / SLOTS_A_CHUNK)[number % SLOTS_A_CHUNK];
        if !is_taken(slot) {
            // Unless one below was given back meanwhile.
            let (next, order) = (number + 1, Ordering::SeqCst);
            let _ = FREE_FROM.compare_exchange(from, next, order, order);
            return Some((number, slot));
        }
    }
    None
}

/// The registered map that holds `address`, and whether it is writable. For the handler.
fn find_slot(address: usize) -> Option<(&'static Slot, bool)> {
    for place in &CHUNKS {
        // SAFETY: as in `chunk`.
        let chunk = unsafe { place.load(Ordering::Acquire).as_ref() };
        let Some(chunk) = chunk else { continue };
        for slot in chunk {
            if let Some(is_writable) = slot.holds(address) {
                return Some((slot, is_writable));
            }
        }
    }
    None
}

/// Installs the handler. Should the system refuse, a bad page ends the process.
fn install() {
    PAGE_BYTES.store(page_size_bytes(), Ordering::Relaxed);
    // SAFETY: zeroes are a valid action, and one that does nothing special.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = on_bus_error as *const () as usize;
    // On the stack for signals, where a thread has one: its own may be the page in question.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both actions are valid, and the handler does only what handlers may.
    unsafe {
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return;
        }
        BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid description of the signal; `errno` is this thread's own.
    let (code, address, errno) =
        unsafe { ((*info).si_code, (*info).si_addr().addr(), *libc::__errno_location()) };
    let is_bad_page = code == libc::BUS_ADRERR || code == libc::BUS_MCEERR_AR;
    if !(is_bad_page && replace_page(address)) {
        pass_on(signal, info, context);
    }
    // SAFETY: as above; what was interrupted may be about to look at it.
    unsafe { *libc::__errno_location() = errno };
}

/// Puts a page of zeros in place of the one with `address`, if it is of a registered map.
fn replace_page(address: usize) -> bool {
    let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
    let page = address & !(page_bytes - 1);
    let Some((slot, is_writable)) = find_slot(address) else { return false };
    // Before it is there to be read.
    note(slot, page);
    let writable = if is_writable { libc::PROT_WRITE } else { 0 };
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the page belongs to a map that is registered, of which this thread was about to use a
    // byte, so that it stays mapped: what is replaced is a page of a file that cannot be had, by
    // one that is used like it.
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

/// Does what would have been done without this handler.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: it was stored before the handler was installed, and is never freed.
    let before = unsafe { &*BEFORE.load(Ordering::Acquire) };
    match before.sa_sigaction {
        libc::SIG_IGN => {}
        libc::SIG_DFL => {
            // SAFETY: the action is the one that there was. The signal is delivered again, and ends
            // the process, as soon as this handler returns.
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
            // SAFETY: handlers that are installed without it have this type.
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

    /// A child of this test does what it is asked by this, and may die of it.
    const CHILD: &str = "PELLUCID_IO_BUS_ERROR_CHILD";

    fn run_child(test: &str) -> std::process::ExitStatus {
        let name = format!("unreadable::tests::{test}");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([&name, "--exact", "--nocapture"]).env(CHILD, "1");
        child.output().unwrap().status
    }

    fn is_child() -> bool {
        std::env::var_os(CHILD).is_some()
    }

    fn temporary(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("pellucid-io-{name}-{}", std::process::id()))
    }

    fn read(pointer: *const u8, offset: usize) -> u8 {
        // SAFETY: the callers' offsets are within their maps.
        unsafe { pointer.add(offset).read_volatile() }
    }

    /// The first read of a page that is gone was the end of the process.
    #[test]
    fn pages_that_are_gone_are_read_as_zeros_and_known_by_their_place() {
        if !is_child() {
            assert!(
                run_child("pages_that_are_gone_are_read_as_zeros_and_known_by_their_place")
                    .success()
            );
            return;
        }
        let (path, page) = (temporary("gone"), PAGE_BYTES.load(Ordering::Relaxed));
        let file = SystemFileSystem.create(&path).unwrap();
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
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn other_bus_errors_end_the_process_as_ever() {
        if !is_child() {
            let status = run_child("other_bus_errors_end_the_process_as_ever");
            assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
            return;
        }
        let (path, other_path) = (temporary("ours"), temporary("theirs"));
        let ours = SystemFileSystem.create(&path).unwrap();
        ours.write_all_at(&[7; 100], 0).unwrap();
        let _map = ours.map(100, MapMode::Read).unwrap();
        let theirs = map_past_the_end(&other_path);
        let _ = (std::fs::remove_file(path), std::fs::remove_file(other_path));
        read(theirs, 0);
    }

    /// A map of an empty file that nobody registers.
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
