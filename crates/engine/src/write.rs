//! The write path: conditions, journal, memtable, in this order and under one lock.

use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use pellucid_account::{JobKind, Timeline};
use pellucid_clock::Ticks;
use pellucid_thread::{Indivisible, MutexGuard};

use crate::batch::{Condition, Operation, Written};
use crate::catalogue::TableId;
use crate::codec::{INDEX_KEY_LENGTH_MAX, InternalKey, KEY_LENGTH_MAX, TABLE_PREFIX_LENGTH};
use crate::compression::{Compression, pack};
use crate::engine::{DurableCallback, Engine, Inner, SyncTimes, Writer};
use crate::error::{Error, Result};
use crate::header_form::{HeaderForm, WRITTEN_AT_MAX_MS};
use crate::jobs;
use crate::journal::{Record, RecordKind};
use crate::ledger::{Active, Entry, Kind, NEWEST};
use crate::options::{Acknowledgement, HEAD_LENGTH_MAX};
use crate::parts;
use crate::read_mode::ReadMode;
use crate::tally::Count;

/// A wait for another writer from which on it is asked whether that one was held up by a job.
const WRITER_WAIT_NOTED_NS: u64 = 100_000;
/// Delays below this are saved up: a shorter sleep would last longer than it should.
const DELAY_MIN_NS: u64 = 1_000_000;
/// About what an entry takes in a memtable beside its key and head.
const ENTRY_MEMORY_BYTES: usize = 48;

impl Engine {
    /// Writes all operations or none, a [`crate::Batch`] for example. They are visible to readers
    /// on return, and safe as `acknowledgement` says; with [`Acknowledgement::Disk`] that is still
    /// to come if [`Written::pending`] says so, because this call never waits for the medium.
    ///
    /// # Errors
    /// [`Error::ConditionFailed`], [`Error::DiskFull`], [`Error::Exhausted`] and errors of limits
    /// leave everything as before. [`Error::Poisoned`] says that no write is taken any more.
    pub fn write(
        &self,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<Written> {
        self.write_timed(operations, acknowledgement, &mut Timeline::off())
    }

    /// As [`Engine::write`], with the parts of the write in `timeline`.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn write_timed(
        &self,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Result<Written> {
        let inner = &*self.inner;
        let is_plain = operations.iter().all(|operation| {
            inner.shapes.is_plain(operation.table) & operation.index_changes.is_empty()
        });
        let sequence = match is_plain {
            true => inner.write(operations, 0, timeline)?,
            false => inner.write_prepared(operations, timeline)?,
        };
        let pending =
            acknowledgement == Acknowledgement::Disk && inner.journal.durable_sequence() < sequence;
        Ok(Written { sequence, pending })
    }

    /// Sets one key, with an empty head; [`Engine::write`] takes more.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn put(&self, table: TableId, key: &[u8], value: &[u8]) -> Result<Written> {
        self.write(&[Operation::put(table, key, value)], Acknowledgement::Os)
    }

    /// Removes one key.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn delete(&self, table: TableId, key: &[u8]) -> Result<Written> {
        self.write(&[Operation::delete(table, key)], Acknowledgement::Os)
    }

    /// Returns once everything up to `sequence` is on the medium. Callers that wait at the same
    /// time share one sync.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if a sync failed: the write may or may not survive.
    pub fn wait_durable(&self, sequence: u64) -> Result<SyncTimes> {
        self.inner.journal.wait_durable(sequence)
    }

    /// Calls back once everything up to `sequence` is on the medium, or cannot get there any more.
    /// The callback runs on the sync thread, which serves everybody, so it must be short; or at
    /// once on this thread, if there is nothing to wait for or no sync thread.
    pub fn when_durable(&self, sequence: u64, callback: DurableCallback) {
        self.inner.journal.when_durable(sequence, callback);
    }
}

impl Inner {
    /// Writes operations as they are, of which the first `index_entries` are entries of indexes;
    /// returns the sequence number of the last.
    pub(crate) fn write(
        &self,
        operations: &[Operation<'_>],
        index_entries: usize,
        timeline: &mut Timeline,
    ) -> Result<u64> {
        let packed = self.pack_values(operations);
        let size_bytes = check_limits(operations, index_entries, &packed, self)?;
        let mut writer = self.lock_writer(timeline);
        if writer.is_closed {
            return Err(Error::Closed);
        }
        self.journal.check_poison()?;
        self.stall(&mut writer, timeline)?;
        self.check_conditions(&operations[index_entries..], timeline)?;
        let count = operations.len() as u64;
        let _whole = Indivisible::begin();
        self.journal.reserve(&mut writer.appender, size_bytes, count)?;
        let written_at_ms = self.options.clock.wall().unix_ms().min(WRITTEN_AT_MAX_MS);
        let counting = self.ledger.tally().mine();
        let begun = counting.begin_sample(Count::WriteTurns);
        let active = self.ledger.active();
        let first = self.append(&mut writer, &active, operations, &packed, written_at_ms)?;
        let appended = begun.map(|begun| counting.add_since(Count::AppendTicks, begun));
        timeline.lap(parts::JOURNAL_APPEND);
        self.insert(&active, operations, &packed, first, written_at_ms)?;
        let last = first + count - 1;
        self.ledger.publish(last);
        self.ledger.rotate_if_that_is_full(&active, last);
        if let Some(appended) = appended {
            counting.add_since(Count::MemtableTicks, appended);
            counting.add(Count::BatchSamples, 1);
        }
        counting.add(Count::Batches, 1);
        counting.add(Count::Entries, count);
        counting.add(Count::UserBytes, user_bytes(operations));
        timeline.lap(parts::MEMTABLE);
        Ok(last)
    }

    /// Takes the writer lock, and accounts for the wait if there was one.
    fn lock_writer(&self, timeline: &mut Timeline) -> MutexGuard<'_, Writer> {
        match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let counting = self.ledger.tally().mine();
                let begun = counting.now();
                let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
                counting.add_since(Count::WriterWaitTicks, begun);
                counting.add(Count::WriterWaits, 1);
                let asked = timeline.since();
                timeline.lap(parts::WRITER_WAIT);
                let waited_ns = self.options.clock.nanoseconds(timeline.since().since(asked));
                if waited_ns >= WRITER_WAIT_NOTED_NS {
                    self.note_wait(&[jobs::STALL], asked, timeline);
                }
                writer
            }
        }
    }

    /// Waits for flushes that are behind, and takes the delay that merges ask for.
    fn stall(&self, writer: &mut Writer, timeline: &mut Timeline) -> Result<()> {
        let asked = timeline.since();
        let mut waited = self.ledger.wait_for_room()?;
        let delay_ns = self.ledger.write_delay_ns();
        if delay_ns > 0 {
            writer.owed_ns += delay_ns;
            if writer.owed_ns >= DELAY_MIN_NS {
                let delay = Duration::from_nanos(std::mem::take(&mut writer.owed_ns));
                let begun = self.options.clock.stopwatch();
                let _noted = self.activity.begin(jobs::STALL, self.options.clock);
                std::thread::sleep(delay);
                // A sleep lasts longer than it should, and it is what the writer waited.
                let slept_ns = begun.elapsed_ns();
                let counting = self.ledger.tally().mine();
                counting.add(Count::Delays, 1);
                counting.add(Count::DelayNanoseconds, slept_ns);
                waited += delay;
            }
        }
        if !waited.is_zero() {
            timeline.lap(parts::STALL);
            self.note_wait(&jobs::WRITERS_WAIT_FOR, asked, timeline);
        }
        Ok(())
    }

    /// Notes which job of these kinds held the writer up since `asked`.
    #[cold]
    fn note_wait(&self, kinds: &[JobKind], asked: Ticks, timeline: &mut Timeline) {
        let now = timeline.since();
        if timeline.is_on()
            && let Some(job) = self.activity.longest(kinds, asked, now)
        {
            timeline.wait_for(job.id, now.since(asked));
        }
    }

    fn check_conditions(
        &self,
        operations: &[Operation<'_>],
        timeline: &mut Timeline,
    ) -> Result<()> {
        let mut has_looked = false;
        let mut key = InternalKey::empty();
        for (index, operation) in operations.iter().enumerate() {
            if operation.condition == Condition::None {
                continue;
            }
            has_looked = true;
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
        if has_looked {
            timeline.lap(parts::LEDGER);
        }
        Ok(())
    }

    /// Appends the operations to the journal; returns the sequence number of the first.
    fn append(
        &self,
        writer: &mut Writer,
        active: &Active<'_>,
        operations: &[Operation<'_>],
        packed: &PackedValues,
        written_at_ms: u64,
    ) -> Result<u64> {
        let first = writer.appender.next_sequence();
        let mut key = InternalKey::empty();
        for (index, operation) in operations.iter().enumerate() {
            key.set_entry(operation.table.0, operation.key)?;
            // The wait for it is over when the record is laid down.
            active.expect(key.as_bytes());
            let kind = match operation.kind {
                Kind::Put => RecordKind::Put,
                Kind::Delete => RecordKind::Delete,
            };
            let (value, compression) = packed.stored(index, operation);
            let (head, expires_at_ms) = (operation.head, operation.expires_at_ms);
            let record = Record {
                form: HeaderForm::of(head.len(), written_at_ms, expires_at_ms),
                sequence: first + index as u64,
                written_at_ms,
                expires_at_ms,
                kind,
                batch_goes_on: index + 1 < operations.len(),
                key: key.as_bytes(),
                head,
                compression,
                value,
            };
            let sequence = self.journal.append(&mut writer.appender, record);
            assert_eq!(sequence, first + index as u64, "a batch has consecutive numbers");
        }
        self.journal.complete_batch(&writer.appender)?;
        Ok(first)
    }

    fn insert(
        &self,
        active: &Active<'_>,
        operations: &[Operation<'_>],
        packed: &PackedValues,
        first: u64,
        written_at_ms: u64,
    ) -> Result<()> {
        let mut key = InternalKey::empty();
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
        Ok(())
    }
}

impl Inner {
    /// The value of `operation`, if its table has it held in the ledger.
    #[inline]
    fn held_value<'a>(&self, operation: &Operation<'a>) -> Option<&'a [u8]> {
        let rule = self.rules.of(operation.table.0);
        (operation.kind == Kind::Put && rule.holds(operation.value.len()))
            .then_some(operation.value)
    }

    /// Compresses the values whose tables ask for it, before the batch takes its turn.
    #[inline]
    fn pack_values(&self, operations: &[Operation<'_>]) -> PackedValues {
        let is_plain = |operation: &Operation<'_>| {
            self.rules.of(operation.table.0).values == Compression::None
        };
        if operations.iter().all(is_plain) {
            return PackedValues(Vec::new());
        }
        let pack_value = |operation: &Operation<'_>| {
            let mut packed = Vec::new();
            let is_packed = !is_plain(operation) && pack(operation.value, &mut packed);
            is_packed.then_some(packed)
        };
        PackedValues(operations.iter().map(pack_value).collect())
    }
}

/// The values of a batch that are stored packed, by position; empty if none is.
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

/// The bytes that the user gave: keys, heads and values.
fn user_bytes(operations: &[Operation<'_>]) -> u64 {
    let bytes = |operation: &Operation<'_>| {
        (operation.key.len() + operation.head.len() + operation.value.len()) as u64
    };
    operations.iter().map(bytes).sum()
}

/// Refuses operations beyond the limits; returns the bytes that they take in the journal.
fn check_limits(
    operations: &[Operation<'_>],
    index_entries: usize,
    packed: &PackedValues,
    inner: &Inner,
) -> Result<u64> {
    let (options, limits) = (&inner.options, &inner.limits);
    let (mut size_bytes, mut memory_bytes) = (0, 0);
    for (index, operation) in operations.iter().enumerate() {
        let (key, head, value) = (operation.key.len(), operation.head.len(), operation.value.len());
        let limit = if index < index_entries { INDEX_KEY_LENGTH_MAX } else { KEY_LENGTH_MAX };
        if key == 0 || key > limit {
            return Err(Error::KeyLength { length: key, limit });
        }
        if head > HEAD_LENGTH_MAX {
            return Err(Error::HeadLength { length: head, limit: HEAD_LENGTH_MAX });
        }
        if value > options.value_length_max {
            return Err(Error::ValueLength { length: value, limit: options.value_length_max });
        }
        let stored = packed.stored(index, operation).0.len();
        // Writers take no time for which a short header has no room.
        let form = HeaderForm::of(head, 0, operation.expires_at_ms);
        size_bytes += form.padded_length((TABLE_PREFIX_LENGTH + key + head + stored) as u64);
        let held = inner.held_value(operation).map_or(0, <[u8]>::len);
        memory_bytes += (key + head + held + ENTRY_MEMORY_BYTES) as u64;
    }
    options.check_batch(operations.len(), size_bytes)?;
    if memory_bytes > limits.batch_memory_max_bytes {
        let limit_bytes = limits.batch_memory_max_bytes;
        return Err(Error::BatchMemory { entries: operations.len(), memory_bytes, limit_bytes });
    }
    Ok(size_bytes)
}
