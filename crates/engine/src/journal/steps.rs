//! The times of a record's steps: finding its offset, and reading it, from the page cache or from
//! the medium.

use pellucid_clock::Ticks;

use super::segment::Segment;
use crate::tally::Counting;

/// The reading of a record whose steps are timed.
pub(super) struct TimedRead<'a> {
    counting: Counting<'a>,
    begun: Ticks,
    is_resident: bool,
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
        counting.add_sample(&counting.records.place_time, searched_from);
        let is_resident = segment.is_resident(offset, length);
        TimedRead { counting, begun: counting.now(), is_resident }
    }

    /// Counts the reading.
    #[cold]
    pub(super) fn end(self) {
        let records = &self.counting.records;
        let time = if self.is_resident { &records.cached_time } else { &records.disk_time };
        self.counting.add_sample(time, self.begun);
    }
}
