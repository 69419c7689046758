//! What is counted of every read and write, always: adding one to a number costs a nanosecond where
//! no other thread adds to the same.
//!
//! Each thread has a stripe of its own, to which it alone adds, with a load and a store; threads
//! beyond the number of stripes share the last one. The sums are exact. Time is taken of one in
//! [`SAMPLED_EVERY`] of a thread's reads, and of as many of its writes: a clock costs more than
//! what is to be measured. Of as many reads again the steps are timed one by one: not of the same
//! ones, because the readings between the steps would count as time of the whole.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_clock::{Clock, Ticks};
use pellucid_thread::Mutex;

use crate::ledger::{LEVELS, STEPS, Step};

/// Of so many reads or writes of a thread, the first is timed.
pub const SAMPLED_EVERY: u64 = 64;
/// Of so many reads of a thread, the steps of this one are timed.
const STEPPED_TURN: u64 = SAMPLED_EVERY / 2;
/// Threads with a stripe of their own.
const STRIPES_OWN: usize = 31;
/// Where a key can be found: nowhere, in a memtable, in a level.
pub(crate) const FOUND_PLACES: usize = 2 + LEVELS;

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Look-ups, by the number of the place where they ended.
    Found(usize),
    /// Look-ups that were timed, likewise, and their ticks.
    FoundSamples(usize),
    FoundTicks(usize),
    /// Tables of a level that were asked for a key.
    Asked(usize),
    /// Of them: ruled out by filter or directory.
    Excluded(usize),
    /// Of them: let pass, and the key was not there.
    False(usize),
    /// Of them: asked by filter and index, because they had no directory.
    Plain(usize),
    /// Blocks searched in a level.
    Blocks(usize),
    /// Tables of a level whose asking was timed, and their ticks.
    AskedSamples(usize),
    AskedTicks(usize),
    /// Steps within tables of a level that were timed, and their ticks.
    StepSamples(Step, usize),
    StepTicks(Step, usize),
    /// Records read from the journal, their values' bytes, and those timed.
    Records,
    RecordBytes,
    /// Reads of values that the ledger held.
    HeldValues,
    RecordSamples,
    RecordTicks,
    /// Records whose steps were timed: the ticks of finding their places, and the ticks of reading
    /// and checking those that were in the page cache and those that were not.
    PlaceSamples,
    PlaceTicks,
    CachedSamples,
    CachedTicks,
    DiskSamples,
    DiskTicks,
    /// Batches written, their entries, and the bytes of keys, heads and values in them.
    Batches,
    Entries,
    UserBytes,
    /// Batches that were timed, and the ticks of their parts.
    BatchSamples,
    AppendTicks,
    MemtableTicks,
    /// Waits for another writer.
    WriterWaits,
    WriterWaitTicks,
    /// Delays that merges asked for.
    Delays,
    DelayNanoseconds,
    /// Turns of a thread, by which samples are chosen.
    ReadTurns,
    RecordTurns,
    WriteTurns,
}

const BY_PLACE: usize = 3;
const BY_LEVEL: usize = 7 + 2 * STEPS;
const LEVELS_BEGIN: usize = BY_PLACE * FOUND_PLACES;
const SINGLES_BEGIN: usize = LEVELS_BEGIN + BY_LEVEL * LEVELS;
const COUNTS: usize = SINGLES_BEGIN + 24;

impl Count {
    #[inline(always)]
    fn index(self) -> usize {
        let by_place = |which: usize, place: usize| which * FOUND_PLACES + place;
        let by_level = |which: usize, level: usize| LEVELS_BEGIN + which * LEVELS + level;
        match self {
            Count::Found(place) => by_place(0, place),
            Count::FoundSamples(place) => by_place(1, place),
            Count::FoundTicks(place) => by_place(2, place),
            Count::Asked(level) => by_level(0, level),
            Count::Excluded(level) => by_level(1, level),
            Count::False(level) => by_level(2, level),
            Count::Plain(level) => by_level(3, level),
            Count::Blocks(level) => by_level(4, level),
            Count::AskedSamples(level) => by_level(5, level),
            Count::AskedTicks(level) => by_level(6, level),
            Count::StepSamples(step, level) => by_level(7 + 2 * step as usize, level),
            Count::StepTicks(step, level) => by_level(8 + 2 * step as usize, level),
            Count::Records => SINGLES_BEGIN,
            Count::HeldValues => SINGLES_BEGIN + 23,
            Count::RecordBytes => SINGLES_BEGIN + 1,
            Count::RecordSamples => SINGLES_BEGIN + 2,
            Count::RecordTicks => SINGLES_BEGIN + 3,
            Count::Batches => SINGLES_BEGIN + 4,
            Count::Entries => SINGLES_BEGIN + 5,
            Count::UserBytes => SINGLES_BEGIN + 6,
            Count::BatchSamples => SINGLES_BEGIN + 7,
            Count::AppendTicks => SINGLES_BEGIN + 8,
            Count::MemtableTicks => SINGLES_BEGIN + 9,
            Count::WriterWaits => SINGLES_BEGIN + 10,
            Count::WriterWaitTicks => SINGLES_BEGIN + 11,
            Count::Delays => SINGLES_BEGIN + 12,
            Count::DelayNanoseconds => SINGLES_BEGIN + 13,
            Count::ReadTurns => SINGLES_BEGIN + 14,
            Count::RecordTurns => SINGLES_BEGIN + 15,
            Count::WriteTurns => SINGLES_BEGIN + 16,
            Count::PlaceSamples => SINGLES_BEGIN + 17,
            Count::PlaceTicks => SINGLES_BEGIN + 18,
            Count::CachedSamples => SINGLES_BEGIN + 19,
            Count::CachedTicks => SINGLES_BEGIN + 20,
            Count::DiskSamples => SINGLES_BEGIN + 21,
            Count::DiskTicks => SINGLES_BEGIN + 22,
        }
    }
}

/// The counters of one thread, away from the lines of all others.
#[repr(align(128))]
struct Stripe([AtomicU64; COUNTS]);

/// Numbers of threads that have ended, for threads to come.
static FREE_SLOTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// The lowest number that no thread ever had.
static NEXT_SLOT: AtomicU64 = AtomicU64::new(0);

/// The number of a thread, given back when it ends.
struct Slot(usize);

impl Slot {
    fn take() -> Slot {
        let mut free = FREE_SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        let next = || NEXT_SLOT.fetch_add(1, Ordering::Relaxed) as usize;
        Slot(free.pop().unwrap_or_else(next))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The lock orders what this thread has added before what the next owner adds.
        FREE_SLOTS.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

thread_local! {
    static SLOT: Slot = Slot::take();
}

/// All counters of an engine.
pub(crate) struct Tally {
    clock: Clock,
    stripes: Box<[Stripe]>,
}

impl Tally {
    pub(crate) fn new(clock: Clock) -> Tally {
        let stripe = || Stripe([const { AtomicU64::new(0) }; COUNTS]);
        Tally { clock, stripes: (0..=STRIPES_OWN).map(|_| stripe()).collect() }
    }

    /// The counters of this thread.
    #[inline]
    pub(crate) fn mine(&self) -> Counting<'_> {
        // A thread that is ending shares the last stripe.
        let slot = SLOT.try_with(|slot| slot.0).unwrap_or(STRIPES_OWN);
        let is_shared = slot >= STRIPES_OWN;
        Counting { stripe: &self.stripes[slot.min(STRIPES_OWN)], is_shared, clock: self.clock }
    }

    /// The sum over all threads.
    pub(crate) fn sum(&self, count: Count) -> u64 {
        let index = count.index();
        self.stripes.iter().map(|stripe| stripe.0[index].load(Ordering::Relaxed)).sum()
    }

    /// The sum over all threads of a count of ticks, in nanoseconds.
    pub(crate) fn sum_ns(&self, count: Count) -> u64 {
        self.clock.nanoseconds(self.sum(count))
    }
}

/// What is taken of a read beside its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing.
    Counted,
    /// The time of the whole, which began now.
    Timed(Ticks),
    /// The times of its steps.
    Stepped,
}

/// A thread's access to its counters.
#[derive(Clone, Copy)]
pub(crate) struct Counting<'a> {
    stripe: &'a Stripe,
    is_shared: bool,
    clock: Clock,
}

impl Counting<'_> {
    /// Adds `amount`; returns what the number was before.
    #[inline]
    pub(crate) fn add(&self, count: Count, amount: u64) -> u64 {
        let counter = &self.stripe.0[count.index()];
        if self.is_shared {
            return counter.fetch_add(amount, Ordering::Relaxed);
        }
        let before = counter.load(Ordering::Relaxed);
        counter.store(before.wrapping_add(amount), Ordering::Relaxed);
        before
    }

    /// Takes a turn of `turns`; the time, if this one is to be timed.
    #[inline]
    pub(crate) fn begin_sample(&self, turns: Count) -> Option<Ticks> {
        self.add(turns, 1).is_multiple_of(SAMPLED_EVERY).then(|| self.clock.now())
    }

    /// Takes a turn of `turns`, which says what is taken of this read.
    #[inline]
    pub(crate) fn turn(&self, turns: Count) -> Turn {
        match self.add(turns, 1) % SAMPLED_EVERY {
            0 => Turn::Timed(self.clock.now()),
            STEPPED_TURN => Turn::Stepped,
            _ => Turn::Counted,
        }
    }

    /// The clock of all samples.
    #[inline]
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The time.
    #[inline]
    pub(crate) fn now(&self) -> Ticks {
        self.clock.now()
    }

    /// Adds the ticks since `begun`, which is a sample's beginning, to `count`; returns the time.
    #[inline]
    pub(crate) fn add_since(&self, count: Count, begun: Ticks) -> Ticks {
        let now = self.clock.now();
        self.add(count, now.since(begun));
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_number_of_its_own() {
        let places = (0..FOUND_PLACES).flat_map(|place| {
            [Count::Found(place), Count::FoundSamples(place), Count::FoundTicks(place)]
        });
        let levels = (0..LEVELS).flat_map(|level| {
            [
                Count::Asked(level),
                Count::Excluded(level),
                Count::False(level),
                Count::Plain(level),
                Count::Blocks(level),
                Count::AskedSamples(level),
                Count::AskedTicks(level),
            ]
        });
        let steps = (0..LEVELS).flat_map(|level| {
            Step::ALL.into_iter().flat_map(move |step| {
                [Count::StepSamples(step, level), Count::StepTicks(step, level)]
            })
        });
        let mut indexes: Vec<usize> = places.chain(levels).chain(steps).map(Count::index).collect();
        indexes.sort_unstable();
        assert!(indexes.into_iter().eq(0..SINGLES_BEGIN));
        assert_eq!(Count::HeldValues.index(), COUNTS - 1);
    }

    #[test]
    fn sums_are_exact_with_more_threads_than_stripes() {
        const TURNS: u64 = if cfg!(miri) { 5 } else { 1_000 };
        let tally = Tally::new(Clock::monotonic());
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES_OWN {
                scope.spawn(|| {
                    (0..TURNS).for_each(|_| {
                        tally.mine().add(Count::Records, 3);
                    })
                });
            }
        });
        assert_eq!(tally.sum(Count::Records), 2 * STRIPES_OWN as u64 * 3 * TURNS);
    }

    #[test]
    fn one_turn_in_so_many_is_timed() {
        let tally = Tally::new(Clock::monotonic());
        let begun = |_: &u64| tally.mine().begin_sample(Count::WriteTurns).is_some();
        assert_eq!((0..3 * SAMPLED_EVERY).filter(begun).count(), 3);
        let turns: Vec<Turn> =
            (0..3 * SAMPLED_EVERY).map(|_| tally.mine().turn(Count::ReadTurns)).collect();
        let taken = |kind: fn(&Turn) -> bool| turns.iter().filter(|turn| kind(turn)).count();
        assert_eq!(taken(|turn| matches!(turn, Turn::Timed(_))), 3);
        assert_eq!(taken(|turn| *turn == Turn::Stepped), 3);
    }
}
