//! The write path: conditions, then journal, then memtable, under one lock.

use std::sync::Arc;
use std::time::Duration;

use pellucid_account::{Activity, JobKind, Timeline};
use pellucid_clock::{Clock, Ticks};
use pellucid_thread::{CriticalSection, Mutex, MutexGuard};

use crate::batch::{Condition, Operation};
use crate::catalogue::Catalogue;
use crate::codec::{
    HEAD_LENGTH_MAX, INDEX_KEY_LENGTH_MAX, InternalKey, KEY_LENGTH_MAX, TABLE_PREFIX_LENGTH,
};
use crate::compression::{Compression, pack};
use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::garbage::GarbageCollector;
use crate::header_form::{HeaderForm, WRITTEN_AT_MAX_MS};
use crate::jobs;
use crate::journal::{GroupSync, JournalWriter, Purpose, Record, SpaceLevel};
use crate::ledger::{Entry, EntryKind, Ledger, NEWEST};
use crate::options::WriteLimits;
use crate::parts;
use crate::prepare::PreparedBatch;
use crate::read_mode::ReadMode;

/// A writer that waits this long for another one looks up which job held that one up.
const WRITER_WAIT_NOTED_NS: u64 = 100_000;
/// Delays below this are saved up: such a short sleep would take longer than asked for.
const DELAY_MIN_NS: u64 = 1_000_000;
/// The approximate memory that an entry takes in a memtable in addition to its key and head.
const ENTRY_MEMORY_BYTES: usize = 48;

/// The state that the writer lock protects.
pub(crate) struct WriterState {
    journal: JournalWriter,
    is_closed: bool,
    /// Bytes in the journal that the writes of the active memtable take: the memtable is sealed at
    /// a limit of them.
    unsealed_bytes: u64,
    /// The delay that writers still have to take, so that merges and the collector can catch up.
    owed_ns: u64,
}

/// Writes batches, one at a time.
pub(crate) struct Writer {
    limits: WriteLimits,
    catalogue: Arc<Catalogue>,
    ledger: Arc<Ledger>,
    sync: Arc<GroupSync>,
    /// The time by which entries expire.
    time: Arc<ExpiryClock>,
    clock: Clock,
    activity: Activity,
    /// Makes room on a full disk, and knows the dead bytes beyond their bound, which slow writes
    /// down.
    collector: Arc<GarbageCollector>,
    turn: Mutex<WriterState>,
}

impl Writer {
    pub(crate) fn new(
        journal: JournalWriter,
        limits: WriteLimits,
        (catalogue, ledger, sync): (Arc<Catalogue>, Arc<Ledger>, Arc<GroupSync>),
        time: Arc<ExpiryClock>,
        (clock, activity): (Clock, Activity),
        collector: Arc<GarbageCollector>,
    ) -> Writer {
        let turn =
            Mutex::new(WriterState { journal, is_closed: false, unsealed_bytes: 0, owed_ns: 0 });
        Writer { limits, catalogue, ledger, sync, time, clock, activity, collector, turn }
    }

    /// Derives the heads and index entries that a batch needs in addition to its operations; `None`
    /// if it needs none. Refuses operations that their tables do not allow.
    #[inline]
    pub(crate) fn prepare(
        &self,
        operations: &[Operation<'_>],
        timeline: &mut Timeline,
    ) -> Result<Option<PreparedBatch>> {
        let is_plain = operations.iter().all(|operation| {
            self.catalogue.is_plain(operation.table) & operation.index_changes.is_empty()
        });
        match is_plain {
            true => Ok(None),
            false => {
                let prepared = PreparedBatch::of(&self.catalogue, &self.limits, operations)?;
                self.end_preparation(timeline);
                Ok(Some(prepared))
            }
        }
    }

    /// Begins a lap: the time so far belongs to no part of the write.
    fn end_preparation(&self, timeline: &mut Timeline) {
        timeline.begin_lap(self.clock.now());
    }

    /// Writes to tables what only the memtables and the journal have.
    pub(crate) fn flush(&self) -> Result<()> {
        self.flush_in(&mut self.turn.lock())
    }

    fn flush_in(&self, turn: &mut WriterState) -> Result<()> {
        self.sync.check_poison()?;
        turn.unsealed_bytes = 0;
        self.ledger.flush_now(turn.journal.next_sequence() - 1)
    }

    /// Seals the active memtable, which holds everything written so far, and queues it for its
    /// flush.
    pub(crate) fn seal_memtable(&self) -> Result<()> {
        let mut turn = self.turn.lock();
        if turn.is_closed {
            return Err(Error::Closed);
        }
        self.sync.check_poison()?;
        turn.unsealed_bytes = 0;
        self.ledger.seal_active(turn.journal.next_sequence() - 1);
        Ok(())
    }

    /// Removes spare segments; keeps one if the active segment is nearly full.
    pub(crate) fn give_up_spares(&self) {
        self.turn.lock().journal.give_up_spares();
    }

    /// Flushes, seals the active segment, and calls `capture` with the last sequence number. Writes
    /// wait until `capture` returns.
    pub(crate) fn at_rest<T>(&self, capture: impl FnOnce(u64) -> T) -> Result<T> {
        let mut turn = self.turn.lock();
        if turn.is_closed {
            return Err(Error::Closed);
        }
        self.flush_in(&mut turn)?;
        turn.journal.seal()?;
        Ok(capture(turn.journal.next_sequence() - 1))
    }

    /// Refuses further writes, flushes, and ends the journal. Returns `None` if the writer was
    /// closed before.
    pub(crate) fn close(&self) -> Option<Result<()>> {
        let mut turn = self.turn.lock();
        if std::mem::replace(&mut turn.is_closed, true) {
            return None;
        }
        let flushed = self.flush_in(&mut turn).and_then(|()| turn.journal.close());
        Some(flushed.and_then(|()| self.ledger.write_manifest()))
    }

    /// Writes operations as they are; the first `index_entries` of them are index entries. Returns
    /// the sequence number of the last. [`Writer::prepare`] has added to the user's operations what
    /// they need. If `check` refuses, nothing is written; no other write happens between the check
    /// and this one.
    pub(crate) fn write(
        &self,
        operations: &[Operation<'_>],
        index_entries: usize,
        check: impl FnOnce() -> Result<()>,
        timeline: &mut Timeline,
    ) -> Result<u64> {
        let packed = self.pack_values(operations);
        if !packed.0.is_empty() {
            self.end_preparation(timeline);
        }
        let size_bytes = self.check_limits(operations, index_entries, &packed)?;
        let gives_room = operations.iter().all(|operation| operation.gives_room);
        let purpose = if gives_room { Purpose::Deletes } else { Purpose::Puts };
        let count = operations.len() as u64;
        let mut turn = self.take_turn(timeline);
        if turn.is_closed {
            return Err(Error::Closed);
        }
        self.sync.check_poison()?;
        self.with_room(&mut turn, |turn| self.stall(turn, size_bytes, timeline))?;
        if operations.iter().any(|operation| operation.condition != Condition::None) {
            self.check_conditions(&operations[index_entries..], timeline)?;
        }
        check()?;
        // From here on a panic ends the process: the journal and the memtable would differ.
        let _whole = CriticalSection::begin();
        let space =
            self.with_room(&mut turn, |turn| turn.journal.reserve(size_bytes, count, purpose))?;
        turn.unsealed_bytes += size_bytes;
        let last = self.commit(&mut turn, operations, &packed, timeline)?;
        // The write succeeded, but the disk is nearly full: make room before the next one fails.
        if space != SpaceLevel::Ample {
            self.make_room(&mut turn);
        }
        Ok(last)
    }

    /// Appends operations to the journal, in which room was reserved, and inserts them into the
    /// memtable, where readers see them. Seals the memtable if that is due. Returns the sequence
    /// number of the last.
    fn commit(
        &self,
        turn: &mut WriterState,
        operations: &[Operation<'_>],
        packed: &PackedValues,
        timeline: &mut Timeline,
    ) -> Result<u64> {
        let written_at_ms = self.clock.wall().unix_ms().min(WRITTEN_AT_MAX_MS);
        let counting = self.ledger.tally().mine();
        let of_writes = &counting.writes;
        let begun = counting.begin_sample(&counting.turns.writes);
        let active = self.ledger.active();
        let first = turn.journal.next_sequence();
        let mut key = InternalKey::empty();
        for (index, operation) in operations.iter().enumerate() {
            key.set_entry(operation.table.0, operation.key)?;
            // The memory is loaded while the record is written.
            active.prefetch(key.as_bytes());
            let (value, compression) = packed.stored(index, operation);
            let sequence = turn.journal.append(Record {
                form: HeaderForm::of(operation.head.len(), written_at_ms, operation.expires_at_ms),
                sequence: first + index as u64,
                written_at_ms,
                expires_at_ms: operation.expires_at_ms,
                kind: operation.kind.into(),
                batch_goes_on: index + 1 < operations.len(),
                key: key.as_bytes(),
                head: operation.head,
                compression,
                value,
            })?;
            assert_eq!(sequence, first + index as u64, "a batch has consecutive numbers");
        }
        let appended = begun.map(|begun| counting.add_sample(&of_writes.append_time, begun));
        timeline.lap(parts::JOURNAL_APPEND);
        for (index, operation) in operations.iter().enumerate() {
            key.set_entry(operation.table.0, operation.key)?;
            active.insert(&Entry {
                key: key.as_bytes(),
                sequence: first + index as u64,
                kind: operation.kind,
                value_length: operation.value.len() as u32,
                stored_length: packed.stored(index, operation).0.len() as u32,
                written_at_ms,
                expires_at_ms: operation.expires_at_ms,
                head: operation.head,
                value: self.held_value(operation),
            });
        }
        let count = operations.len() as u64;
        let last = first + count - 1;
        self.ledger.publish(last);
        if turn.unsealed_bytes >= self.limits.unsealed_max_bytes || active.is_full() {
            turn.unsealed_bytes = 0;
            self.ledger.seal_active(last);
        }
        if let Some(appended) = appended {
            counting.add_sample(&of_writes.memtable_time, appended);
        }
        counting.add(&of_writes.batches, 1);
        counting.add(&of_writes.entries, count);
        counting.add(&of_writes.user_bytes, payload_bytes(operations));
        timeline.lap(parts::MEMTABLE);
        Ok(last)
    }

    /// Runs `step`, a step of a write. If the disk has no room for it, makes room and tries once
    /// more.
    #[inline]
    fn with_room<T>(
        &self,
        turn: &mut WriterState,
        mut step: impl FnMut(&mut WriterState) -> Result<T>,
    ) -> Result<T> {
        match step(turn) {
            Err(Error::DiskFull { .. }) if self.make_room(turn) => step(turn),
            taken => taken,
        }
    }

    /// Makes room on the disk, or asks the collector's thread to make it, unless that was just
    /// tried. Returns true only if room may have been made here, so that a retry can succeed.
    #[cold]
    fn make_room(&self, turn: &mut WriterState) -> bool {
        let last = turn.journal.next_sequence() - 1;
        if !self.collector.is_room_due(last) {
            return false;
        }
        turn.journal.give_up_spares();
        // The records that this memtable overwrites count as dead only after its flush.
        let is_sealed = self.ledger.try_seal_active(last);
        if is_sealed {
            turn.unsealed_bytes = 0;
        }
        self.collector.make_room(is_sealed.then_some(last))
    }

    /// Takes the writer lock, and records the wait if there was one.
    fn take_turn(&self, timeline: &mut Timeline) -> MutexGuard<'_, WriterState> {
        if let Some(turn) = self.turn.try_lock() {
            return turn;
        }
        let counting = self.ledger.tally().mine();
        let begun = counting.now();
        let turn = self.turn.lock();
        let now = counting.add_since(&counting.writes.writer_waited_ns, begun);
        counting.add(&counting.writes.writer_waits, 1);
        timeline.add_part(parts::WRITER_WAIT, now.since(begun), now);
        if self.clock.nanoseconds(now.since(begun)) >= WRITER_WAIT_NOTED_NS {
            self.note_wait(&[jobs::STALL], begun, timeline);
        }
        turn
    }

    /// Waits for flushes that are behind, and takes the delay that merges and the collector demand
    /// of a write of `size_bytes`.
    fn stall(
        &self,
        turn: &mut WriterState,
        size_bytes: u64,
        timeline: &mut Timeline,
    ) -> Result<()> {
        let mut waited = self.ledger.wait_for_memtables()?;
        let delay_ns =
            self.ledger.write_delay_ns() + self.collector.excess().write_delay_ns(size_bytes);
        if delay_ns > 0 {
            turn.owed_ns += delay_ns;
            if turn.owed_ns >= DELAY_MIN_NS {
                let delay = Duration::from_nanos(std::mem::take(&mut turn.owed_ns));
                let begun = self.clock.stopwatch();
                let _noted = self.activity.begin(jobs::STALL, self.clock);
                // Under the lock, so that all writers slow down together.
                std::thread::sleep(delay);
                // A sleep lasts longer than asked for; count the real time.
                let slept_ns = begun.elapsed_ns();
                let counting = self.ledger.tally().mine();
                counting.add(&counting.writes.delays, 1);
                counting.add(&counting.writes.delayed_ns, slept_ns);
                waited += Duration::from_nanos(slept_ns);
            }
        }
        if !waited.is_zero() {
            let (now, ticks) = (self.clock.now(), self.clock.ticks(waited.as_nanos() as u64));
            timeline.add_part(parts::STALL, ticks, now);
            let wait_began = Ticks(now.0.saturating_sub(ticks));
            self.note_wait(&jobs::WRITERS_WAIT_FOR, wait_began, timeline);
        }
        Ok(())
    }

    /// Records in `timeline` which job of these kinds held the writer up since `wait_began`.
    #[cold]
    fn note_wait(&self, kinds: &[JobKind], wait_began: Ticks, timeline: &mut Timeline) {
        let until = timeline.since();
        if timeline.is_on()
            && let Some(job) = self.activity.longest(kinds, wait_began, until)
        {
            timeline.wait_for(job.id, until.since(wait_began));
        }
    }

    fn check_conditions(
        &self,
        operations: &[Operation<'_>],
        timeline: &mut Timeline,
    ) -> Result<()> {
        let mut key = InternalKey::empty();
        for (index, operation) in operations.iter().enumerate() {
            if operation.condition == Condition::None {
                continue;
            }
            key.set(operation.table.0, operation.key)?;
            let found = self.ledger.get(
                key.as_bytes(),
                NEWEST,
                ReadMode::MayBlock,
                &mut timeline.counts,
            )?;
            let live = found.filter(|entry| self.time.is_live(entry));
            let current = live.map(|entry| entry.sequence);
            let holds = match operation.condition {
                Condition::None => true,
                Condition::Absent => current.is_none(),
                Condition::Present => current.is_some(),
                Condition::Sequence(sequence) => current == Some(sequence),
            };
            if !holds {
                timeline.lap(parts::LEDGER);
                return Err(Error::ConditionFailed { index, current });
            }
        }
        timeline.lap(parts::LEDGER);
        Ok(())
    }

    /// The value of `operation`, if the rule of its table holds it in the ledger.
    #[inline]
    fn held_value<'a>(&self, operation: &Operation<'a>) -> Option<&'a [u8]> {
        let rule = self.catalogue.rules().of(operation.table.0);
        (operation.kind == EntryKind::Put && rule.holds(operation.value.len()))
            .then_some(operation.value)
    }

    /// Compresses the values whose tables ask for it, before the writer lock is taken.
    #[inline]
    fn pack_values(&self, operations: &[Operation<'_>]) -> PackedValues {
        let is_uncompressed = |operation: &Operation<'_>| {
            self.catalogue.rules().of(operation.table.0).values == Compression::None
        };
        if operations.iter().all(is_uncompressed) {
            return PackedValues(Vec::new());
        }
        let pack_value = |operation: &Operation<'_>| {
            let mut packed = Vec::new();
            let is_packed = !is_uncompressed(operation) && pack(operation.value, &mut packed);
            is_packed.then_some(packed)
        };
        PackedValues(operations.iter().map(pack_value).collect())
    }

    /// Checks operations against the limits; returns the bytes that they take in the journal.
    fn check_limits(
        &self,
        operations: &[Operation<'_>],
        index_entries: usize,
        packed: &PackedValues,
    ) -> Result<u64> {
        let limits = &self.limits;
        let (mut size_bytes, mut memory_bytes) = (0, 0);
        for (index, operation) in operations.iter().enumerate() {
            let (key, head, value) =
                (operation.key.len(), operation.head.len(), operation.value.len());
            let limit = if index < index_entries { INDEX_KEY_LENGTH_MAX } else { KEY_LENGTH_MAX };
            if key == 0 || key > limit {
                return Err(Error::KeyLength { length: key, limit });
            }
            if head > HEAD_LENGTH_MAX {
                return Err(Error::HeadLength { length: head, limit: HEAD_LENGTH_MAX });
            }
            if value > limits.value_length_max {
                return Err(Error::ValueLength { length: value, limit: limits.value_length_max });
            }
            let stored = packed.stored(index, operation).0.len();
            // The write time is not known yet, but `commit` limits it so that it lengthens no
            // header.
            let form = HeaderForm::of(head, 0, operation.expires_at_ms);
            size_bytes += form.padded_length((TABLE_PREFIX_LENGTH + key + head + stored) as u64);
            let held = self.held_value(operation).map_or(0, <[u8]>::len);
            memory_bytes += (key + head + held + ENTRY_MEMORY_BYTES) as u64;
        }
        limits.check_batch(operations.len(), size_bytes)?;
        if memory_bytes > limits.batch_memory_max_bytes {
            let limit_bytes = limits.batch_memory_max_bytes;
            return Err(Error::BatchMemory {
                entries: operations.len(),
                memory_bytes,
                limit_bytes,
            });
        }
        Ok(size_bytes)
    }
}

/// The compressed values of a batch, by position; empty if no value is compressed.
struct PackedValues(Vec<Option<Vec<u8>>>);

impl PackedValues {
    /// The value of the operation at `index` as it is stored.
    #[inline]
    fn stored<'a>(&'a self, index: usize, operation: &Operation<'a>) -> (&'a [u8], Compression) {
        match self.0.get(index) {
            Some(Some(packed)) => (packed, Compression::Lz4),
            _ => (operation.value, Compression::None),
        }
    }
}

/// The bytes of keys, heads and values, with those of index entries.
fn payload_bytes(operations: &[Operation<'_>]) -> u64 {
    let bytes = |operation: &Operation<'_>| {
        (operation.key.len() + operation.head.len() + operation.value.len()) as u64
    };
    operations.iter().map(bytes).sum()
}
