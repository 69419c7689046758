//! The counters of every read and write. They are always on: an increment costs a nanosecond if no
//! other thread writes to the same cache line.
//!
//! Each thread has its own stripe of counters, to which only it adds, with a load and a store;
//! threads beyond the number of stripes share the last one. The sums are exact. One in
//! [`SAMPLED_EVERY`] reads of a thread is timed, and one in as many of its writes, because reading
//! a clock costs more than the work that is measured. The steps of other reads, as many, are timed
//! one by one; not of the same reads, because the clock readings between the steps would count as
//! time of the whole.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_clock::{Clock, Ticks};
use pellucid_thread::Mutex;

use crate::figures::{Elapsed, Number, Sampled};
use crate::ledger::LEVELS;
use crate::stats::{
    FoundCounters, FoundFigures, LevelCounters, LevelReads, ReadFigures, RecordCounters,
    WriteCounters, WriteFigures,
};

/// The sampling rate: the first of this many reads or writes of a thread is timed.
pub const SAMPLED_EVERY: u64 = 64;
/// The turn, among [`SAMPLED_EVERY`] reads of a thread, at which the steps are timed.
const STEPPED_TURN: u64 = SAMPLED_EVERY / 2;
/// The number of threads with a stripe of their own.
const STRIPES_OWN: usize = 31;
/// The number of places where a look-up can end: nowhere, in a memtable, in a level.
const PLACES: usize = 2 + LEVELS;

/// The turn counters of a thread, by which samples are chosen.
#[derive(Default)]
pub(crate) struct SamplingCounters {
    pub(crate) reads: Number,
    pub(crate) records: Number,
    pub(crate) writes: Number,
}

/// The counters of one thread, in cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct CounterStripe {
    pub(crate) turns: SamplingCounters,
    /// Look-ups by the place where they ended.
    pub(crate) found: [FoundCounters; PLACES],
    pub(crate) levels: [LevelCounters; LEVELS],
    pub(crate) records: RecordCounters,
    pub(crate) writes: WriteCounters,
}

/// The slot numbers of ended threads, to be reused.
static FREE_SLOTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// The lowest slot number that was never used.
static NEXT_SLOT: AtomicU64 = AtomicU64::new(0);

/// The slot number of a thread, returned when the thread ends.
struct Slot(usize);

impl Slot {
    fn take() -> Slot {
        let mut free = FREE_SLOTS.lock();
        let next = || NEXT_SLOT.fetch_add(1, Ordering::Relaxed) as usize;
        Slot(free.pop().unwrap_or_else(next))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The lock orders the additions of this thread before those of the slot's next owner.
        FREE_SLOTS.lock().push(self.0);
    }
}

thread_local! {
    static SLOT: Slot = Slot::take();
}

/// All counters of an engine.
pub(crate) struct CounterSet {
    clock: Clock,
    stripes: Box<[CounterStripe]>,
}

impl CounterSet {
    pub(crate) fn new(clock: Clock) -> CounterSet {
        CounterSet { clock, stripes: (0..=STRIPES_OWN).map(|_| CounterStripe::default()).collect() }
    }

    /// The counters of this thread.
    #[inline]
    pub(crate) fn mine(&self) -> ThreadCounters<'_> {
        // A thread that is ending shares the last stripe.
        let slot = SLOT.try_with(|slot| slot.0).unwrap_or(STRIPES_OWN);
        let is_shared = slot >= STRIPES_OWN;
        let counters = &self.stripes[slot.min(STRIPES_OWN)];
        ThreadCounters { counters, is_shared, clock: self.clock }
    }

    /// The reads of all threads.
    pub(crate) fn reads(&self) -> ReadFigures {
        let mut sum =
            ReadFigures { levels: vec![FoundFigures::default(); LEVELS], ..ReadFigures::default() };
        for stripe in &self.stripes {
            stripe.records.add_to(self.clock, &mut sum);
            let places = [&mut sum.missing, &mut sum.memtable].into_iter().chain(&mut sum.levels);
            stripe.found.iter().zip(places).for_each(|(of, sum)| of.add_to(self.clock, sum));
        }
        sum
    }

    /// The look-ups of all threads in the tables of a level.
    pub(crate) fn level(&self, level: usize) -> LevelReads {
        let mut sum = LevelReads::default();
        self.stripes.iter().for_each(|of| of.levels[level].add_to(self.clock, &mut sum));
        sum
    }

    /// The writes of all threads.
    pub(crate) fn writes(&self) -> WriteFigures {
        let mut sum = WriteFigures::default();
        self.stripes.iter().for_each(|of| of.writes.add_to(self.clock, &mut sum));
        sum
    }
}

/// The measurement of a read, in addition to its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMeasurement {
    /// No measurement.
    Counted,
    /// The time of the whole read, which began now.
    Timed(Ticks),
    /// The times of the steps.
    Stepped,
}

/// A thread's access to its counters.
#[derive(Clone, Copy)]
pub(crate) struct ThreadCounters<'a> {
    counters: &'a CounterStripe,
    is_shared: bool,
    clock: Clock,
}

impl Deref for ThreadCounters<'_> {
    type Target = CounterStripe;

    #[inline]
    fn deref(&self) -> &CounterStripe {
        self.counters
    }
}

impl ThreadCounters<'_> {
    /// Adds `amount` to one of the thread's counters; returns the previous number.
    #[inline]
    pub(crate) fn add(&self, counter: &Number, amount: u64) -> u64 {
        if self.is_shared { counter.add(amount) } else { counter.add_alone(amount) }
    }

    /// Takes a turn of `turns`; returns the time if this turn is to be timed.
    #[inline]
    pub(crate) fn begin_sample(&self, turns: &Number) -> Option<Ticks> {
        self.add(turns, 1).is_multiple_of(SAMPLED_EVERY).then(|| self.clock.now())
    }

    /// Takes a turn of `turns`, which decides the measurement of this read.
    #[inline]
    pub(crate) fn turn(&self, turns: &Number) -> ReadMeasurement {
        match self.add(turns, 1) % SAMPLED_EVERY {
            0 => ReadMeasurement::Timed(self.clock.now()),
            STEPPED_TURN => ReadMeasurement::Stepped,
            _ => ReadMeasurement::Counted,
        }
    }

    /// The current time.
    #[inline]
    pub(crate) fn now(&self) -> Ticks {
        self.clock.now()
    }

    /// Adds the ticks since `begun`; returns the current time.
    #[inline]
    pub(crate) fn add_since(&self, counter: &Elapsed, begun: Ticks) -> Ticks {
        let now = self.clock.now();
        self.add(&counter.0, now.since(begun));
        now
    }

    /// Adds a sample that began at `begun`; returns the current time.
    #[inline]
    pub(crate) fn add_sample(&self, counter: &Sampled, begun: Ticks) -> Ticks {
        let now = self.add_since(&counter.sum_ns, begun);
        self.add(&counter.samples, 1);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_with_more_threads_than_stripes() {
        const TURNS: u64 = if cfg!(miri) { 5 } else { 1_000 };
        let tally = CounterSet::new(Clock::monotonic());
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES_OWN {
                scope.spawn(|| {
                    (0..TURNS).for_each(|_| {
                        let counting = tally.mine();
                        counting.add(&counting.records.records, 3);
                    })
                });
            }
        });
        assert_eq!(tally.reads().records, 2 * STRIPES_OWN as u64 * 3 * TURNS);
    }

    #[test]
    fn one_turn_in_every_sampling_interval_is_timed() {
        let tally = CounterSet::new(Clock::monotonic());
        let mine = tally.mine();
        let begun = |_: &u64| mine.begin_sample(&mine.turns.writes).is_some();
        assert_eq!((0..3 * SAMPLED_EVERY).filter(begun).count(), 3);
        let turns: Vec<ReadMeasurement> =
            (0..3 * SAMPLED_EVERY).map(|_| mine.turn(&mine.turns.reads)).collect();
        let taken =
            |kind: fn(&ReadMeasurement) -> bool| turns.iter().filter(|turn| kind(turn)).count();
        assert_eq!(taken(|turn| matches!(turn, ReadMeasurement::Timed(_))), 3);
        assert_eq!(taken(|turn| *turn == ReadMeasurement::Stepped), 3);
    }
}
