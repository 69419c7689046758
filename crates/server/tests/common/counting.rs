//! The system's allocator, with a count of the allocations of event loops. A test that uses it must
//! be alone in its process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The prefix of the thread names of event loops.
const LOOP_NAME: &[u8] = b"pellucid-loop";

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// True if the thread is known to run an event loop. Other threads (of the account, the
    /// journal, merges) allocate periodically, whatever the requests are.
    static IS_LOOP: Cell<bool> = const { Cell::new(false) };
}

/// The number of allocations of event loops so far.
pub(crate) fn allocations_of_loops() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

fn is_loop() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes, the last of them zero.
    let result = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    result == 0 && name.starts_with(LOOP_NAME)
}

/// The counting allocator.
pub(crate) struct CountingAllocator;

fn count() {
    // A thread gets its name only after its start, so only a positive result is cached.
    let is_loop = IS_LOOP.try_with(|known| {
        known.set(known.get() || is_loop());
        known.get()
    });
    if is_loop == Ok(true) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees the requirements of the system's allocator.
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
