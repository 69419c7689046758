//! The times of the steps of a record read: finding its offset, and reading it, from the page cache
//! or from the medium.

use pellucid_clock::Ticks;

use crate::counter_set::ThreadCounters;

/// A record read whose steps are timed.
pub(super) struct TimedRead<'a> {
    counting: ThreadCounters<'a>,
    begun: Ticks,
    is_resident: bool,
}

impl<'a> TimedRead<'a> {
    /// Records the time of the search, which ends with the record's offset, and begins the read.
    /// Residency in the page cache is checked between the steps, before the record is touched.
    #[cold]
    pub(super) fn begin(
        (counting, searched_from): (ThreadCounters<'a>, Ticks),
        is_resident: impl FnOnce() -> bool,
    ) -> TimedRead<'a> {
        counting.add_sample(&counting.records.place_time, searched_from);
        let is_resident = is_resident();
        TimedRead { counting, begun: counting.now(), is_resident }
    }

    /// Records the time of the read.
    #[cold]
    pub(super) fn end(self) {
        let records = &self.counting.records;
        let time = if self.is_resident { &records.cached_time } else { &records.disk_time };
        self.counting.add_sample(time, self.begun);
    }
}
