//! What a forwarded request allocates: nothing. In the study that the cluster follows, the client
//! that forwarded made 80 % of all allocations.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use common::entity;
use common::nodes::Nodes;

/// Requests before counting begins: buffers grow to their size, histograms are made.
const WARM_UP: u64 = 2_000;
/// Requests that are counted.
const COUNTED: u64 = 2_000;
/// Allocations that event loops may make for all of them together: what grows now and then.
const ALLOCATIONS_AT_MOST: u64 = COUNTED / 20;
/// How the names of threads of event loops begin, as the kernel has them.
const LOOP_NAME: &[u8] = b"pellucid-loop";

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether the thread is known to run an event loop. Others allocate by the clock,
    /// whatever is asked: those of accounts, of the journal, of merges.
    static IS_LOOP: Cell<bool> = const { Cell::new(false) };
}

fn is_loop() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes, the last of them zero.
    let result = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    result == 0 && name.starts_with(LOOP_NAME)
}

/// The system's allocator, which counts.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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

#[test]
fn a_forwarded_request_allocates_nothing() {
    let nodes = Nodes::start(2, |_| {});
    let target = entity(nodes.key_of(1));
    let mut client = nodes.client(0);
    // As long as the study's. One that is short enough to lie in the ledger is copied for each GET,
    // forwarded or not.
    let value = [b'v'; 290];
    for (method, body) in [("PUT", &value[..]), ("GET", b""), ("HEAD", b"")] {
        let mut repeat = |times| {
            for _ in 0..times {
                let status = client.call(method, &target, &[], body).status;
                assert!((200..300).contains(&status), "{method}: {status}");
            }
        };
        repeat(WARM_UP);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        repeat(COUNTED);
        let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert!(
            made <= ALLOCATIONS_AT_MOST,
            "{COUNTED} forwarded {method}s made event loops allocate {made} times"
        );
    }
}
