//! The flight recorder: the complete records of the last seconds, for questions about the recent
//! past.
//!
//! The rings of the event loops are small so that they stay in a core's cache. The draining thread
//! appends the records that it reads to this history, which costs some ten nanoseconds a request.

use pellucid_clock::Ticks;

use crate::record::{RECORD_WORDS, Record};

/// The default number of kept records: 16 MiB, or 1.3 seconds at 100,000 requests a second. The
/// memory is allocated as requests come.
pub const HISTORY_RECORDS: usize = 1 << 17;

/// The newest records, in the order in which they were drained.
pub(crate) struct History {
    records: Vec<[u64; RECORD_WORDS]>,
    capacity: usize,
    /// The index of the oldest record, once the history is full.
    oldest: usize,
}

impl History {
    pub(crate) fn new(capacity: usize) -> History {
        assert!(capacity > 0, "a history keeps at least one record");
        History { records: Vec::new(), capacity, oldest: 0 }
    }

    /// True if `records` more can be added without growing the buffer. Growing may have to move all
    /// of its 16 MiB.
    pub(crate) fn has_room_for(&self, records: usize) -> bool {
        let held = self.records.len();
        held == self.capacity || held + records <= self.records.capacity()
    }

    #[inline]
    pub(crate) fn push(&mut self, words: &[u64; RECORD_WORDS]) {
        if self.records.len() < self.capacity {
            self.records.push(*words);
            return;
        }
        self.records[self.oldest] = *words;
        self.oldest += 1;
        if self.oldest == self.capacity {
            self.oldest = 0;
        }
    }

    /// The records that ended at `since` or later, the newest last; if there are more than `limit`,
    /// the newest ones. Records of several threads are not exactly in the order of their ends, so
    /// the search continues until a record ended `slack` ticks before `since`. Records that were
    /// held back ([`Record::is_told_later`]) do not end the search.
    pub(crate) fn since(&self, since: Ticks, slack: u64, limit: usize) -> Vec<Record> {
        let horizon = Ticks(since.0.saturating_sub(slack));
        let (newer, older) = self.records.split_at(self.oldest);
        let newest_first = newer.iter().rev().chain(older.iter().rev());
        let records = newest_first.map(|words| Record::from_words(*words));
        let is_near = |record: &Record| record.is_told_later || record.span().1 >= horizon;
        let late = records.take_while(is_near);
        let mut found: Vec<Record> =
            late.filter(|record| record.span().1 >= since).take(limit).collect();
        found.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RequestFacts;

    #[test]
    fn the_newest_records_are_kept_in_order() {
        let mut history = History::new(4);
        let numbers = |history: &History, since, limit| -> Vec<u64> {
            let found = history.since(Ticks(since), 30, limit);
            found.iter().map(|record| record.facts.request).collect()
        };
        assert_eq!(numbers(&history, 0, 9), []);
        for request in 1..=6 {
            let facts = RequestFacts { request, ..RequestFacts::default() };
            let record = Record { facts, arrived_ticks: request * 10, ..Record::default() };
            history.push(&record.to_words());
        }
        assert_eq!(numbers(&history, 0, 9), [3, 4, 5, 6]);
        assert_eq!(numbers(&history, 45, 9), [5, 6]);
        assert_eq!(numbers(&history, 0, 3), [4, 5, 6]);
    }
}
