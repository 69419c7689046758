//! The times of a record's steps: finding its offset, and reading it, from the page cache or from
//! the medium.

use pellucid_clock::Ticks;

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
        is_resident: impl FnOnce() -> bool,
    ) -> TimedRead<'a> {
        counting.add_sample(&counting.records.place_time, searched_from);
        let is_resident = is_resident();
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
