//! Shapes: sums of all measures over requests whose totals are about the same.

use pellucid_clock::Clock;

use crate::phase::PHASES;
use crate::timeline::PARTS_MAX;
use crate::transport::TRANSPORT_PARTS;

/// Slots of a request's measures: the phases, then these.
pub(crate) const TOTAL: usize = PHASES.len();
pub(crate) const LOOP_WAIT: usize = TOTAL + 1;
pub(crate) const PARTS: usize = LOOP_WAIT + 1;
pub(crate) const TRANSPORT: usize = PARTS + PARTS_MAX;
pub(crate) const MEASURES: usize = TRANSPORT + TRANSPORT_PARTS.len();

/// So many buckets of the total share a shape, as a power of two: a shape then stands for totals
/// within 1/32 of each other, and those of a drain stay in a core's own cache. With one for each
/// bucket, to wait for them was a seventh of the time that it takes to count a request.
const SHAPE_SHARED_BITS: u32 = 2;

/// The number of the shape that requests whose total is in `bucket` belong to.
#[inline]
pub(crate) fn shape_number(bucket: usize) -> usize {
    bucket >> SHAPE_SHARED_BITS
}

/// Sums of all measures, in nanoseconds, over the requests whose totals are about the same
/// ([`shape_number`]): the shape of the requests around a quantile can be told from them, and from
/// nothing that keeps phases apart.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) count: u64,
    pub(crate) sums: [u64; MEASURES],
}

impl Shape {
    pub(crate) const EMPTY: Shape = Shape { count: 0, sums: [0; MEASURES] };

    /// The same with sums in nanoseconds, where they were in ticks.
    pub(crate) fn in_ns(&self, clock: &Clock) -> Shape {
        Shape { count: self.count, sums: self.sums.map(|ticks| clock.nanoseconds(ticks)) }
    }

    pub(crate) fn merge(&mut self, other: &Shape) {
        self.count += other.count;
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            *sum += other;
        }
    }
}
