//! The times of a record's steps: finding its offset, and reading it, from the page cache or from
//! the medium.

use pellucid_clock::Ticks;

use super::segment::Segment;
use crate::tally::{Count, Counting};

/// The reading of a record whose steps are timed.
pub(super) struct TimedRead<'a> {
    counting: Counting<'a>,
    begun: Ticks,
    samples: Count,
    ticks: Count,
}

impl<'a> TimedRead<'a> {
    /// Counts the search, which ends with the record's offset, and begins the reading. Whether the
    /// record is in the page cache is asked before it is touched, between the steps.
    #[cold]
    pub(super) fn begin(
        (counting, searched_from): (Counting<'a>, Ticks),
        segment: &Segment,
        (offset, length): (u64, usize),
    ) -> TimedRead<'a> {
        counting.add_since(Count::PlaceTicks, searched_from);
        counting.add(Count::PlaceSamples, 1);
        let (samples, ticks) = match segment.is_resident(offset, length) {
            true => (Count::CachedSamples, Count::CachedTicks),
            false => (Count::DiskSamples, Count::DiskTicks),
        };
        TimedRead { counting, begun: counting.now(), samples, ticks }
    }

    /// Counts the reading.
    #[cold]
    pub(super) fn end(self) {
        self.counting.add_since(self.ticks, self.begun);
        self.counting.add(self.samples, 1);
    }
}
