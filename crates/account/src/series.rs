//! The histograms of one operation and outcome, for now and for each of the last seconds.

use std::collections::VecDeque;

use pellucid_clock::Clock;

use crate::histogram::{Histogram, Sparse, bucket_of};
use crate::phase::PHASES;
use crate::record::Record;
use crate::timeline::{EngineCounts, PARTS_MAX};
use crate::work::WorkSums;

/// Slots of a request's measures: the phases, then these.
pub(crate) const TOTAL: usize = PHASES.len();
pub(crate) const LOOP_WAIT: usize = TOTAL + 1;
pub(crate) const PARTS: usize = LOOP_WAIT + 1;
pub(crate) const MEASURES: usize = PARTS + PARTS_MAX;

/// How many seconds back a window can reach.
pub const WINDOW_SECONDS_MAX: usize = 600;

/// Sums of all measures over the requests whose total fell into one bucket: the shape of the
/// requests around a quantile can be told from them, and from nothing that keeps phases apart.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) count: u64,
    pub(crate) sums_ns: [u64; MEASURES],
}

impl Shape {
    pub(crate) const EMPTY: Shape = Shape { count: 0, sums_ns: [0; MEASURES] };

    pub(crate) fn merge(&mut self, other: &Shape) {
        self.count += other.count;
        for (sum, other) in self.sums_ns.iter_mut().zip(&other.sums_ns) {
            *sum += other;
        }
    }
}

/// What was recorded within a stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) measures: Vec<Histogram>,
    /// By bucket of the total; grown on demand, as most buckets are never met.
    shapes: Vec<Option<Box<Shape>>>,
    /// Sums of what was added since the last second was taken.
    added_sums_ns: [u64; MEASURES],
    /// What the store counted.
    pub(crate) work: Box<WorkSums>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            measures: (0..MEASURES).map(|_| Histogram::new()).collect(),
            shapes: Vec::new(),
            added_sums_ns: [0; MEASURES],
            work: Box::default(),
        }
    }

    fn add(&mut self, values_ns: &[u64; MEASURES], parts_used: usize, counts: &EngineCounts) {
        self.work.add(counts, values_ns);
        for (histogram, value_ns) in self.measures.iter_mut().zip(values_ns).take(PARTS) {
            histogram.add(*value_ns);
        }
        // A part that did not occur says nothing about how long it takes.
        for part in (PARTS..PARTS + parts_used).filter(|part| values_ns[*part] > 0) {
            self.measures[part].add(values_ns[part]);
        }
        let shape = self.shape_mut(bucket_of(values_ns[TOTAL]));
        shape.count += 1;
        for (sum, value_ns) in shape.sums_ns.iter_mut().zip(values_ns) {
            *sum += value_ns;
        }
        for (sum, value_ns) in self.added_sums_ns.iter_mut().zip(values_ns) {
            *sum += value_ns;
        }
    }

    fn shape_mut(&mut self, bucket: usize) -> &mut Shape {
        if self.shapes.len() <= bucket {
            self.shapes.resize_with(bucket + 1, || None);
        }
        self.shapes[bucket].get_or_insert_with(|| Box::new(Shape::EMPTY))
    }

    pub(crate) fn merge(&mut self, second: &Second) {
        for (histogram, sparse) in self.measures.iter_mut().zip(&second.measures) {
            histogram.merge(sparse);
        }
        for (bucket, shape) in &second.shapes {
            self.shape_mut(*bucket).merge(shape);
        }
        self.work.merge(&second.work);
    }

    fn is_empty(&self) -> bool {
        self.shapes.iter().all(Option::is_none)
    }

    /// The contents as a second's worth; the tally is empty afterwards.
    fn take(&mut self) -> Second {
        let sums_ns = std::mem::replace(&mut self.added_sums_ns, [0; MEASURES]);
        let measures = self.measures.iter_mut().zip(sums_ns);
        let measures = measures.map(|(histogram, sum_ns)| histogram.take(sum_ns)).collect();
        let shapes = self.shapes.iter_mut().enumerate();
        let shapes = shapes.filter_map(|(bucket, shape)| Some((bucket, shape.take()?))).collect();
        Second { measures, shapes, work: std::mem::take(&mut self.work) }
    }

    fn peek(&self) -> Second {
        let shapes = self.shapes.iter().enumerate();
        let measures = self.measures.iter().zip(self.added_sums_ns);
        Second {
            measures: measures.map(|(histogram, sum_ns)| histogram.peek(sum_ns)).collect(),
            shapes: shapes.filter_map(|(bucket, s)| Some((bucket, s.clone()?))).collect(),
            work: self.work.clone(),
        }
    }

    /// The requests whose rank by total lies between the two quantiles, taken bucket by bucket.
    pub(crate) fn shape_between(&self, low: f64, high: f64) -> Shape {
        let count = self.measures[TOTAL].count as f64;
        let mut shape = Shape::EMPTY;
        let mut below = 0_u64;
        for bucket in self.shapes.iter().flatten() {
            let (first, last) = (below as f64 + 1.0, (below + bucket.count) as f64);
            if last >= (low * count).ceil().max(1.0) && first <= (high * count).ceil().max(1.0) {
                shape.merge(bucket);
            }
            below += bucket.count;
        }
        shape
    }
}

/// What was recorded within one second, in little space.
#[derive(Debug)]
pub(crate) struct Second {
    measures: Vec<Sparse>,
    shapes: Vec<(usize, Box<Shape>)>,
    work: Box<WorkSums>,
}

/// All that is known of one operation and outcome.
pub(crate) struct Series {
    pub(crate) operation: u8,
    pub(crate) outcome: u8,
    /// Since the start, without the current second.
    before: Tally,
    current: Tally,
    /// The number of each past second that had requests, and what it had.
    seconds: VecDeque<(u64, Second)>,
}

impl Series {
    pub(crate) fn new(operation: u8, outcome: u8) -> Series {
        Series {
            operation,
            outcome,
            before: Tally::new(),
            current: Tally::new(),
            seconds: VecDeque::new(),
        }
    }

    pub(crate) fn add(&mut self, record: &Record, clock: &Clock, parts_used: usize) {
        let shift = record.shift();
        let nanoseconds = |units: u32| {
            if units == 0 { 0 } else { clock.nanoseconds(u64::from(units) << shift) }
        };
        let mut values_ns = [0; MEASURES];
        let phases = record.phase_units();
        for (value_ns, units) in values_ns[..PHASES.len()].iter_mut().zip(phases) {
            *value_ns = nanoseconds(units);
        }
        // The total is the sum of its phases in nanoseconds too, not only in ticks.
        values_ns[TOTAL] = values_ns[1..PHASES.len()].iter().sum();
        values_ns[LOOP_WAIT] = nanoseconds(record.attended_units());
        for (value_ns, units) in values_ns[PARTS..].iter_mut().zip(record.parts_units()) {
            *value_ns = nanoseconds(*units);
        }
        self.current.add(&values_ns, parts_used, &record.counts);
    }

    /// Closes the second with this number.
    pub(crate) fn close_second(&mut self, second: u64) {
        if !self.current.is_empty() {
            let taken = self.current.take();
            self.before.merge(&taken);
            self.seconds.push_back((second, taken));
        }
        let oldest = second.saturating_sub(WINDOW_SECONDS_MAX as u64);
        while self.seconds.front().is_some_and(|(number, _)| *number < oldest) {
            self.seconds.pop_front();
        }
    }

    /// What was recorded since second number `from`, or since the start.
    pub(crate) fn tally(&self, from: Option<u64>) -> Tally {
        let mut tally = match from {
            None => self.before.clone(),
            Some(from) => {
                let mut tally = Tally::new();
                let within = self.seconds.iter().filter(|(number, _)| *number >= from);
                within.for_each(|(_, second)| tally.merge(second));
                tally
            }
        };
        tally.merge(&self.current.peek());
        tally
    }
}
