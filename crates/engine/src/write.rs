//! The write path: conditions, journal, memtable, in this order and under one lock.

use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pellucid_account::Timeline;

use crate::batch::{Batch, Condition, Operation, Written};
use crate::catalogue::TableId;
use crate::codec::{INDEX_KEY_LENGTH_MAX, InternalKey, KEY_LENGTH_MAX, TABLE_PREFIX_LENGTH};
use crate::engine::{DurableCallback, Engine, Inner, SyncTimes, Writer};
use crate::error::{Error, Result};
use crate::journal::{Record, RecordKind, padded_length};
use crate::ledger::{Entry, Kind, NEWEST};
use crate::options::{Acknowledgement, EngineOptions, HEAD_LENGTH_MAX};
use crate::parts;
use crate::tally::Count;

/// Delays below this are saved up: a shorter sleep would last longer than it should.
const DELAY_MIN_NS: u64 = 200_000;

impl Engine {
    /// Writes a batch: all entries or none. It is visible to readers on return, and safe as
    /// `acknowledgement` says; with [`Acknowledgement::Disk`] that is still to come if
    /// [`Written::pending`] says so, because this call never waits for the medium.
    ///
    /// # Errors
    /// [`Error::ConditionFailed`], [`Error::DiskFull`] and the errors of limits leave everything as
    /// before. [`Error::Poisoned`] says that no write is taken any more.
    pub fn write(
        &self,
        batch: &Batch<'_>,
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Result<Written> {
        self.write_operations(batch.operations(), acknowledgement, timeline)
    }

    /// Writes `operations` as [`Engine::write`] does a batch, without the batch.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn write_operations(
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

    /// Sets one key.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn put(
        &self,
        table: TableId,
        key: &[u8],
        head: &[u8],
        value: &[u8],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Result<Written> {
        let operation = Operation::put(table, key, value).with_head(head);
        self.write_operations(&[operation], acknowledgement, timeline)
    }

    /// Removes one key.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn delete(
        &self,
        table: TableId,
        key: &[u8],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Result<Written> {
        self.write_operations(&[Operation::delete(table, key)], acknowledgement, timeline)
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
        let size_bytes = check_limits(operations, index_entries, &self.options)?;
        let mut writer = self.lock_writer(timeline);
        if writer.is_closed {
            return Err(Error::Closed);
        }
        self.journal.check_poison()?;
        self.stall(&mut writer, timeline)?;
        self.check_conditions(&operations[index_entries..], timeline)?;
        let count = operations.len() as u64;
        self.journal.reserve(&mut writer.appender, size_bytes, count)?;
        let written_at_ms = self.options.clock.wall().unix_ms();
        let counting = self.ledger.tally().mine();
        let begun = counting.begin_sample(Count::WriteTurns);
        let first = self.append(&mut writer, operations, written_at_ms)?;
        let appended = begun.map(|begun| counting.add_since(Count::AppendTicks, begun));
        timeline.lap(parts::JOURNAL_APPEND);
        self.insert(operations, first, written_at_ms)?;
        let last = first + count - 1;
        self.ledger.publish(last);
        self.ledger.rotate_if_full(last);
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
                timeline.lap(parts::WRITER_WAIT);
                writer
            }
        }
    }

    /// Waits for flushes that are behind, and takes the delay that merges ask for.
    fn stall(&self, writer: &mut Writer, timeline: &mut Timeline) -> Result<()> {
        let mut waited = self.ledger.wait_for_room()?;
        let delay_ns = self.ledger.write_delay_ns();
        if delay_ns > 0 {
            writer.owed_ns += delay_ns;
            if writer.owed_ns >= DELAY_MIN_NS {
                let delay = Duration::from_nanos(std::mem::take(&mut writer.owed_ns));
                let begun = self.options.clock.stopwatch();
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
        }
        Ok(())
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
            let found = self.ledger.get(key.as_bytes(), NEWEST, &mut timeline.counts)?;
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
        operations: &[Operation<'_>],
        written_at_ms: u64,
    ) -> Result<u64> {
        let first = writer.appender.next_sequence();
        let mut key = InternalKey::empty();
        for (index, operation) in operations.iter().enumerate() {
            key.set_entry(operation.table.0, operation.key)?;
            let kind = match operation.kind {
                Kind::Put => RecordKind::Put,
                Kind::Delete => RecordKind::Delete,
            };
            let record = Record {
                sequence: first + index as u64,
                written_at_ms,
                expires_at_ms: operation.expires_at_ms,
                kind,
                batch_goes_on: index + 1 < operations.len(),
                key: key.as_bytes(),
                head: operation.head,
                value: operation.value,
            };
            let sequence = self.journal.append(&mut writer.appender, record);
            assert_eq!(sequence, first + index as u64, "a batch has consecutive numbers");
        }
        self.journal.complete_batch(&writer.appender);
        Ok(first)
    }

    fn insert(&self, operations: &[Operation<'_>], first: u64, written_at_ms: u64) -> Result<()> {
        let mut key = InternalKey::empty();
        for (index, operation) in operations.iter().enumerate() {
            key.set_entry(operation.table.0, operation.key)?;
            self.ledger.insert(&Entry {
                key: key.as_bytes(),
                sequence: first + index as u64,
                kind: operation.kind,
                value_length: operation.value.len() as u32,
                written_at_ms,
                expires_at_ms: operation.expires_at_ms,
                head: operation.head,
            });
        }
        Ok(())
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
    options: &EngineOptions,
) -> Result<u64> {
    let mut size_bytes = 0;
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
        size_bytes += padded_length(TABLE_PREFIX_LENGTH + key, head, value);
    }
    options.check_batch(operations.len(), size_bytes)?;
    Ok(size_bytes)
}
