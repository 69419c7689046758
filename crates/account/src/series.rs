//! The histograms of one operation and outcome: since the start, and of each of the last seconds.

use std::collections::VecDeque;

use pellucid_clock::Clock;

use crate::current_second::{BucketTable, CurrentSecond, PastSecond, shape_of};
use crate::histogram::Histogram;
use crate::record::Record;
use crate::shape::{MEASURES, Shape, TOTAL};
use crate::work::WorkSums;

/// The longest window, in seconds.
pub const WINDOW_SECONDS_MAX: usize = 600;

/// The counts of the records of a stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct PeriodCounts {
    pub(crate) measures: Vec<Histogram>,
    /// The shapes by number; grown on demand, because most numbers never occur.
    shapes: Vec<Option<Box<Shape>>>,
    /// The store's counts.
    pub(crate) work: Box<WorkSums>,
}

impl PeriodCounts {
    pub(crate) fn new() -> PeriodCounts {
        PeriodCounts {
            measures: (0..MEASURES).map(|_| Histogram::new()).collect(),
            shapes: Vec::new(),
            work: Box::default(),
        }
    }

    pub(crate) fn merge(&mut self, second: &PastSecond) {
        for (histogram, sparse) in self.measures.iter_mut().zip(&second.measures) {
            histogram.merge(sparse);
        }
        for (number, shape) in second.shapes.iter() {
            shape_of(&mut self.shapes, number).merge(&shape);
        }
        self.work.merge(&second.work);
    }

    /// The sum of the shapes of requests whose totals lie between two quantiles. A shape counts as
    /// a whole if any of its requests does.
    pub(crate) fn shape_between(&self, low: f64, high: f64) -> Shape {
        let count = self.measures[TOTAL].count as f64;
        let mut shape = Shape::EMPTY;
        let mut below = 0_u64;
        for each in self.shapes.iter().flatten() {
            let (first, last) = (below as f64 + 1.0, (below + each.count) as f64);
            if last >= (low * count).ceil().max(1.0) && first <= (high * count).ceil().max(1.0) {
                shape.merge(each);
            }
            below += each.count;
        }
        shape
    }
}

/// The counts of one operation and outcome.
pub(crate) struct Series {
    pub(crate) operation: u8,
    pub(crate) outcome: u8,
    /// The counts since the start, without the current second.
    before: PeriodCounts,
    current: CurrentSecond,
    /// The number and the counts of each past second that had requests.
    seconds: VecDeque<(u64, PastSecond)>,
}

impl Series {
    pub(crate) fn new(operation: u8, outcome: u8) -> Series {
        Series {
            operation,
            outcome,
            before: PeriodCounts::new(),
            current: CurrentSecond::new(),
            seconds: VecDeque::new(),
        }
    }

    /// Counts a request; returns the ticks of its total.
    #[inline]
    pub(crate) fn add(&mut self, record: &Record, table: &BucketTable, parts_used: usize) -> u64 {
        self.current.add(record, table, parts_used)
    }

    /// Closes the second with this number, and calls `totals` with the counts of its totals by
    /// bucket, if it had requests.
    pub(crate) fn close_second(
        &mut self,
        second: u64,
        clock: &Clock,
        totals: impl FnOnce(&[(u16, u32)]),
    ) {
        if !self.current.is_empty() {
            let taken = self.current.take(clock);
            totals(&taken.measures[TOTAL].buckets);
            self.before.merge(&taken);
            self.seconds.push_back((second, taken));
        }
        let oldest = second.saturating_sub(WINDOW_SECONDS_MAX as u64);
        while self.seconds.front().is_some_and(|(number, _)| *number < oldest) {
            self.seconds.pop_front();
        }
    }

    /// The counts since second number `from`, or, with none, since the start.
    pub(crate) fn tally(&self, from: Option<u64>, clock: &Clock) -> PeriodCounts {
        let mut tally = match from {
            None => self.before.clone(),
            Some(from) => {
                let mut tally = PeriodCounts::new();
                let within = self.seconds.iter().filter(|(number, _)| *number >= from);
                within.for_each(|(_, second)| tally.merge(second));
                tally
            }
        };
        tally.merge(&self.current.peek(clock));
        tally
    }
}
