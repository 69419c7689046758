//! Look-ups: the ledger first, then one record of the journal.

use pellucid_account::Timeline;

use crate::catalogue::TableId;
use crate::codec::InternalKey;
use crate::engine::{Engine, Inner};
use crate::error::{Error, Result};
use crate::header_form::HeaderForm;
use crate::ledger::{Answer, FoundEntry, NEWEST, Records};
use crate::object::{Head, Object, Value};
use crate::parts;
use crate::read_mode::{Read, ReadMode};
use crate::tally::{Count, Turn};

/// How long the record of an entry is as it would be written now, its padding aside.
#[inline]
pub(crate) fn record_length(key: &[u8], found: &FoundEntry) -> usize {
    let form = HeaderForm::of(found.head.len(), found.written_at_ms, found.expires_at_ms);
    form.length() + key.len() + found.head.len() + found.stored_length as usize
}

/// Reads that belong together are taken for slow from here on: hundreds from memory take less.
const SLOW_TOGETHER_NS: u64 = 1_000_000;

impl Engine {
    /// The head and the value of `key`, if it is there. An empty value is not read from the
    /// journal, because the ledger says all of it.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if a block or the record is damaged: what cannot be read is
    /// never taken for absent.
    #[inline]
    pub fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Object>> {
        self.inner.get_at(table, key, NEWEST, ReadMode::MayBlock, &mut Timeline::off())
    }

    /// As [`Engine::get`], in `mode`, with the parts of the read in `timeline`.
    ///
    /// With [`ReadMode::InMemory`] the first slow read after a while without any is waited for: it
    /// is what tells that they are slow.
    ///
    /// # Errors
    /// As [`Engine::get`].
    #[inline]
    pub fn get_timed(
        &self,
        table: TableId,
        key: &[u8],
        mode: ReadMode,
        timeline: &mut Timeline,
    ) -> Result<Read<Object>> {
        self.in_mode(mode, timeline, |inner, mode, timeline| {
            inner.get_at(table, key, NEWEST, mode, timeline)
        })
    }

    /// All that is known of `key` but its value, if it is there. The journal is not touched.
    ///
    /// # Errors
    /// As [`Engine::get`].
    #[inline]
    pub fn head(&self, table: TableId, key: &[u8]) -> Result<Option<Head>> {
        self.inner.head_at(table, key, NEWEST, ReadMode::MayBlock, &mut Timeline::off())
    }

    /// As [`Engine::head`], in the way of [`Engine::get_timed`].
    ///
    /// # Errors
    /// As [`Engine::get`].
    #[inline]
    pub fn head_timed(
        &self,
        table: TableId,
        key: &[u8],
        mode: ReadMode,
        timeline: &mut Timeline,
    ) -> Result<Read<Head>> {
        self.in_mode(mode, timeline, |inner, mode, timeline| {
            inner.head_at(table, key, NEWEST, mode, timeline)
        })
    }

    /// Has `reads` make reads that belong together on a thread that must not wait, in the mode that
    /// it is given. `reads` says whether all of them found their data in memory, and so does this;
    /// otherwise all of them are to be made again on a thread that may wait.
    pub fn all_in_memory(&self, reads: impl FnOnce(ReadMode) -> bool) -> bool {
        let (journal, clock) = (&self.inner.journal, self.inner.options.clock);
        let begun = clock.stopwatch();
        let (are_here, is_slow) = match journal.reads_are_slow() {
            false => (reads(ReadMode::MayBlock), begun.elapsed_ns() >= SLOW_TOGETHER_NS),
            true => {
                let are_here = reads(ReadMode::InMemory);
                (are_here, !are_here)
            }
        };
        if is_slow {
            journal.note_away();
        }
        are_here
    }

    /// Whether no read of late had to wait for the medium. Only a hint: the next one may.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        !self.inner.journal.reads_are_slow()
    }

    #[inline]
    fn in_mode<T>(
        &self,
        mode: ReadMode,
        timeline: &mut Timeline,
        read: impl Fn(&Inner, ReadMode, &mut Timeline) -> Result<Option<T>>,
    ) -> Result<Read<T>> {
        let journal = &self.inner.journal;
        if mode == ReadMode::MayBlock {
            return read(&self.inner, mode, timeline).map(Read::from);
        }
        if !journal.reads_are_slow() {
            let read_ticks = |timeline: &Timeline| {
                timeline.part_ticks(parts::LEDGER) + timeline.part_ticks(parts::JOURNAL_READ)
            };
            let before = read_ticks(timeline);
            let found = read(&self.inner, ReadMode::MayBlock, timeline);
            let ticks = read_ticks(timeline).saturating_sub(before);
            journal.note_if_slow(self.inner.options.clock.nanoseconds(ticks));
            return found.map(Read::from);
        }
        // What a read that ends early has noted belongs to no answer.
        let before = timeline.clone();
        match read(&self.inner, mode, timeline) {
            Err(Error::NotInMemory) => {
                *timeline = before;
                journal.note_away();
                Ok(Read::NotInMemory)
            }
            found => found.map(Read::from),
        }
    }
}

/// The short way of a GET: reads the record that a directory names, and counts it.
struct Reading<'a> {
    inner: &'a Inner,
    key: &'a [u8],
    timeline: &'a mut Timeline,
    /// Whose turn the record of this request is, once that was asked.
    turn: Option<Turn>,
}

impl Reading<'_> {
    fn turn(&mut self) -> Turn {
        let counting = self.inner.ledger.tally().mine();
        *self.turn.get_or_insert_with(|| counting.turn(Count::RecordTurns))
    }
}

impl Records for Reading<'_> {
    type Answer = (Head, Value);
    const ARE_READ: bool = true;

    #[inline]
    fn read(&mut self, sequence: u64) -> Option<(Head, Value)> {
        // The steps are those of the long way.
        let turn = self.turn();
        if turn == Turn::Stepped {
            return None;
        }
        self.timeline.lap(parts::LEDGER);
        let read = self.inner.journal.read_named(sequence, self.key);
        if let Some((head, _)) = &read {
            self.inner.count_record(head.value_length, turn);
            self.timeline.lap(parts::JOURNAL_READ);
        }
        read
    }
}

impl Inner {
    pub(crate) fn get_at(
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
        let mut missed = 0;
        loop {
            let (mut counts, turn) = (timeline.counts, None);
            let mut reading = Reading { inner: self, key, timeline, turn };
            let answer = self.ledger.get_or_read(key, at_sequence, mode, &mut counts, &mut reading);
            let turn = reading.turn;
            timeline.counts = counts;
            let found = match answer {
                Ok(Some(Answer::Record((head, value)))) => {
                    timeline.counts.records = timeline.counts.records.saturating_add(1);
                    let is_live = !self.time.has_expired(head.expires_at_ms);
                    return Ok(is_live.then_some(Object { head, value }));
                }
                Ok(Some(Answer::Entry(found))) => Ok(Some(found)),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            timeline.lap(parts::LEDGER);
            let Some(mut found) = found?.filter(|entry| self.time.is_live(entry)) else {
                return Ok(None);
            };
            if let Some(value) = found.take_value() {
                self.ledger.tally().mine().add(Count::HeldValues, 1);
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
            // A record is collected only after a newer one was published, so that the next look-up
            // finds that. The same one a second time is really missing.
            if found.sequence == missed {
                return Err(self.journal.missing(missed));
            }
            missed = found.sequence;
        }
    }

    /// Reads the value of an entry, if the journal has it still, and counts that.
    fn read_record(
        &self,
        key: &[u8],
        found: &FoundEntry,
        mode: ReadMode,
        turn: Option<Turn>,
    ) -> Result<Option<Value>> {
        let length = record_length(key, found);
        let counting = self.ledger.tally().mine();
        let turn = match turn {
            None => counting.turn(Count::RecordTurns),
            // The time since then is not the record's alone.
            Some(Turn::Timed(_)) => Turn::Timed(counting.now()),
            Some(turn) => turn,
        };
        let value = match turn {
            Turn::Stepped => {
                self.journal.read_by_steps(found.sequence, key, length, mode, counting)?
            }
            _ => self.journal.read_if_held(found.sequence, key, length, mode)?,
        };
        self.count_record(found.value_length, turn);
        Ok(value)
    }

    /// Counts a record that was read.
    #[inline]
    fn count_record(&self, value_length: u32, turn: Turn) {
        let counting = self.ledger.tally().mine();
        counting.add(Count::Records, 1);
        counting.add(Count::RecordBytes, u64::from(value_length));
        if let Turn::Timed(begun) = turn {
            let ended = counting.add_since(Count::RecordTicks, begun);
            counting.add(Count::RecordSamples, 1);
            self.journal.note_read(self.options.clock.nanoseconds(ended.since(begun)));
        }
    }

    pub(crate) fn head_at(
        &self,
        table: TableId,
        key: &[u8],
        at_sequence: u64,
        mode: ReadMode,
        timeline: &mut Timeline,
    ) -> Result<Option<Head>> {
        let mut internal = InternalKey::empty();
        internal.set(table.0, key)?;
        Ok(self.look_up(&internal, at_sequence, mode, timeline)?.map(Head::from_found))
    }

    #[inline]
    fn look_up(
        &self,
        key: &InternalKey,
        at_sequence: u64,
        mode: ReadMode,
        timeline: &mut Timeline,
    ) -> Result<Option<FoundEntry>> {
        let found = self.ledger.get(key.as_bytes(), at_sequence, mode, &mut timeline.counts);
        timeline.lap(parts::LEDGER);
        Ok(found?.filter(|entry| self.time.is_live(entry)))
    }
}
