//! Profiles of waits for locks and conditions: the waiting threads, and the holders of the locks.
//!
//! As in Go, a wait is kept with a probability that rises with its length, up to certainty, and is
//! weighted by the inverse of that probability. So all long waits are kept, and short ones cost
//! nothing.
//!
//! No waits are sampled before [`sample_waits`], because a program that only embeds the store wants
//! no profile.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::activity::{Labels, labels};
use crate::random::uniform;
use crate::sites::{Site, Sites};
use crate::stack::{STACK_DEPTH_MAX, capture};

/// The default length from which on all waits are kept.
pub const WAIT_SAMPLE_NS: u64 = 10_000;
/// The default sampling of holders: one in this many contended unlocks notes its site.
pub const HOLDERS_ONE_IN: u32 = 8;
/// The bits of a [`holder`] that have the number of the site; the upper bits have the weight of the
/// sample.
const SITE_BITS: u32 = 16;

/// The length from which on all waits are kept; zero if none are.
static SAMPLE_NS: AtomicU64 = AtomicU64::new(0);
/// The rate at which holders are noted: one in so many; zero if none are.
static ONE_IN: AtomicU32 = AtomicU32::new(0);
/// The waits by the stacks of the waiting threads.
static BLOCKED: Sites = Sites::new();
/// The waits by the stacks of the threads that unlocked.
static CONTENDED: Sites = Sites::new();

/// Starts the sampling of waits and of holders of locks, at the default rates unless others are
/// set. For programs that show these profiles.
pub fn sample_waits() {
    let relaxed = Ordering::Relaxed;
    let _ = SAMPLE_NS.compare_exchange(0, WAIT_SAMPLE_NS, relaxed, relaxed);
    let _ = ONE_IN.compare_exchange(0, HOLDERS_ONE_IN, relaxed, relaxed);
}

/// Sets the length from which on all waits are kept; smaller means more samples.
pub fn set_wait_sampling(sample_ns: u64) {
    SAMPLE_NS.store(sample_ns.max(1), Ordering::Relaxed);
}

/// The length from which on all waits are kept, in nanoseconds; zero if no waits are sampled.
#[must_use]
pub fn wait_sampling() -> u64 {
    SAMPLE_NS.load(Ordering::Relaxed)
}

/// Sets the sampling of holders: one in `one_in` contended unlocks notes its site. One means all.
pub fn set_holder_sampling(one_in: u32) {
    ONE_IN.store(one_in.max(1), Ordering::Relaxed);
}

/// The sampling of holders: one in so many contended unlocks notes its site; zero if none does.
#[must_use]
pub fn holder_sampling() -> u32 {
    ONE_IN.load(Ordering::Relaxed)
}

/// All waits so far, in nanoseconds, by the stack and labels of the waiting thread.
#[must_use]
pub fn blocked() -> Vec<Site> {
    BLOCKED.all()
}

/// All waits for locks so far, in nanoseconds, by the stack and labels of the thread that held the
/// lock, when it unlocked.
#[must_use]
pub fn contended() -> Vec<Site> {
    CONTENDED.all()
}

/// Counts a wait of this thread that has just ended.
#[inline(never)]
pub(crate) fn note_wait(waited_ns: u64) {
    note_wait_of(labels(), waited_ns);
}

/// Counts a wait that has just ended, for the activity `labels`, at the stack of this thread.
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

/// Counts a wait like [`note_wait_of`], but with a fixed probability of one in `one_in`.
#[inline]
pub(crate) fn note_wait_by_chance(labels: Labels, one_in: u32, waited_ns: impl FnOnce() -> u64) {
    let weight = f64::from(one_in.max(1));
    if SAMPLE_NS.load(Ordering::Relaxed) != 0 && uniform() * weight < 1.0 {
        keep(labels, weight, waited_ns() as f64 * weight);
    }
}

/// Keeps a wait that stands for `events` waits and `amount_ns` of time.
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
    if let Some(observer) = OBSERVER.get() {
        observer(wait);
    }
}

/// The thread to which the labels and the stack of a kept wait belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitSide {
    /// The thread that waited.
    Waiter,
    /// The thread that held the lock and unlocked it.
    Holder,
}

/// A wait that was kept, as observers get it.
#[derive(Clone, Copy, Debug)]
pub struct KeptWait<'a> {
    /// The thread to which the labels and the stack belong.
    pub side: WaitSide,
    /// The activity of that thread.
    pub labels: Labels,
    /// The stack of that thread, the innermost return address first.
    pub stack: &'a [usize],
    /// The number of waits for which it stands.
    pub events: f64,
    /// The time of these waits.
    pub amount_ns: f64,
}

/// A function that is called with each kept wait, on the thread that waited.
pub type WaitObserver = fn(&KeptWait<'_>);

static OBSERVER: OnceLock<WaitObserver> = OnceLock::new();

/// Registers `observer`, which is called with each wait that is kept from now on, unless there is
/// an observer already. It must not block.
pub fn observe_waits(observer: WaitObserver) {
    OBSERVER.get_or_init(|| observer);
}

/// The site of this thread, which is about to release a lock that others wait for, combined with
/// the weight of the sample; mostly zero, because only some are sampled.
///
/// The sample is random and not every eighth unlock: a thread that releases two locks in turns
/// would name only one of them, and the first unlock of each thread would count as eight.
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

/// Counts a wait at the site of the thread that held the lock, as returned by [`holder`].
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
    if OBSERVER.get().is_some()
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

    /// Regression: the first unlock of each thread was always sampled, so that threads with few
    /// unlocks counted up to eight times too much.
    #[test]
    fn threads_with_one_unlock_are_sampled_at_the_same_rate() {
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
    fn waits_kept_by_chance_are_weighted_by_the_inverse_of_the_chance() {
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
    fn a_sampled_holder_is_weighted_by_the_inverse_of_its_chance() {
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
