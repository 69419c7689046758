//! Waits for locks and conditions: who waited, and whom for.
//!
//! As in Go, a wait is kept with a probability that rises with its length, up to certainty, and
//! weighs as much more as it was unlikely: long waits are all there, and short ones cost nothing.
//!
//! None of it happens before [`sample_waits`]: a program that merely embeds the store has asked for
//! no profile.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::activity::{Labels, labels};
use crate::random::uniform;
use crate::sites::{Site, Sites};
use crate::stack::{STACK_DEPTH_MAX, capture};

/// Waits of this length or longer are all kept once waits are sampled, unless set otherwise.
pub const WAIT_SAMPLE_NS: u64 = 10_000;
/// One in this many contended unlocks says where the lock had been held once waits are sampled,
/// unless set otherwise.
pub const HOLDERS_ONE_IN: u32 = 8;
/// Below it, [`holder`] has the number of the site; above, what the sample weighs.
const SITE_BITS: u32 = 16;

/// Zero where no waits are kept.
static SAMPLE_NS: AtomicU64 = AtomicU64::new(0);
/// Zero where no holders are noted.
static ONE_IN: AtomicU32 = AtomicU32::new(0);
/// By the stack of who waited.
static BLOCKED: Sites = Sites::new();
/// By the stack of who gave the lock back.
static CONTENDED: Sites = Sites::new();

/// Has waits and holders of locks sampled from now on, at the usual rates unless others are set:
/// a switch for programs that show profiles of them.
pub fn sample_waits() {
    let relaxed = Ordering::Relaxed;
    let _ = SAMPLE_NS.compare_exchange(0, WAIT_SAMPLE_NS, relaxed, relaxed);
    let _ = ONE_IN.compare_exchange(0, HOLDERS_ONE_IN, relaxed, relaxed);
}

/// Sets the length from which on all waits are kept; smaller means more samples.
pub fn set_wait_sampling(sample_ns: u64) {
    SAMPLE_NS.store(sample_ns.max(1), Ordering::Relaxed);
}

/// The length from which on all waits are kept, as it was last set, in nanoseconds; zero if none
/// are.
#[must_use]
pub fn wait_sampling() -> u64 {
    SAMPLE_NS.load(Ordering::Relaxed)
}

/// Has one in so many contended unlocks say where the lock had been held; all of them, if it is
/// one.
pub fn set_holder_sampling(one_in: u32) {
    ONE_IN.store(one_in.max(1), Ordering::Relaxed);
}

/// One in how many contended unlocks says where the lock had been held; zero if none does.
#[must_use]
pub fn holder_sampling() -> u32 {
    ONE_IN.load(Ordering::Relaxed)
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
    let sample_ns = SAMPLE_NS.load(Ordering::Relaxed);
    if sample_ns == 0 {
        return;
    }
    let sample_ns = sample_ns as f64;
    let share = waited_ns as f64 / sample_ns;
    if share < 1.0 && uniform() >= share {
        return;
    }
    keep(labels, 1.0 / share.min(1.0), (waited_ns as f64).max(sample_ns));
}

/// As [`note_wait_of`], by a chance of one in `one_in` that does not depend on the length.
#[inline]
pub(crate) fn note_wait_by_chance(labels: Labels, one_in: u32, waited_ns: impl FnOnce() -> u64) {
    let weight = f64::from(one_in.max(1));
    if SAMPLE_NS.load(Ordering::Relaxed) != 0 && uniform() * weight < 1.0 {
        keep(labels, weight, waited_ns() as f64 * weight);
    }
}

/// Keeps a wait that stands for so many, and so much time.
#[inline(never)]
fn keep(labels: Labels, events: f64, amount_ns: f64) {
    let mut frames = [0; STACK_DEPTH_MAX];
    let depth = capture(&mut frames);
    let stack = &frames[..depth];
    BLOCKED.count(labels, stack, |counts| {
        counts.events += events;
        counts.amount += amount_ns;
    });
    tell(&KeptWait { side: WaitSide::Waiter, labels, stack, events, amount_ns });
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
    /// Its activity.
    pub labels: Labels,
    /// Its stack, the innermost return address first.
    pub stack: &'a [usize],
    /// As many waits as it stands for.
    pub events: f64,
    /// Their time in nanoseconds.
    pub amount_ns: f64,
}

/// The receiver of waits that are kept, on the thread that waited.
pub type WaitObserver = fn(&KeptWait<'_>);

static OBSERVER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Has every wait that is kept from now on told to `observer`, which must not wait itself.
pub fn observe_waits(observer: WaitObserver) {
    OBSERVER.store(observer as *mut (), Ordering::Release);
}

/// The site of this thread, which is about to give back a lock that others wait for, with the
/// weight that a wait has there; or zero, most of the time.
///
/// It is left to chance and not counted off: a thread that gives back two locks in turns would name
/// one of them only, and the first unlock of each thread would count for eight.
#[inline(never)]
pub(crate) fn holder() -> usize {
    let one_in = ONE_IN.load(Ordering::Relaxed);
    if one_in == 0 {
        return 0;
    }
    if one_in > 1 && uniform() * f64::from(one_in) >= 1.0 {
        return 0;
    }
    let mut frames = [0; STACK_DEPTH_MAX];
    let depth = capture(&mut frames);
    let number = CONTENDED.count(labels(), &frames[..depth], |_| {});
    (one_in as usize) << SITE_BITS | number
}

/// Counts a wait against the site of who held the lock, as [`holder`] gave it.
pub(crate) fn charge(holder: usize, waited_ns: u64) {
    if holder == 0 {
        return;
    }
    let (weight, number) = (holder >> SITE_BITS, holder & ((1 << SITE_BITS) - 1));
    let (events, amount_ns) = (weight as f64, waited_ns as f64 * weight as f64);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::SITES_MAX;

    /// Whoever ran for a short time only counted for eight times its waits once.
    #[test]
    fn threads_that_give_one_lock_back_are_drawn_like_any_others() {
        const THREADS: usize = 4_000;
        const { assert!(2 * SITES_MAX < 1 << SITE_BITS) };
        sample_waits();
        let draw = || std::thread::spawn(holder).join().unwrap();
        let drawn = (0..THREADS).map(|_| draw()).filter(|holder| *holder != 0).count();
        let share = 1.0 / f64::from(HOLDERS_ONE_IN);
        let (mean, spread) = (THREADS as f64 * share, (THREADS as f64 * share).sqrt());
        assert!((drawn as f64 - mean).abs() < 6.0 * spread, "{drawn} of {THREADS}");
    }

    #[test]
    fn of_waits_that_are_kept_by_chance_one_in_so_many_is_and_weighs_as_much_more() {
        const WAITS: u32 = 100_000;
        sample_waits();
        let labels = Labels { operation: 91, ..Labels::default() };
        (0..WAITS).for_each(|_| note_wait_by_chance(labels, 50, || 1_000));
        let sites = BLOCKED.all();
        let of = sites.iter().filter(|site| site.labels.operation == labels.operation);
        let events: f64 = of.clone().map(|site| site.counts.events).sum();
        let amount: f64 = of.map(|site| site.counts.amount).sum();
        // Six standard errors.
        assert!((events - f64::from(WAITS)).abs() < 6.0 * 50.0 * 2_000_f64.sqrt(), "{events}");
        assert!((amount - events * 1_000.0).abs() < 1.0, "{amount} of {events}");
    }

    #[test]
    fn what_is_drawn_weighs_as_much_as_it_was_unlikely() {
        sample_waits();
        let holder = (0..10_000).map(|_| holder()).find(|holder| *holder != 0).unwrap();
        assert_eq!(holder >> SITE_BITS, HOLDERS_ONE_IN as usize);
        let number = holder & ((1 << SITE_BITS) - 1);
        let charged = || CONTENDED.at(number).map_or(0.0, |site| site.counts.amount);
        let before = charged();
        charge(holder, 1_000);
        assert_eq!(charged() - before, 8_000.0);
    }
}
