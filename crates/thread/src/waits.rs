//! Waits for locks and conditions: who waited, and whom for.
//!
//! As in Go, a wait is kept with a probability that rises with its length, up to certainty, and
//! weighs as much more as it was unlikely: long waits are all there, and short ones cost nothing.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::activity::{Labels, labels, with_thread};
use crate::random::uniform;
use crate::sites::{Site, Sites};
use crate::stack::{STACK_DEPTH_MAX, capture};

/// Waits of this length or longer are all kept, unless set otherwise.
pub const WAIT_SAMPLE_NS: u64 = 10_000;
/// One in this many contended unlocks says where the lock had been held.
const HOLDERS_ONE_IN: u64 = 8;

static SAMPLE_NS: AtomicU64 = AtomicU64::new(WAIT_SAMPLE_NS);
/// By the stack of who waited.
static BLOCKED: Sites = Sites::new();
/// By the stack of who gave the lock back.
static CONTENDED: Sites = Sites::new();

/// Sets the length from which on all waits are kept; smaller means more samples.
pub fn set_wait_sampling(sample_ns: u64) {
    SAMPLE_NS.store(sample_ns.max(1), Ordering::Relaxed);
}

/// All waits so far, in nanoseconds, by the stack and labels of who waited.
#[must_use]
pub fn blocked() -> Vec<Site> {
    BLOCKED.all()
}

/// Waits for locks so far, in nanoseconds, by the stack and labels of who gave the lock back that
/// was waited for.
#[must_use]
pub fn contended() -> Vec<Site> {
    CONTENDED.all()
}

/// Counts a wait of this thread that has just ended.
#[inline(never)]
pub(crate) fn note_wait(waited_ns: u64) {
    note_wait_of(labels(), waited_ns);
}

/// Counts a wait that has just ended, of what `labels` say, at the stack of this thread.
#[inline(never)]
pub(crate) fn note_wait_of(labels: Labels, waited_ns: u64) {
    let sample_ns = SAMPLE_NS.load(Ordering::Relaxed) as f64;
    let share = waited_ns as f64 / sample_ns;
    if share < 1.0 && uniform() >= share {
        return;
    }
    let mut frames = [0; STACK_DEPTH_MAX];
    let depth = capture(&mut frames);
    let (events, amount) = (1.0 / share.min(1.0), (waited_ns as f64).max(sample_ns));
    BLOCKED.count(labels, &frames[..depth], |counts| {
        counts.events += events;
        counts.amount += amount;
    });
    let stack = &frames[..depth];
    tell(&KeptWait { side: WaitSide::Waiter, labels, stack, events, amount_ns: amount });
}

fn tell(wait: &KeptWait<'_>) {
    let observer = OBSERVER.load(Ordering::Acquire);
    if !observer.is_null() {
        // SAFETY: only `observe_waits` stores there, and functions of this type alone.
        let observer = unsafe { std::mem::transmute::<*mut (), WaitObserver>(observer) };
        observer(wait);
    }
}

/// Of whom labels and stack of a wait are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitSide {
    /// Of who waited.
    Waiter,
    /// Of who gave the lock back that was waited for.
    Holder,
}

/// A wait that was kept, as it is told to who observes them.
#[derive(Clone, Copy, Debug)]
pub struct KeptWait<'a> {
    /// Of whom what follows is.
    pub side: WaitSide,
    /// What it was doing.
    pub labels: Labels,
    /// Where, the innermost return address first.
    pub stack: &'a [usize],
    /// As many waits as it stands for.
    pub events: f64,
    /// Their time in nanoseconds.
    pub amount_ns: f64,
}

/// Who is told of waits that are kept, on the thread that waited.
pub type WaitObserver = fn(&KeptWait<'_>);

static OBSERVER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Has every wait that is kept from now on told to `observer`, which must not wait itself.
pub fn observe_waits(observer: WaitObserver) {
    OBSERVER.store(observer as *mut (), Ordering::Release);
}

/// The site of this thread, which is about to give back a lock that others wait for, plus one; or
/// zero, most of the time.
#[inline(never)]
pub(crate) fn holder() -> usize {
    let number = with_thread(|thread| {
        let number = thread.contended_unlocks.load(Ordering::Relaxed);
        thread.contended_unlocks.store(number + 1, Ordering::Relaxed);
        number
    });
    if number % HOLDERS_ONE_IN != 0 {
        return 0;
    }
    let mut frames = [0; STACK_DEPTH_MAX];
    let depth = capture(&mut frames);
    CONTENDED.count(labels(), &frames[..depth], |_| {}) + 1
}

/// Counts a wait against the site of who held the lock, as [`holder`] gave it.
pub(crate) fn charge(holder: usize, waited_ns: u64) {
    let Some(number) = holder.checked_sub(1) else { return };
    let (events, amount_ns) = (HOLDERS_ONE_IN as f64, waited_ns as f64 * HOLDERS_ONE_IN as f64);
    CONTENDED.count_at(number, |counts| {
        counts.events += events;
        counts.amount += amount_ns;
    });
    if !OBSERVER.load(Ordering::Relaxed).is_null()
        && let Some(Site { labels, stack, .. }) = CONTENDED.at(number)
    {
        let stack = &stack[..];
        tell(&KeptWait { side: WaitSide::Holder, labels, stack, events, amount_ns });
    }
}
