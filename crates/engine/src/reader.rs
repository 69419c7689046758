//! Point reads: first the ledger, then one record of the journal.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_clock::Clock;

use crate::codec::{InternalKey, key_hash};
use crate::counter_set::ReadMeasurement;
use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::header_form::HeaderForm;
use crate::journal::SegmentSet;
use crate::ledger::{FoundEntry, Ledger, LookupMetrics, LookupRequest, LookupResult, RecordReader};
use crate::object::{Head, Object, Value};
use crate::parts;
use crate::read_mode::{ReadMode, ReadResult};
use crate::table_id::TableId;

/// A group of reads that takes this long counts as slow: hundreds from memory take less.
const SLOW_TOGETHER_NS: u64 = 1_000_000;

/// The length of the record of an entry, without its padding.
#[inline]
pub(crate) fn record_length(key: &[u8], found: &FoundEntry) -> usize {
    let form = HeaderForm::of(found.head.len(), found.written_at_ms, found.expires_at_ms);
    form.length() + key.len() + found.head.len() + found.stored_length as usize
}

/// Reads single keys.
pub(crate) struct Reader {
    ledger: Arc<Ledger>,
    segments: Arc<SegmentSet>,
    /// The time by which entries expire.
    time: Arc<ExpiryClock>,
    clock: Clock,
}

impl Reader {
    pub(crate) fn new(
        ledger: Arc<Ledger>,
        segments: Arc<SegmentSet>,
        time: Arc<ExpiryClock>,
        clock: Clock,
    ) -> Reader {
        Reader { ledger, segments, time, clock }
    }

    /// True if records recently had to be fetched from the medium.
    pub(crate) fn is_slow(&self) -> bool {
        self.segments.medium().are_slow()
    }

    /// Runs `reads`, a group of reads, with the mode to use. Returns what `reads` returns: true if
    /// all of them found their data in memory.
    pub(crate) fn all_in_memory(&self, reads: impl FnOnce(ReadMode) -> bool) -> bool {
        let begun = self.clock.stopwatch();
        let (are_here, is_slow) = if self.is_slow() {
            let are_here = reads(ReadMode::InMemory);
            (are_here, !are_here)
        } else {
            (reads(ReadMode::Brief), begun.elapsed_ns() >= SLOW_TOGETHER_NS)
        };
        if is_slow {
            self.segments.medium().note_away();
        }
        are_here
    }

    /// Makes a read in `mode`. Only while reads are slow does it check that its pages are in
    /// memory.
    #[inline]
    pub(crate) fn in_mode<T>(
        &self,
        mode: ReadMode,
        timeline: &mut Timeline,
        read: impl Fn(ReadMode, &mut Timeline) -> Result<Option<T>>,
    ) -> Result<ReadResult<T>> {
        if mode != ReadMode::InMemory {
            return read(mode, timeline).map(ReadResult::from);
        }
        let medium = self.segments.medium();
        if !medium.are_slow() {
            let read_ticks = |timeline: &Timeline| {
                timeline.part_ticks(parts::LEDGER) + timeline.part_ticks(parts::JOURNAL_READ)
            };
            // A timeline that is off takes no readings.
            let begun = (!timeline.is_on()).then(|| self.clock.now());
            let before = read_ticks(timeline);
            let found = read(ReadMode::MayBlock, timeline);
            let ticks = match begun {
                Some(begun) => self.clock.now().since(begun),
                None => read_ticks(timeline).saturating_sub(before),
            };
            medium.note_if_slow(self.clock.nanoseconds(ticks));
            return found.map(ReadResult::from);
        }
        // An abandoned read must leave nothing in the timeline.
        let before = timeline.clone();
        match read(mode, timeline) {
            Err(Error::NotInMemory) => {
                *timeline = before;
                medium.note_away();
                Ok(ReadResult::NotInMemory)
            }
            found => found.map(ReadResult::from),
        }
    }

    /// The object of `key` as of the sequence number `at_sequence`.
    pub(crate) fn get(
        &self,
        table: TableId,
        key: &[u8],
        at_sequence: u64,
        mode: ReadMode,
        timeline: &mut Timeline,
    ) -> Result<Option<Object>> {
        let mut internal = InternalKey::empty();
        internal.set(table.0, key)?;
        let key = internal.as_bytes();
        let hash = key_hash(key);
        let mut missed = 0;
        loop {
            let mut counts = timeline.counts;
            let mut named = DirectRecordReader { reader: self, key, mode, timeline, turn: None };
            let (version, at_sequence) = self.ledger.version_at(at_sequence);
            let sought = LookupRequest { key, hash, at_sequence, mode };
            let asking = LookupMetrics::begin(self.ledger.tally().mine());
            let answer = version.find(&sought, &mut counts, &asking, &mut named);
            if answer.is_ok() {
                asking.end(&mut counts);
            }
            // The version is released before a record is read.
            drop(version);
            let turn = named.turn;
            timeline.counts = counts;
            let found = match answer {
                Ok(Some(LookupResult::Record((head, value)))) => {
                    timeline.counts.records = timeline.counts.records.saturating_add(1);
                    let is_live = !self.time.has_expired(head.expires_at_ms);
                    return Ok(is_live.then_some(Object { head, value }));
                }
                Ok(Some(LookupResult::Entry(found))) => Ok(Some(found)),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            timeline.lap(parts::LEDGER);
            let Some(mut found) = found?.filter(|entry| self.time.is_live(entry)) else {
                return Ok(None);
            };
            if let Some(value) = found.take_value() {
                let counting = self.ledger.tally().mine();
                counting.add(&counting.records.held_values, 1);
                return Ok(Some(Object {
                    head: Head::from_found(found),
                    value: Value::copied(value),
                }));
            }
            let value = self.read_record(key, &found, mode, turn)?;
            timeline.counts.records = timeline.counts.records.saturating_add(1);
            timeline.lap(parts::JOURNAL_READ);
            if let Some(value) = value {
                return Ok(Some(Object { head: Head::from_found(found), value }));
            }
            // A record is collected only after a newer one was published, so the next look-up finds
            // the newer one. If it finds the same one again, the record is really missing.
            if found.sequence == missed {
                return Err(self.segments.missing(missed));
            }
            missed = found.sequence;
        }
    }

    /// Reads the value of an entry and counts the read; `None` if the journal no longer has it.
    fn read_record(
        &self,
        key: &[u8],
        found: &FoundEntry,
        mode: ReadMode,
        turn: Option<ReadMeasurement>,
    ) -> Result<Option<Value>> {
        let counting = self.ledger.tally().mine();
        let turn = match turn {
            None => counting.turn(&counting.turns.records),
            // The time since then includes other steps, so start again.
            Some(ReadMeasurement::Timed(_)) => ReadMeasurement::Timed(counting.now()),
            Some(turn) => turn,
        };
        let steps = (turn == ReadMeasurement::Stepped).then_some(counting);
        let length = record_length(key, found);
        let value = self.segments.read((found.sequence, key), length, mode, steps)?;
        self.count_record(found.value_length, turn);
        Ok(value)
    }

    /// Counts a record that was read.
    #[inline]
    fn count_record(&self, value_length: u32, turn: ReadMeasurement) {
        let counting = self.ledger.tally().mine();
        counting.add(&counting.records.records, 1);
        counting.add(&counting.records.record_bytes, u64::from(value_length));
        if let ReadMeasurement::Timed(begun) = turn {
            let ended = counting.add_sample(&counting.records.record_time, begun);
            self.segments.medium().note(self.clock.nanoseconds(ended.since(begun)));
        }
    }

    /// The head of `key` as of `at_sequence`.
    pub(crate) fn head(
        &self,
        table: TableId,
        key: &[u8],
        at_sequence: u64,
        mode: ReadMode,
        timeline: &mut Timeline,
    ) -> Result<Option<Head>> {
        let mut internal = InternalKey::empty();
        internal.set(table.0, key)?;
        let key = internal.as_bytes();
        let found = self.ledger.get(key, at_sequence, mode, &mut timeline.counts);
        timeline.lap(parts::LEDGER);
        let found = found?;
        if mode == ReadMode::InMemory {
            self.segments.medium().note_head_here();
        }
        Ok(found.filter(|entry| self.time.is_live(entry)).map(Head::from_found))
    }
}

/// The short path of a GET: reads the record whose sequence number a directory of the ledger gives,
/// and counts the read.
struct DirectRecordReader<'a> {
    reader: &'a Reader,
    key: &'a [u8],
    mode: ReadMode,
    timeline: &'a mut Timeline,
    /// The measuring turn of this read, once it was taken.
    turn: Option<ReadMeasurement>,
}

impl RecordReader for DirectRecordReader<'_> {
    type Answer = (Head, Value);
    const ARE_READ: bool = true;

    #[inline]
    fn read(&mut self, sequence: u64) -> Option<(Head, Value)> {
        let counting = self.reader.ledger.tally().mine();
        let turn = *self.turn.get_or_insert_with(|| counting.turn(&counting.turns.records));
        self.timeline.lap(parts::LEDGER);
        let segments = &self.reader.segments;
        if self.mode == ReadMode::InMemory || segments.medium().are_slow() {
            return None;
        }
        let steps = (turn == ReadMeasurement::Stepped).then(|| (counting, counting.now()));
        let segments = segments.load();
        let read = segments.find(sequence)?.read_named(sequence, self.key, steps);
        if let Some((head, _)) = &read {
            self.reader.count_record(head.value_length, turn);
            self.timeline.lap(parts::JOURNAL_READ);
        }
        read
    }
}
