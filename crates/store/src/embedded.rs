//! The embedded kind: the engine of this process.

use std::ops::Bound;
use std::path::Path;

use pellucid_account::{Activity, Timeline};
use pellucid_clock::{Clock, Ticks};
use pellucid_engine::{Direction, Engine, EngineOptions, SyncTimes, parts};

use crate::answer::{Answer, Arrival, PartTime, Pending};
use crate::error::{Result, StoreError};
use crate::model::{Acknowledgement, Head, Object, Operation, Table, Value, Written};
use crate::store::{Range, Scan, Store};

/// What an operator can set of the embedded store.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedOptions {
    /// Memory for what is written and not yet in tables.
    pub memory_bytes: u64,
    /// Bytes that a value may have.
    pub value_bytes_max: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> EmbeddedOptions {
        let options = EngineOptions::default();
        EmbeddedOptions {
            memory_bytes: options.memory_bytes,
            value_bytes_max: options.value_length_max,
        }
    }
}

/// A store in a folder of this machine, open in this process alone.
pub struct EmbeddedStore {
    engine: Engine,
    clock: Clock,
    value_bytes_max: usize,
}

impl EmbeddedStore {
    /// Opens the store in `directory`, or makes one there.
    ///
    /// # Errors
    /// What the engine says: among others, that the store is open elsewhere or damaged.
    pub fn open(directory: &Path, options: EmbeddedOptions) -> Result<EmbeddedStore> {
        let engine_options = EngineOptions {
            memory_bytes: options.memory_bytes,
            value_length_max: options.value_bytes_max,
            ..EngineOptions::default()
        };
        let clock = engine_options.clock;
        let engine = Engine::open(directory, engine_options)?;
        Ok(EmbeddedStore { engine, clock, value_bytes_max: options.value_bytes_max })
    }
}

impl Store for EmbeddedStore {
    fn table(&self, name: &str) -> Result<Table> {
        Ok(Table(self.engine.table(name)?))
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>> {
        let found = self.engine.get(table.0, key, timeline);
        Answer::Now(found.map(|object| object.map(object_of)).map_err(StoreError::from))
    }

    fn head(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>> {
        let found = self.engine.head(table.0, key, timeline);
        Answer::Now(found.map(|head| head.map(|head| head_of(&head))).map_err(StoreError::from))
    }

    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<Written> {
        let written = match operations {
            [operation] => {
                let one = [self.engine_operation(table, operation)];
                self.engine.write_operations(&one, acknowledgement, timeline)
            }
            operations => {
                let each = operations.iter();
                let all: Vec<_> =
                    each.map(|operation| self.engine_operation(table, operation)).collect();
                self.engine.write_operations(&all, acknowledgement, timeline)
            }
        };
        match written {
            Err(error) => Answer::Now(Err(error.into())),
            Ok(written) if written.pending => self.when_durable(written.sequence),
            Ok(written) => Answer::Now(Ok(Written { sequence: written.sequence })),
        }
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        let direction = if range.reverse { Direction::Backward } else { Direction::Forward };
        let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let start = Bound::Included(range.start);
        let scan = self.engine.scan(table.0, start, end, direction)?;
        Ok(Box::new(EmbeddedScan { scan }))
    }

    fn copies(&self) -> u32 {
        1
    }

    fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let stats = self.engine.stats();
        vec![
            ("engine_published_sequence", stats.published_sequence),
            ("engine_durable_sequence", stats.durable_sequence),
            ("engine_flushed_sequence", stats.flushed_sequence),
            ("engine_journal_segments", stats.segments),
            ("engine_journal_bytes", stats.journal_bytes),
            ("engine_journal_dead_bytes", stats.journal_dead_bytes),
            ("engine_syncs_total", stats.syncs),
        ]
    }

    fn engine_stats(&self) -> Option<pellucid_engine::EngineStats> {
        Some(self.engine.stats())
    }

    fn activity(&self) -> Option<Activity> {
        Some(self.engine.activity())
    }

    fn close(&self) -> Result<()> {
        Ok(self.engine.close()?)
    }
}

impl EmbeddedStore {
    fn engine_operation<'a>(
        &self,
        table: Table,
        operation: &Operation<'a>,
    ) -> pellucid_engine::Operation<'a> {
        let engine_operation = match operation.value {
            Some(value) => pellucid_engine::Operation::put(table.0, operation.key, value),
            None => pellucid_engine::Operation::delete(table.0, operation.key),
        };
        let engine_operation = engine_operation.with_condition(operation.condition);
        match operation.lifetime_ms {
            None => engine_operation,
            Some(lifetime_ms) => {
                let expires_at_ms = self.engine.now_ms().saturating_add(lifetime_ms);
                engine_operation.with_expiry(expires_at_ms)
            }
        }
    }

    /// The answer to a write that is visible but not on the medium yet.
    fn when_durable(&self, sequence: u64) -> Answer<Written> {
        let (engine, since) = (self.engine.clone(), self.clock.now());
        Answer::Later(Pending::new(move |callback| {
            let synced = move |times: pellucid_engine::Result<SyncTimes>| {
                let parts = times.as_ref().map(|times| sync_parts(since, *times));
                let parts = parts.map(Vec::from).unwrap_or_default();
                let result = times.map(|_| Written { sequence }).map_err(StoreError::from);
                callback(Arrival { result, parts });
            };
            engine.when_durable(sequence, Box::new(synced));
        }))
    }
}

/// A sync that had begun before the write was handed over counts from the hand-over.
fn sync_parts(since: Ticks, times: SyncTimes) -> [PartTime; 2] {
    let begun = times.begun.max(since);
    let waited = begun.since(since);
    [
        PartTime { part: parts::GROUP_WAIT, ticks: waited, until: begun, waited_for: 0 },
        PartTime {
            part: parts::SYNC,
            ticks: times.ended.since(begun),
            until: times.ended,
            waited_for: times.job,
        },
    ]
}

struct EmbeddedScan {
    scan: pellucid_engine::Scan,
}

impl Scan for EmbeddedScan {
    fn next(&mut self) -> Result<Option<(&[u8], Object)>> {
        let entry = self.scan.next()?;
        Ok(entry.map(|(key, object)| (key, object_of(object))))
    }
}

fn object_of(object: pellucid_engine::Object) -> Object {
    Object { head: head_of(&object.head), value: Value::Mapped(object.value) }
}

fn head_of(head: &pellucid_engine::Head) -> Head {
    Head {
        sequence: head.sequence,
        written_at_ms: head.written_at_ms,
        value_length: u64::from(head.value_length),
    }
}
