//! The counts of the current second, optimised for adding requests one by one.
//!
//! Zeros are not counted, because they follow from the number of requests. Sums follow from the
//! shapes. Durations stay in ticks until the second is over. The buckets of short durations are
//! looked up in a table rather than computed.

use pellucid_clock::Clock;

use crate::histogram::{BUCKETS, SparseHistogram, bucket_of};
use crate::packed_shapes::PackedShapes;
use crate::phase::Phase;
use crate::record::{Record, SHIFT_MIN};
use crate::shape::{LOOP_WAIT, MEASURES, PARTS, Shape, TOTAL, TRANSPORT, shape_number};
use crate::transport::TRANSPORT_PARTS;
use crate::work::WorkSums;

/// The counts per bucket of one measure.
type Buckets = Box<[u32]>;

/// The size of the table of buckets, in the smallest units of durations: some 65 µs at 2 GHz.
const TABLE_UNITS: usize = 1 << 14;

/// The mapping from a duration in ticks to its bucket, with a table for short ones.
pub(crate) struct BucketTable {
    clock: Clock,
    /// The buckets, by units of `1 << SHIFT_MIN` ticks.
    buckets: Box<[u16; TABLE_UNITS]>,
}

impl BucketTable {
    pub(crate) fn new(clock: Clock) -> BucketTable {
        let bucket =
            |units: usize| bucket_of(clock.nanoseconds((units as u64) << SHIFT_MIN)) as u16;
        let buckets: Vec<u16> = (0..TABLE_UNITS).map(bucket).collect();
        let buckets = buckets.into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!());
        BucketTable { clock, buckets }
    }

    #[inline]
    fn of(&self, ticks: u64) -> usize {
        match self.buckets.get((ticks >> SHIFT_MIN) as usize) {
            Some(bucket) => usize::from(*bucket),
            None => bucket_of(self.clock.nanoseconds(ticks)),
        }
    }
}

/// The counts of one measure.
struct MeasureCounts {
    buckets: Buckets,
    min_ticks: u64,
    max_ticks: u64,
}

impl MeasureCounts {
    fn new() -> MeasureCounts {
        MeasureCounts {
            buckets: vec![0; BUCKETS].into_boxed_slice(),
            min_ticks: u64::MAX,
            max_ticks: 0,
        }
    }

    /// Counts a duration other than zero.
    #[inline]
    fn add(&mut self, ticks: u64, table: &BucketTable) {
        self.buckets[table.of(ticks)] += 1;
        // Both branches are rarely taken, and a predicted branch costs less than a store.
        if ticks < self.min_ticks {
            self.min_ticks = ticks;
        }
        if ticks > self.max_ticks {
            self.max_ticks = ticks;
        }
    }
}

/// The counts of one past second, in compact form.
#[derive(Debug)]
pub(crate) struct PastSecond {
    pub(crate) measures: Vec<SparseHistogram>,
    pub(crate) shapes: PackedShapes,
    pub(crate) work: Box<WorkSums>,
}

/// The counts of the current second.
pub(crate) struct CurrentSecond {
    measures: [MeasureCounts; MEASURES],
    /// The shapes by number, with sums in ticks; grown on demand, because most numbers never occur.
    shapes: Vec<Option<Box<Shape>>>,
    count: u64,
    /// The store's counts, with sums in ticks.
    work: Box<WorkSums>,
}

impl CurrentSecond {
    pub(crate) fn new() -> CurrentSecond {
        CurrentSecond {
            measures: std::array::from_fn(|_| MeasureCounts::new()),
            shapes: Vec::new(),
            count: 0,
            work: Box::default(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Counts a request with `parts_used` named parts; returns the ticks of its total.
    #[inline]
    pub(crate) fn add(&mut self, record: &Record, table: &BucketTable, parts_used: usize) -> u64 {
        let measures = measures_of(record);
        self.count += 1;
        self.work.add(&record.counts, &measures);
        let shape = shape_of(&mut self.shapes, shape_number(table.of(measures[TOTAL])));
        shape.count += 1;
        let used = (PARTS + parts_used).min(TRANSPORT);
        for (measure, ticks) in measures[..used].iter().enumerate() {
            // Many are zero, mostly the same ones, so that the branch is predicted.
            if *ticks > 0 {
                self.measures[measure].add(*ticks, table);
                shape.sums[measure] += ticks;
            }
        }
        if !record.transport().is_none() {
            self.add_transport(record, &measures, table);
        }
        measures[TOTAL]
    }

    /// Counts the transport's parts of a request. A function of its own, because most have none.
    #[inline(never)]
    fn add_transport(&mut self, record: &Record, measures: &[u64; TRANSPORT], table: &BucketTable) {
        let shape = shape_of(&mut self.shapes, shape_number(table.of(measures[TOTAL])));
        for part in TRANSPORT_PARTS {
            let ticks = record.transport().get(part).min(measures[part.phase() as usize]);
            if ticks > 0 {
                let measure = TRANSPORT + part as usize;
                self.measures[measure].add(ticks, table);
                shape.sums[measure] += ticks;
            }
        }
    }

    /// Takes out the contents as a past second, and leaves nothing behind.
    pub(crate) fn take(&mut self, clock: &Clock) -> PastSecond {
        let second = self.peek(clock);
        for counted in &mut self.measures {
            if counted.max_ticks > 0 {
                counted.buckets.fill(0);
                (counted.min_ticks, counted.max_ticks) = (u64::MAX, 0);
            }
        }
        self.shapes.iter_mut().for_each(|shape| *shape = None);
        self.count = 0;
        *self.work = WorkSums::default();
        second
    }

    /// The contents so far, in the form of a past second.
    pub(crate) fn peek(&self, clock: &Clock) -> PastSecond {
        let shapes = self.shapes.iter().enumerate();
        let shapes =
            shapes.filter_map(|(number, shape)| Some((number, shape.as_ref()?.in_ns(clock))));
        let mut sums_ns = [0; MEASURES];
        let shapes = PackedShapes::of(shapes.inspect(|(_, shape)| {
            for (sum, added) in sums_ns.iter_mut().zip(shape.sums) {
                *sum += added;
            }
        }));
        let measures = (0..MEASURES).map(|measure| self.sparse(measure, sums_ns[measure], clock));
        PastSecond { measures: measures.collect(), shapes, work: Box::new(self.work.in_ns(clock)) }
    }

    fn sparse(&self, measure: usize, sum_ns: u64, clock: &Clock) -> SparseHistogram {
        let (mut buckets, mut count) = (Vec::new(), 0);
        let MeasureCounts { buckets: counted, min_ticks, max_ticks } = &self.measures[measure];
        let (min_ticks, max_ticks) = (*min_ticks, *max_ticks);
        if max_ticks > 0 {
            let filled = counted.iter().enumerate().filter(|(_, count)| **count > 0);
            for (bucket, added) in filled {
                buckets.push((bucket as u16, *added));
                count += u64::from(*added);
            }
        }
        let mut min_ns = if count > 0 { clock.nanoseconds(min_ticks) } else { u64::MAX };
        // Phases count zeros; a part that did not occur is not counted at all.
        let zeros = self.count - count;
        if measure < PARTS && zeros > 0 {
            buckets.insert(0, (0, u32::try_from(zeros).unwrap_or(u32::MAX)));
            (count, min_ns) = (self.count, 0);
        }
        buckets.shrink_to_fit();
        SparseHistogram { buckets, count, sum_ns, min_ns, max_ns: clock.nanoseconds(max_ticks) }
    }
}

/// The shape with this number, which is made if it does not exist.
#[inline]
pub(crate) fn shape_of(shapes: &mut Vec<Option<Box<Shape>>>, number: usize) -> &mut Shape {
    if shapes.len() <= number {
        shapes.resize_with(number + 1, || None);
    }
    shapes[number].get_or_insert_with(|| Box::new(Shape::EMPTY))
}

/// All measures of a request except those of the transport, in ticks.
#[inline]
fn measures_of(record: &Record) -> [u64; TRANSPORT] {
    let shift = record.shift();
    let mut measures = [0; TRANSPORT];
    // Both begin with the phases and the total.
    for (ticks, units) in measures.iter_mut().zip(record.phase_units()) {
        *ticks = u64::from(units) << shift;
    }
    measures[LOOP_WAIT] = record.loop_wait.ticks().min(measures[Phase::Receive as usize]);
    for (ticks, units) in measures[PARTS..].iter_mut().zip(record.parts_units()) {
        *ticks = u64::from(*units) << shift;
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_clock::SimulatedClock;

    #[test]
    fn the_table_has_the_computed_buckets() {
        for clock in [Clock::system(), Clock::simulated(SimulatedClock::leaked(0))] {
            let table = BucketTable::new(clock);
            let border = (TABLE_UNITS as u64) << SHIFT_MIN;
            for units in (0..border).step_by(1 << SHIFT_MIN).chain(border..border + 100) {
                let exact = bucket_of(clock.nanoseconds(units));
                assert_eq!(table.of(units), exact, "{units} ticks of {clock:?}");
            }
        }
    }
}
