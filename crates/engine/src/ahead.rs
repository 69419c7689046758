//! Rows that a scan has found and not yet returned: their records lie anywhere in the journal, and
//! waiting for them one after another would take most of a scan's time. So a row's place is asked
//! for when it is found, the beginning of its record some rows later, all of it some rows after
//! that, and then it is read.
//!
//! The beginnings are asked for in groups, because each lies in another page: a processor does not
//! go on past a request for memory before it has translated its address, and that takes longer
//! than the rest of a row. It translates several at once, if they come one right after the other.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::expiry::MarkedTime;
use crate::journal::{RecordLocation, SegmentList, SegmentSet};
use crate::ledger::FoundEntry;
use crate::object::Value;
use crate::read_mode::ReadMode;
use crate::reader::record_length;

/// Rows that are found ahead at most. A processor waits for no more lines at a time than the
/// records of half of them have.
const ROWS_AHEAD_MAX: usize = 16;
/// Rows whose records were asked for, of those.
const ROWS_ASKED_MAX: usize = 8;
/// Rows the beginnings of whose records are asked for together.
const ROWS_TOGETHER: usize = ROWS_AHEAD_MAX - ROWS_ASKED_MAX;
/// Rows for which one look at the list of segments serves: as long as it is held, no collected
/// segment's space is given back.
const ROWS_A_LIST: usize = 256;

/// A live key and what the ledger knows of it.
struct Row {
    key: Vec<u8>,
    found: FoundEntry,
    /// The segment that its record belongs to, once that was looked up, in the list of segments.
    segment: Option<usize>,
    /// The location of its record in the list of segments, once that was looked up.
    location: Option<RecordLocation>,
}

impl Row {
    fn empty() -> Row {
        Row { key: Vec::new(), found: FoundEntry::nothing(), segment: None, location: None }
    }
}

/// The next row, until the one after it is asked for.
pub(crate) struct NextRow<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) found: &'a mut FoundEntry,
    pub(crate) value: Result<Value>,
}

/// The rows found ahead.
#[derive(Default)]
pub(crate) struct Ahead {
    /// A ring, in which rows stay where they were found: a scan moves millions of them on. Those
    /// that are over are used again, with the memory of their keys.
    rows: Vec<Row>,
    /// The index of the first row.
    first: usize,
    /// Rows from there on.
    length: usize,
    /// The first row was returned, and goes with the next call.
    is_returned: bool,
    /// Rows to be found ahead of the next one: few at first, because a scan may end soon.
    wanted: usize,
    /// Of the rows, from the first, those the beginnings of whose records were asked for.
    begun: usize,
    /// Of them, those whose records were asked for.
    asked: usize,
    segments: Option<Arc<SegmentList>>,
    rows_of_list: usize,
    is_at_end: bool,
    /// The error that stopped the finding; it comes after the rows that were found before.
    failure: Option<Error>,
}

impl Ahead {
    /// The next row with its value, after which others were found ahead with `find`, which fills in
    /// the key and what was found of it, and says whether there was one. A row that has expired
    /// since it was found is passed over: its record may be gone.
    pub(crate) fn next(
        &mut self,
        journal: &SegmentSet,
        mode: ReadMode,
        time: &MarkedTime,
        mut find: impl FnMut(&mut Vec<u8>, &mut FoundEntry) -> Result<bool>,
    ) -> Result<Option<NextRow<'_>>> {
        let value = loop {
            self.let_go();
            self.renew_list(journal);
            self.wanted = (2 * self.wanted).clamp(1, ROWS_AHEAD_MAX);
            while self.length < self.wanted && !self.is_at_end {
                self.find_one(&mut find);
            }
            self.ask_for_beginnings();
            self.ask_for_records();
            if !self.take_first()? {
                return Ok(None);
            }
            let row = &mut self.rows[self.first];
            if time.is_live(&row.found) {
                let value = read(journal, self.segments.as_deref(), row, mode);
                if value.is_ok() || time.is_live(&row.found) {
                    break value;
                }
            }
        };
        let row = &mut self.rows[self.first];
        Ok(Some(NextRow { key: &row.key, found: &mut row.found, value }))
    }

    /// The next key and what was found of it. The journal is not asked.
    pub(crate) fn next_found(
        &mut self,
        time: &MarkedTime,
        mut find: impl FnMut(&mut Vec<u8>, &mut FoundEntry) -> Result<bool>,
    ) -> Result<Option<(&[u8], &mut FoundEntry)>> {
        loop {
            self.let_go();
            if self.length == 0 && !self.is_at_end {
                self.find_one(&mut find);
            }
            if !self.take_first()? {
                return Ok(None);
            }
            if time.is_live(&self.rows[self.first].found) {
                break;
            }
        }
        let row = &mut self.rows[self.first];
        Ok(Some((&row.key, &mut row.found)))
    }

    /// True if no row waits, and none was found to be the last: then a key can be found past it.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.let_go();
        self.length == 0 && !self.is_at_end
    }

    /// Lets go of the row that was returned last.
    fn let_go(&mut self) {
        if std::mem::take(&mut self.is_returned) {
            self.first = self.index(1);
            self.length -= 1;
            self.begun = self.begun.saturating_sub(1);
            self.asked = self.asked.saturating_sub(1);
        }
    }

    /// True if there is a row to return. What stopped the finding comes after all of them.
    fn take_first(&mut self) -> Result<bool> {
        self.is_returned = self.length > 0;
        match self.failure.take_if(|_| self.length == 0) {
            Some(failure) => Err(failure),
            None => Ok(self.is_returned),
        }
    }

    /// The index in the ring of the row that comes so many behind the first.
    #[inline]
    fn index(&self, behind: usize) -> usize {
        let index = self.first + behind;
        if index >= self.rows.len() { index - self.rows.len() } else { index }
    }

    fn find_one(&mut self, find: &mut impl FnMut(&mut Vec<u8>, &mut FoundEntry) -> Result<bool>) {
        if self.length == self.rows.len() {
            // The ring is full: rows are added at its end, and that is where the last row is.
            self.rows.rotate_left(self.first);
            self.first = 0;
            let length = (2 * self.length).max(1);
            self.rows.resize_with(length, Row::empty);
        }
        let at = self.index(self.length);
        let row = &mut self.rows[at];
        match find(&mut row.key, &mut row.found) {
            Ok(true) => {
                (row.segment, row.location) = (None, None);
                if let Some(segments) = self.segments.as_ref().filter(|_| !is_held(&row.found)) {
                    row.segment = segments.find_index(row.found.sequence);
                    segments.prefetch_offset_in(row.segment, row.found.sequence);
                }
                self.length += 1;
            }
            Ok(false) => self.is_at_end = true,
            Err(failure) => (self.is_at_end, self.failure) = (true, Some(failure)),
        }
    }

    /// Looks up where records are, and asks for their beginnings, once there are enough rows for
    /// that, or too few of which it is known.
    fn ask_for_beginnings(&mut self) {
        let Some(segments) = &self.segments else { return };
        let is_due = self.length - self.begun >= ROWS_TOGETHER
            || self.begun < self.length.min(ROWS_ASKED_MAX);
        if !is_due {
            return;
        }
        let new = self.begun..self.length;
        for behind in new.clone() {
            let at = self.index(behind);
            let row = &mut self.rows[at];
            if !is_held(&row.found) {
                let segment = row.segment.or_else(|| segments.find_index(row.found.sequence));
                row.location = segments.locate_in(segment, row.found.sequence);
            }
        }
        // Nothing comes between them.
        for behind in new {
            let row = &self.rows[self.index(behind)];
            if let Some(location) = row.location {
                segments.prefetch_beginning(location);
            }
        }
        self.begun = self.length;
    }

    /// Asks for the records of the first rows.
    fn ask_for_records(&mut self) {
        let Some(segments) = &self.segments else { return };
        while self.asked < self.begun.min(ROWS_ASKED_MAX) {
            let row = &self.rows[self.index(self.asked)];
            if let Some(location) = row.location {
                segments.prefetch_record(location, record_length(&row.key, &row.found));
            }
            self.asked += 1;
        }
    }

    /// Takes the segments as they are now, from time to time. What was looked up in the list before
    /// is looked up again.
    fn renew_list(&mut self, journal: &SegmentSet) {
        if self.segments.is_none() || self.rows_of_list == ROWS_A_LIST {
            self.segments = Some(journal.list());
            self.rows_of_list = 0;
            (self.begun, self.asked) = (0, 0);
            self.rows.iter_mut().for_each(|row| row.segment = None);
        }
        self.rows_of_list += 1;
    }
}

/// The value of a row.
fn read(
    journal: &SegmentSet,
    segments: Option<&SegmentList>,
    row: &mut Row,
    mode: ReadMode,
) -> Result<Value> {
    if let Some(value) = row.found.take_value() {
        return Ok(Value::copied(value));
    }
    match (segments, row.location) {
        (Some(segments), Some(location)) if !journal.medium().are_slow() => {
            segments.read(location, row.found.sequence, &row.key)
        }
        _ => {
            let length = record_length(&row.key, &row.found);
            journal.read_for_scan(row.found.sequence, &row.key, length, mode)
        }
    }
}

/// True if the journal need not be asked for the value.
fn is_held(found: &FoundEntry) -> bool {
    found.value_length == 0 || found.value.is_some()
}
