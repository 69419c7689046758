//! The store of kind `embedded`: the interface of a store over the engine in this process.

use std::any::Any;
use std::ops::{Bound, Deref};
use std::path::Path;
use std::sync::Arc;

use pellucid_account::{Activity, Timeline};
use pellucid_clock::{Clock, Ticks};
use pellucid_engine::{
    Direction, Engine, EngineOptions, EngineStats, ReadMode as EngineReadMode, ReadResult,
    SyncTimes, TableId, parts,
};
use pellucid_store::{
    Acknowledgement, Answer, Backups, ChangeFeed, ChangeReader, ChangeSelector, ChangeStep,
    Condition, DeferredAnswer, DeliveredAnswer, HandOverPolicy, Head, LocalStore, Note,
    NotingStore, Object, Operation, PartMeasurement, Properties, Range, ReadMode, Result, Scan,
    Snapshot, Store, Table, Workers, WriteOutcome, hand_over, hand_over_write,
};

use crate::backups::BackupFolder;
use crate::convert::{self, failure};

/// Number of threads that wait for the disk in place of event loops. A modern disk serves several
/// reads at once in about the time of one.
const WORKERS: usize = 8;
/// The name of these threads; each adds its number.
const WORKER: &str = "pellucid-worker";

/// Bytes of a batch for keys, heads and entries of indexes, beside one value of the largest size.
const BATCH_REST_BYTES: usize = 1 << 20;

/// The outcome of a read in the engine.
type EngineRead<T> = pellucid_engine::Result<ReadResult<T>>;

/// The settings of the embedded store.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedOptions {
    /// Memory for writes that are not yet in tables, in bytes.
    pub memory_bytes: u64,
    /// Limit of a value in bytes.
    pub value_bytes_max: usize,
    /// Bytes of the newest journal segments that are not collected automatically, so that readers
    /// of the change feed can follow.
    pub kept_changes_bytes: u64,
    /// The share of dead bytes at which a journal segment is collected, within
    /// [`pellucid_engine::DEAD_SHARES`].
    pub dead_share: f64,
    /// The choice of requests that are handed over from their event loop to a worker thread.
    pub hand_over: HandOverPolicy,
    /// Limit of the requests that wait for a worker thread. Further ones fail with
    /// [`StoreError::Busy`](pellucid_store::StoreError::Busy).
    pub handed_over_max: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> EmbeddedOptions {
        let options = EngineOptions::default();
        EmbeddedOptions {
            memory_bytes: options.memory_bytes,
            value_bytes_max: options.value_length_max,
            kept_changes_bytes: options.kept_changes_bytes,
            dead_share: options.dead_share,
            hand_over: HandOverPolicy::Auto,
            handed_over_max: 1_024,
        }
    }
}

/// A store in a local folder, which only this process has open.
pub struct EmbeddedStore {
    engine: Engine,
    clock: Clock,
    value_bytes_max: usize,
    hand_over: HandOverPolicy,
    workers: Workers,
    backups: BackupFolder,
}

impl EmbeddedStore {
    /// Opens the store in `directory`, or creates one there.
    ///
    /// # Errors
    /// Any error of the engine; for example, the store is open elsewhere, or damaged.
    pub fn open(directory: &Path, options: EmbeddedOptions) -> Result<EmbeddedStore> {
        EmbeddedStore::open_with(directory, options, EngineOptions::default())
    }

    /// Opens the store as [`EmbeddedStore::open`] does. Settings of the engine that are not in
    /// `options` are those of `engine_options`; batches may always be large enough for a value of
    /// the largest size.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`].
    pub fn open_with(
        directory: &Path,
        options: EmbeddedOptions,
        engine_options: EngineOptions,
    ) -> Result<EmbeddedStore> {
        let EmbeddedOptions { value_bytes_max, hand_over, handed_over_max, .. } = options;
        let batch_bytes = value_bytes_max.saturating_add(BATCH_REST_BYTES);
        let engine_options = EngineOptions {
            memory_bytes: options.memory_bytes,
            value_length_max: value_bytes_max,
            batch_size_max_bytes: engine_options.batch_size_max_bytes.max(batch_bytes),
            kept_changes_bytes: options.kept_changes_bytes,
            dead_share: options.dead_share,
            ..engine_options
        };
        let clock = engine_options.clock;
        let engine = Engine::open(directory, engine_options).map_err(failure)?;
        let workers = Workers::start(WORKER, WORKERS, handed_over_max)?;
        let backups = BackupFolder::of(engine.clone(), directory, clock);
        Ok(EmbeddedStore { engine, clock, value_bytes_max, hand_over, workers, backups })
    }

    /// The mode of a read on the calling thread; `None` if every read is handed over.
    fn mode(&self) -> Option<EngineReadMode> {
        match self.hand_over {
            HandOverPolicy::Never => Some(EngineReadMode::MayBlock),
            HandOverPolicy::Auto => Some(EngineReadMode::InMemory),
            HandOverPolicy::Always => None,
        }
    }

    /// True if a write is handed over. A condition on a key that is not in memory would be checked
    /// under the lock of all writers, which would wait with it.
    fn hands_over(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        timeline: &mut Timeline,
    ) -> bool {
        match self.hand_over {
            HandOverPolicy::Never => false,
            HandOverPolicy::Always => true,
            HandOverPolicy::Auto if self.engine.is_in_memory() => false,
            HandOverPolicy::Auto => conditional(operations).any(|operation| {
                let (key, mode) = (operation.key, EngineReadMode::InMemory);
                // The heads that are found may end the time for which reads count as slow. The next
                // one could be waited for here, so that a worker looks at the rest.
                self.engine.is_in_memory()
                    || matches!(
                        self.engine.head_timed(id(table), key, mode, timeline),
                        Ok(ReadResult::NotInMemory)
                    )
            }),
        }
    }

    /// Reads an entry with `read`, here or on a worker, and answers with what `shown` makes of it.
    fn look_up<F, T, R>(
        &self,
        (table, key): (Table, &[u8]),
        timeline: &mut Timeline,
        read: R,
        shown: impl FnOnce(F) -> T + Send + 'static,
    ) -> Answer<Option<T>>
    where
        T: Send + 'static,
        R: Fn(&Engine, TableId, &[u8], EngineReadMode, &mut Timeline) -> EngineRead<F>,
        R: Send + 'static,
    {
        let here = self.mode().map_or(Ok(ReadResult::NotInMemory), |mode| {
            read(&self.engine, id(table), key, mode, timeline)
        });
        let answer = move |found: EngineRead<F>| {
            Answer::Now(found.map(|read| read.value().map(shown)).map_err(failure))
        };
        match here {
            Ok(ReadResult::NotInMemory) => {
                let (engine, key) = (self.engine.clone(), key.to_vec());
                hand_over(&self.workers, timeline, move |timeline| {
                    answer(read(&engine, id(table), &key, EngineReadMode::MayBlock, timeline))
                })
            }
            found => answer(found),
        }
    }
}

/// The figures of the engine, if `store` is an embedded one.
#[must_use]
pub fn engine_stats(store: &dyn Store) -> Option<EngineStats> {
    let any: &dyn Any = store;
    any.downcast_ref::<EmbeddedStore>().map(|store| store.engine.stats())
}

fn id(table: Table) -> TableId {
    TableId::of_number(table.number())
}

impl Store for EmbeddedStore {
    fn table(&self, name: &str) -> Result<Table> {
        let table = self.engine.table(name).map_err(failure)?;
        Ok(Table::of_number(table.number()))
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>> {
        self.look_up((table, key), timeline, Engine::get_timed, convert::object)
    }

    fn head(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>> {
        self.look_up((table, key), timeline, Engine::head_timed, |head| convert::head(&head))
    }

    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<WriteOutcome> {
        self.write_noted(table, operations, &[], acknowledgement, timeline)
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        scan(&self.engine.snapshot(), table, range)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.snapshot_in(ReadMode::MayBlock)
    }

    fn snapshot_in(&self, mode: ReadMode) -> Result<Arc<dyn Snapshot>> {
        let snapshot = self.engine.snapshot_in(convert::engine_mode(mode));
        Ok(Arc::new(EmbeddedSnapshot { snapshot }))
    }

    fn properties(&self) -> Properties {
        Properties {
            copies: 1,
            value_bytes_max: self.value_bytes_max,
            part_names: &parts::NAMES,
            ranges_wait: false,
        }
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

    fn workers(&self) -> Option<&Workers> {
        (self.hand_over != HandOverPolicy::Never).then_some(&self.workers)
    }

    fn may_copy(&self, operations: &[Operation<'_>]) -> bool {
        match self.hand_over {
            HandOverPolicy::Never => false,
            HandOverPolicy::Auto => conditional(operations).next().is_some(),
            HandOverPolicy::Always => true,
        }
    }

    fn close(&self) -> Result<()> {
        self.engine.close().map_err(failure)
    }

    fn noting(&self) -> Option<&dyn NotingStore> {
        Some(self)
    }

    fn local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }
}

impl NotingStore for EmbeddedStore {
    fn head_noted(
        &self,
        table: Table,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Answer<Option<(Head, Note)>> {
        // Metadata that is too long for a note was not written through this interface.
        let noted = |head: pellucid_engine::Head| {
            (convert::head(&head), Note::new(&head.metadata).unwrap_or_default())
        };
        self.look_up((table, key), timeline, Engine::head_timed, noted)
    }

    fn write_noted(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        notes: &[Note],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<WriteOutcome> {
        if !self.hands_over(table, operations, timeline) {
            let noted = (operations, notes);
            return write(&self.engine, self.clock, table, noted, acknowledgement, timeline);
        }
        let (engine, clock) = (self.engine.clone(), self.clock);
        let notes = notes.to_vec();
        hand_over_write(&self.workers, timeline, operations, move |operations, timeline| {
            for operation in conditional(operations) {
                // It brings the page into memory. The write fails with the same error, if any.
                let mode = EngineReadMode::MayBlock;
                let _ = engine.head_timed(id(table), operation.key, mode, timeline);
            }
            write(&engine, clock, table, (operations, &notes), acknowledgement, timeline)
        })
    }
}

impl LocalStore for EmbeddedStore {
    fn table_names(&self) -> Result<Vec<String>> {
        Ok(self.engine.tables().into_iter().map(|(name, _)| name).collect())
    }

    fn activity(&self) -> Option<Activity> {
        Some(self.engine.activity())
    }

    fn is_in_memory(&self) -> bool {
        match self.hand_over {
            HandOverPolicy::Auto => self.engine.is_in_memory(),
            HandOverPolicy::Never => true,
            HandOverPolicy::Always => false,
        }
    }

    fn all_in_memory(&self, reads: &mut dyn FnMut(ReadMode) -> bool) -> bool {
        match self.hand_over {
            HandOverPolicy::Auto => self.engine.all_in_memory(|mode| reads(convert::mode(mode))),
            HandOverPolicy::Never => reads(ReadMode::MayBlock),
            HandOverPolicy::Always => false,
        }
    }

    fn compact(&self) -> Result<()> {
        self.engine.compact().map_err(failure)?;
        self.engine.collect().map(|_| ()).map_err(failure)
    }

    fn give_up(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<WriteOutcome> {
        let operations: Vec<_> = operations
            .iter()
            .map(|operation| engine_operation(&self.engine, table, operation).giving_room())
            .collect();
        let acknowledgement = convert::acknowledgement(acknowledgement);
        let written = self.engine.write(&operations, acknowledgement).map_err(failure)?;
        if written.pending {
            self.engine.wait_durable(written.sequence).map_err(failure)?;
        }
        Ok(WriteOutcome { sequence: written.sequence })
    }

    fn backups(&self) -> Option<&dyn Backups> {
        Some(&self.backups)
    }

    fn change_feed(&self) -> Option<&dyn ChangeFeed> {
        Some(self)
    }
}

impl ChangeFeed for EmbeddedStore {
    fn changes(&self, after: ChangeSelector<'_>) -> Result<Box<dyn ChangeReader>> {
        let ChangeSelector { table, prefix, since, is_durable } = after;
        let changes = self.engine.changes(id(table), since).map_err(failure)?.with_prefix(prefix);
        let changes = if is_durable { changes.durable_only() } else { changes };
        Ok(Box::new(EmbeddedChanges { changes }))
    }

    fn newest_sequence(&self) -> u64 {
        self.engine.newest_sequence()
    }
}

/// An iterator over the engine's changes.
struct EmbeddedChanges {
    changes: pellucid_engine::Changes,
}

impl ChangeReader for EmbeddedChanges {
    fn step(&mut self) -> Result<ChangeStep> {
        Ok(match self.changes.step().map_err(failure)? {
            pellucid_engine::ChangeStep::Change(change) => {
                ChangeStep::Change(convert::change(change))
            }
            pellucid_engine::ChangeStep::Others => ChangeStep::Others,
            pellucid_engine::ChangeStep::End => ChangeStep::End,
        })
    }

    fn step_back(&mut self) {
        self.changes.step_back();
    }

    fn sequence(&self) -> u64 {
        self.changes.sequence()
    }
}

/// The operations that have a condition.
fn conditional<'a>(operations: &'a [Operation<'a>]) -> impl Iterator<Item = &'a Operation<'a>> {
    operations.iter().filter(|operation| operation.condition != Condition::None)
}

/// Writes on the calling thread.
fn write(
    engine: &Engine,
    clock: Clock,
    table: Table,
    (operations, notes): (&[Operation<'_>], &[Note]),
    acknowledgement: Acknowledgement,
    timeline: &mut Timeline,
) -> Answer<WriteOutcome> {
    let acknowledgement = convert::acknowledgement(acknowledgement);
    let written = match operations {
        [operation] => {
            let note = notes.first().map_or(&[][..], Deref::deref);
            let one = [engine_operation(engine, table, operation).with_head(note)];
            engine.write_timed(&one, acknowledgement, timeline)
        }
        operations => {
            let each = operations.iter().enumerate().map(|(place, operation)| {
                let note = notes.get(place).map_or(&[][..], Deref::deref);
                engine_operation(engine, table, operation).with_head(note)
            });
            let all: Vec<_> = each.collect();
            engine.write_timed(&all, acknowledgement, timeline)
        }
    };
    match written {
        Err(error) => Answer::Now(Err(failure(error))),
        Ok(written) if written.pending => when_durable(engine, clock, written.sequence),
        Ok(written) => Answer::Now(Ok(WriteOutcome { sequence: written.sequence })),
    }
}

fn engine_operation<'a>(
    engine: &Engine,
    table: Table,
    operation: &Operation<'a>,
) -> pellucid_engine::Operation<'a> {
    let engine_operation = match operation.value {
        Some(value) => pellucid_engine::Operation::put(id(table), operation.key, value),
        None => pellucid_engine::Operation::delete(id(table), operation.key),
    };
    let engine_operation = engine_operation.with_condition(convert::condition(operation.condition));
    match operation.lifetime_ms {
        None => engine_operation,
        Some(lifetime_ms) => {
            let expires_at_ms = engine.now_ms().saturating_add(lifetime_ms);
            engine_operation.with_expiry(expires_at_ms)
        }
    }
}

/// The answer to a write that is visible, but not yet synced to the disk.
fn when_durable(engine: &Engine, clock: Clock, sequence: u64) -> Answer<WriteOutcome> {
    let (engine, since) = (engine.clone(), clock.now());
    Answer::Later(DeferredAnswer::new(move |callback| {
        let synced = move |times: pellucid_engine::Result<SyncTimes>| {
            let parts = times.as_ref().map(|times| sync_parts(since, *times));
            let parts = parts.map(Vec::from).unwrap_or_default();
            let result = times.map(|_| WriteOutcome { sequence }).map_err(failure);
            callback(DeliveredAnswer::new(result, parts));
        };
        engine.when_durable(sequence, Box::new(synced));
    }))
}

/// The parts of a wait for a sync that began at `since`. A sync that had started before counts from
/// `since` on.
fn sync_parts(since: Ticks, times: SyncTimes) -> [PartMeasurement; 2] {
    let begun = times.begun.max(since);
    let waited = begun.since(since);
    [
        PartMeasurement { part: parts::GROUP_WAIT, ticks: waited, until: begun, waited_for: 0 },
        PartMeasurement {
            part: parts::SYNC,
            ticks: times.ended.since(begun),
            until: times.ended,
            waited_for: times.job,
        },
    ]
}

struct EmbeddedSnapshot {
    snapshot: pellucid_engine::Snapshot,
}

impl Snapshot for EmbeddedSnapshot {
    fn sequence(&self) -> u64 {
        self.snapshot.sequence()
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Result<Option<Object>> {
        let found = self.snapshot.get_timed(id(table), key, timeline).map_err(failure)?;
        Ok(found.map(convert::object))
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        scan(&self.snapshot, table, range)
    }

    fn scan_prefix(&self, table: Table, prefix: &[u8], reverse: bool) -> Result<Box<dyn Scan>> {
        let scan =
            self.snapshot.scan_prefix(id(table), prefix, direction(reverse)).map_err(failure)?;
        Ok(Box::new(EmbeddedScan { scan, expires_at_ms: 0 }))
    }
}

fn direction(reverse: bool) -> Direction {
    if reverse { Direction::Backward } else { Direction::Forward }
}

fn scan(
    snapshot: &pellucid_engine::Snapshot,
    table: Table,
    range: Range<'_>,
) -> Result<Box<dyn Scan>> {
    let direction = direction(range.reverse);
    let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
    let scan =
        snapshot.scan(id(table), Bound::Included(range.start), end, direction).map_err(failure)?;
    Ok(Box::new(EmbeddedScan { scan, expires_at_ms: 0 }))
}

struct EmbeddedScan {
    scan: pellucid_engine::Scan,
    /// The expiry of the entry that was returned last; zero for never.
    expires_at_ms: u64,
}

impl Scan for EmbeddedScan {
    fn next(&mut self) -> Result<Option<(&[u8], Object)>> {
        let Some((key, object)) = self.scan.next().map_err(failure)? else { return Ok(None) };
        self.expires_at_ms = object.head.expires_at_ms;
        Ok(Some((key, convert::object(object))))
    }

    fn next_head(&mut self) -> Result<Option<(&[u8], Head)>> {
        let Some((key, head)) = self.scan.next_head().map_err(failure)? else { return Ok(None) };
        self.expires_at_ms = head.expires_at_ms;
        Ok(Some((key, convert::head(&head))))
    }

    fn release(&mut self) {
        self.scan.release();
    }

    fn expires_at_ms(&self) -> Option<u64> {
        (self.expires_at_ms != 0).then_some(self.expires_at_ms)
    }
}
