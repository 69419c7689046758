//! Samples of allocations and waits with their times, so that a heat map can show a burst of them,
//! and a profile the minute before an incident.
//!
//! The tables of sites (`heap`, `pellucid-thread`) count everything since the start, without times.
//! Each sample counted there is also written to a ring here, like samples of processor time. If
//! there are too many, some are lost in the ring; their number is known.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pellucid_thread::{
    KeptWait, Labels, STACK_DEPTH_MAX, WaitSide, monotonic_ns, number_early_request, observe_waits,
};

use crate::ring::{RawSample, Ring};

static ALLOCATIONS: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());
static WAITS: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());
static HELD: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());

/// Returns the rings of allocations, of waits by waiter, and of waits by holder of the lock. The
/// first call makes them; from then on samples are written to them.
pub(crate) fn install() -> [&'static Ring; 3] {
    let rings = [&ALLOCATIONS, &WAITS, &HELD].map(|place| {
        // SAFETY: a ring that was made is never freed.
        if let Some(ring) = unsafe { place.load(Ordering::Acquire).as_ref() } {
            return ring;
        }
        let ring: &'static Ring = Box::leak(Box::new(Ring::new()));
        place.store(ptr::from_ref(ring).cast_mut(), Ordering::Release);
        ring
    });
    observe_waits(|wait| {
        let KeptWait { side, labels, stack, events, amount_ns } = *wait;
        match side {
            WaitSide::Waiter => push(&WAITS, labels, early(labels), stack, (events, amount_ns)),
            // The holder is another thread: only that thread could number its early request.
            WaitSide::Holder => push(&HELD, labels, 0, stack, (events, amount_ns)),
        }
    });
    rings
}

/// Records a sampled allocation. The allocator calls it, so it must not allocate.
pub(crate) fn note_allocation(labels: Labels, stack: &[usize], events: f64, bytes: f64) {
    push(&ALLOCATIONS, labels, early(labels), stack, (events, bytes));
}

/// The number of this thread's request if its operation is not known yet, or zero.
fn early(labels: Labels) -> u64 {
    if labels.is_early() { number_early_request() } else { 0 }
}

fn push(
    place: &AtomicPtr<Ring>,
    labels: Labels,
    early: u64,
    stack: &[usize],
    (events, amount): (f64, f64),
) {
    // SAFETY: as above.
    let Some(ring) = (unsafe { place.load(Ordering::Acquire).as_ref() }) else { return };
    let mut sample = RawSample {
        at_ns: monotonic_ns(),
        events: events.round() as u64,
        amount: amount.round() as u64,
        thread: usize::MAX,
        labels,
        early,
        depth: stack.len().min(STACK_DEPTH_MAX),
        stack: [0; STACK_DEPTH_MAX],
    };
    sample.stack[..sample.depth].copy_from_slice(&stack[..sample.depth]);
    ring.push(&sample);
}
