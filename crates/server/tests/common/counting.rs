//! The system's allocator, which counts what event loops allocate. A test that uses it is alone in
//! its process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the names of threads of event loops begin, as the kernel has them.
const LOOP_NAME: &[u8] = b"pellucid-loop";

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether the thread is known to run an event loop. Others allocate by the clock,
    /// whatever is asked: those of accounts, of the journal, of merges.
    static IS_LOOP: Cell<bool> = const { Cell::new(false) };
}

/// Allocations of event loops until now.
pub(crate) fn allocations_of_loops() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

fn is_loop() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes, the last of them zero.
    let result = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    result == 0 && name.starts_with(LOOP_NAME)
}

/// The allocator.
pub(crate) struct Counting;

fn count() {
    // A thread has its name only after its first steps, so only a yes is kept.
    let is_loop = IS_LOOP.try_with(|known| {
        known.set(known.get() || is_loop());
        known.get()
    });
    if is_loop == Ok(true) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller vouches for what the system's allocator asks.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}
