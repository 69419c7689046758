//! Shapes: sums of all measures over requests with similar totals.

use pellucid_clock::Clock;

use crate::phase::PHASES;
use crate::timeline::PARTS_MAX;
use crate::transport::TRANSPORT_PARTS;

/// The index of the total among a request's measures; the phases precede it.
pub(crate) const TOTAL: usize = PHASES.len();
/// The index of `loop_wait` among the measures.
pub(crate) const LOOP_WAIT: usize = TOTAL + 1;
/// The index of the first part of `execute` among the measures.
pub(crate) const PARTS: usize = LOOP_WAIT + 1;
/// The index of the first part of the transport among the measures.
pub(crate) const TRANSPORT: usize = PARTS + PARTS_MAX;
/// The number of measures.
pub(crate) const MEASURES: usize = TRANSPORT + TRANSPORT_PARTS.len();

/// The binary logarithm of the number of buckets of the total that share a shape. So the totals of
/// a shape differ by at most 1/32, and the shapes of a drain stay in a core's own cache. With a
/// shape for each bucket, cache misses took a seventh of the time of counting a request.
const SHAPE_SHARED_BITS: u32 = 2;

/// The number of the shape of requests whose total is in `bucket`.
#[inline]
pub(crate) fn shape_number(bucket: usize) -> usize {
    bucket >> SHAPE_SHARED_BITS
}

/// The sums of all measures over the requests with similar totals ([`shape_number`]). They give the
/// mean phases of the requests around a quantile, which separate histograms of the phases cannot.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) count: u64,
    pub(crate) sums: [u64; MEASURES],
}

impl Shape {
    pub(crate) const EMPTY: Shape = Shape { count: 0, sums: [0; MEASURES] };

    /// Converts the sums from ticks to nanoseconds.
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
