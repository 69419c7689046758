//! Rows that a scan has found and not yet returned: their records lie anywhere in the journal, and
//! waiting for them one after another would take most of a scan's time. So a row's place is asked
//! for when it is found, its record some rows later, and it is read some rows after that.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{Journal, RecordPlace, SegmentList};
use crate::ledger::FoundEntry;
use crate::object::Value;
use crate::read::record_length;

/// Rows that are found ahead at most. A processor waits for no more lines at a time than the
/// records of half of them have.
const ROWS_AHEAD_MAX: usize = 16;
/// Rows for which one look at the list of segments serves: as long as it is held, no collected
/// segment's space is given back.
const ROWS_A_LIST: usize = 256;

/// A live key and what the ledger knows of it.
pub(crate) struct Row {
    pub(crate) key: Vec<u8>,
    pub(crate) found: FoundEntry,
    /// Where its record is, once that was looked up, in the list of segments.
    place: Option<RecordPlace>,
}

/// The rows found ahead.
#[derive(Default)]
pub(crate) struct Ahead {
    rows: VecDeque<Row>,
    /// Keys to be used again.
    spare_keys: Vec<Vec<u8>>,
    /// Rows to be found ahead of the next one: few at first, because a scan may end soon.
    wanted: usize,
    /// Of `rows`, from the front, those whose records were asked for.
    asked: usize,
    segments: Option<Arc<SegmentList>>,
    rows_of_list: usize,
    is_at_end: bool,
    /// What stopped the finding; it comes after the rows that were found before.
    failure: Option<Error>,
}

impl Ahead {
    /// The next row, after which others were found ahead with `find`, which fills the key. The
    /// caller gives it back with [`Ahead::recycle`].
    pub(crate) fn next(
        &mut self,
        journal: &Journal,
        mut find: impl FnMut(&mut Vec<u8>) -> Result<Option<FoundEntry>>,
    ) -> Result<Option<Row>> {
        self.renew_list(journal);
        self.wanted = (2 * self.wanted).clamp(1, ROWS_AHEAD_MAX);
        while self.rows.len() < self.wanted && !self.is_at_end {
            self.find_one(&mut find);
        }
        let Some(segments) = &self.segments else { return Ok(None) };
        while self.asked < self.rows.len().min(ROWS_AHEAD_MAX / 2) {
            let row = &mut self.rows[self.asked];
            if !is_held(&row.found) {
                row.place = segments.place(row.found.sequence);
            }
            if let Some(place) = row.place {
                segments.prefetch_record(place, record_length(&row.key, &row.found));
            }
            self.asked += 1;
        }
        self.asked = self.asked.saturating_sub(1);
        match (self.rows.pop_front(), self.failure.take()) {
            (None, Some(failure)) => Err(failure),
            (row, failure) => {
                self.failure = failure;
                Ok(row)
            }
        }
    }

    /// The next row that was found already, if there is one.
    pub(crate) fn pop(&mut self) -> Option<Row> {
        self.asked = self.asked.saturating_sub(1);
        self.rows.pop_front()
    }

    fn find_one(&mut self, find: &mut impl FnMut(&mut Vec<u8>) -> Result<Option<FoundEntry>>) {
        let mut key = self.spare_keys.pop().unwrap_or_default();
        match find(&mut key) {
            Ok(Some(found)) => {
                if let Some(segments) = self.segments.as_ref().filter(|_| !is_held(&found)) {
                    segments.prefetch_place(found.sequence);
                }
                self.rows.push_back(Row { key, found, place: None });
            }
            Ok(None) => self.is_at_end = true,
            Err(failure) => (self.is_at_end, self.failure) = (true, Some(failure)),
        }
    }

    /// Takes the segments as they are now, from time to time. What was looked up in the list before
    /// is looked up again.
    fn renew_list(&mut self, journal: &Journal) {
        if self.segments.is_none() || self.rows_of_list == ROWS_A_LIST {
            self.segments = Some(journal.segments());
            self.rows_of_list = 0;
            self.asked = 0;
        }
        self.rows_of_list += 1;
    }

    /// The value of a row that [`Ahead::next`] returned last.
    pub(crate) fn read(&self, journal: &Journal, row: &mut Row) -> Result<Value> {
        if let Some(value) = row.found.take_value() {
            return Ok(Value::owned(value));
        }
        match (&self.segments, row.place) {
            (Some(segments), Some(place)) if !journal.reads_are_slow() => {
                segments.read(place, row.found.sequence, &row.key)
            }
            _ => {
                let length = record_length(&row.key, &row.found);
                journal.read_and_learn(row.found.sequence, &row.key, length)
            }
        }
    }

    /// Takes a key back, to be used again.
    pub(crate) fn recycle(&mut self, key: Vec<u8>) {
        if self.spare_keys.len() <= ROWS_AHEAD_MAX {
            self.spare_keys.push(key);
        }
    }
}

/// Whether the journal need not be asked for the value.
fn is_held(found: &FoundEntry) -> bool {
    found.value_length == 0 || found.value.is_some()
}
