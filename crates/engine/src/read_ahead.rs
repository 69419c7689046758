//! Look-ahead of a scan: rows that were found and not yet returned. Their records are spread over
//! the journal, and waiting for one after another would take most of a scan's time. So the index
//! entry of a row's record is prefetched when the row is found, the beginning of the record some
//! rows later, the whole record some rows after that, and then it is read.
//!
//! The beginnings are prefetched in groups, because each is in another page: a processor stalls at
//! a prefetch until the address is translated, which takes longer than the rest of the work on a
//! row. It translates several addresses at once if the prefetches directly follow one another.

use std::sync::Arc;

use crate::counter_set::CounterSet;
use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::journal::{RecordLocation, SegmentList, SegmentSet};
use crate::ledger::FoundEntry;
use crate::object::Value;
use crate::read_mode::ReadMode;
use crate::reader::record_length;

/// The most rows that are found ahead. The records of half of them have as many cache lines as a
/// processor can have outstanding.
const ROWS_AHEAD_MAX: usize = 16;
/// The most of these rows whose records are prefetched.
const ROWS_ASKED_MAX: usize = 8;
/// The number of rows whose record beginnings are prefetched together.
const ROWS_TOGETHER: usize = ROWS_AHEAD_MAX - ROWS_ASKED_MAX;
/// The number of rows for which the same list of segments is used: while the list is held, the
/// space of collected segments is not freed.
const ROWS_A_LIST: usize = 256;

/// A live key with its entry in the ledger.
struct Row {
    key: Vec<u8>,
    found: FoundEntry,
    /// The index of the record's segment in the list of segments, once it was looked up.
    segment: Option<usize>,
    /// The location of the record, once it was looked up in the list of segments.
    location: Option<RecordLocation>,
}

impl Row {
    fn empty() -> Row {
        Row { key: Vec::new(), found: FoundEntry::nothing(), segment: None, location: None }
    }
}

/// The next row, valid until the following one is requested.
pub(crate) struct NextRow<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) found: &'a mut FoundEntry,
    pub(crate) value: Value,
}

/// Reads of a scan that are not yet in the counters, to which a scan does not write for each row.
#[derive(Default)]
struct UncountedReads {
    held_values: u64,
    records: u64,
    record_bytes: u64,
}

impl UncountedReads {
    /// Adds them to the counters of this thread.
    fn count(&mut self, tally: &CounterSet) {
        let UncountedReads { held_values, records, record_bytes } = std::mem::take(self);
        let counting = tally.mine();
        counting.add(&counting.records.held_values, held_values);
        counting.add(&counting.records.records, records);
        counting.add(&counting.records.record_bytes, record_bytes);
    }
}

/// The rows that were found ahead.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// A ring buffer: rows are not moved, because a scan passes millions of them. Entries are
    /// reused with the memory of their keys.
    rows: Vec<Row>,
    /// The index of the first row in the ring.
    first: usize,
    /// The number of rows.
    length: usize,
    /// True if the first row was returned, so that the next call removes it.
    is_returned: bool,
    /// The number of rows to find ahead: few at first, because a scan may end soon.
    wanted: usize,
    /// The number of rows, from the first, whose record beginnings were prefetched.
    begun: usize,
    /// The number of rows, from the first, whose records were prefetched.
    asked: usize,
    /// `None` if locating a record might wait for the medium, and the scan must not.
    segments: Option<Arc<SegmentList>>,
    /// The number of rows since the scan began or was released.
    rows_taken: usize,
    uncounted: UncountedReads,
    is_at_end: bool,
    /// The error that ended the search; each call returns it after the rows that were found before.
    failure: Option<Error>,
}

impl ReadAhead {
    /// Returns the next row with its value, and finds further rows ahead with `find`. `find` fills
    /// in the key and the entry, and returns false at the end. A row that expired after it was
    /// found is skipped, because its record may be gone.
    pub(crate) fn next(
        &mut self,
        journal: &SegmentSet,
        mode: ReadMode,
        time: &ExpiryClock,
        tally: &CounterSet,
        mut find: impl FnMut(&mut Vec<u8>, &mut FoundEntry) -> Result<bool>,
    ) -> Result<Option<NextRow<'_>>> {
        loop {
            self.let_go();
            self.renew_list(journal, mode, tally);
            self.wanted = (2 * self.wanted).clamp(1, ROWS_AHEAD_MAX);
            while self.length < self.wanted && !self.is_at_end {
                self.find_one(&mut find);
            }
            self.ask_for_beginnings();
            self.ask_for_records();
            if !self.take_first()? {
                self.count_reads(tally);
                return Ok(None);
            }
            let row = &mut self.rows[self.first];
            if time.is_live(&row.found) {
                let segments = self.segments.as_deref();
                match read(journal, segments, row, mode, &mut self.uncounted) {
                    Ok(value) => {
                        let row = &mut self.rows[self.first];
                        return Ok(Some(NextRow { key: &row.key, found: &mut row.found, value }));
                    }
                    Err(error) if time.is_live(&row.found) => return Err(self.fail(error)),
                    Err(_) => {}
                }
            }
        }
    }

    /// Returns the next key and its entry, without reading the journal.
    pub(crate) fn next_found(
        &mut self,
        time: &ExpiryClock,
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

    /// Adds the reads so far to the counters. It is due at the latest when the scan ends.
    pub(crate) fn count_reads(&mut self, tally: &CounterSet) {
        self.uncounted.count(tally);
    }

    /// Releases the list of segments, until the next row is read.
    pub(crate) fn release(&mut self) {
        (self.segments, self.rows_taken) = (None, 0);
    }

    /// True if no row is waiting and the end was not reached, so that the caller may search
    /// directly.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.let_go();
        self.length == 0 && !self.is_at_end
    }

    /// Removes the row that was returned last.
    fn let_go(&mut self) {
        if std::mem::take(&mut self.is_returned) {
            self.first = self.index(1);
            self.length -= 1;
            self.begun = self.begun.saturating_sub(1);
            self.asked = self.asked.saturating_sub(1);
        }
    }

    /// Returns true if there is a row to return. The error that ended the search comes after all
    /// rows.
    fn take_first(&mut self) -> Result<bool> {
        self.is_returned = self.length > 0;
        if self.is_returned {
            return Ok(true);
        }
        self.failure.clone().map_or(Ok(false), Err)
    }

    /// Ends the scan at a row that could not be read.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        (self.length, self.begun, self.asked) = (0, 0, 0);
        (self.is_returned, self.is_at_end) = (false, true);
        self.failure = Some(error.clone());
        error
    }

    /// The index in the ring of the row `behind` rows after the first. The length of the ring is a
    /// power of two.
    #[inline]
    fn index(&self, behind: usize) -> usize {
        (self.first + behind) & (self.rows.len() - 1)
    }

    fn find_one(&mut self, find: &mut impl FnMut(&mut Vec<u8>, &mut FoundEntry) -> Result<bool>) {
        if self.length == self.rows.len() {
            // The ring is full: rotate it so that the first row is at its start, then append
            // entries.
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

    /// Locates records and prefetches their beginnings, once there is a group of new rows, or if
    /// too few rows are prepared.
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
        // A loop without any other work, so that the prefetches directly follow one another.
        for behind in new {
            let row = &self.rows[self.index(behind)];
            if let Some(location) = row.location {
                segments.prefetch_beginning(location);
            }
        }
        self.begun = self.length;
    }

    /// Prefetches the records of the first rows.
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

    /// Loads the current list of segments from time to time; locations in the previous list are
    /// then looked up again. Also counts the reads since then.
    fn renew_list(&mut self, journal: &SegmentSet, mode: ReadMode, tally: &CounterSet) {
        if self.rows_taken.is_multiple_of(ROWS_A_LIST) {
            self.uncounted.count(tally);
            self.segments = (mode != ReadMode::InMemory).then(|| journal.list());
            (self.begun, self.asked) = (0, 0);
            self.rows.iter_mut().for_each(|row| row.segment = None);
        }
        self.rows_taken += 1;
    }
}

/// Reads the value of a row, and counts the read.
fn read(
    journal: &SegmentSet,
    segments: Option<&SegmentList>,
    row: &mut Row,
    mode: ReadMode,
    uncounted: &mut UncountedReads,
) -> Result<Value> {
    if let Some(value) = row.found.take_value() {
        uncounted.held_values += 1;
        return Ok(Value::copied(value));
    }
    let may_fault = mode != ReadMode::InMemory && !journal.medium().are_slow();
    let value = match (segments, row.location) {
        (Some(segments), Some(location)) if may_fault => {
            segments.read(location, row.found.sequence, &row.key)
        }
        _ => {
            let length = record_length(&row.key, &row.found);
            journal.read_for_scan(row.found.sequence, &row.key, length, mode)
        }
    }?;
    uncounted.records += 1;
    uncounted.record_bytes += u64::from(row.found.value_length);
    Ok(value)
}

/// True if the value can be had without the journal.
fn is_held(found: &FoundEntry) -> bool {
    found.value_length == 0 || found.value.is_some()
}
