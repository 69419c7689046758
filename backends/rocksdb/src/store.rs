//! The store of kind `rocksdb`: the interface of a store over a RocksDB database.

use std::path::Path;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_clock::{Clock, rising};
use pellucid_store::{
    Acknowledgement, Answer, Condition, Head, LocalStore, Object, Operation, Properties, Range,
    Result, Scan, Snapshot, Store, StoreError, Table, Workers, WriteOutcome, check_key, hand_over,
    hand_over_write,
};
use rocksdb::{ReadOptions, WriteBatchWithTransaction, WriteOptions};

use crate::account::{NAMES, accounted};
use crate::database::Database;
use crate::db::{error_of, write_options};
use crate::entry::EntryHead;
use crate::families::Handle;
use crate::scan::{OwnedSnapshot, RocksSnapshot, scan};

/// Number of threads that wait for the disk in place of event loops.
const WORKERS: usize = 4;
const WORKER: &str = "pellucid-rocks";
/// Properties of RocksDB, and the names of the figures that show them.
const FIGURES: [(&str, &str); 5] = [
    ("rocksdb.num-running-flushes", "rocksdb_running_flushes"),
    ("rocksdb.num-running-compactions", "rocksdb_running_compactions"),
    ("rocksdb.cur-size-all-mem-tables", "rocksdb_memtable_bytes"),
    ("rocksdb.block-cache-usage", "rocksdb_block_cache_bytes"),
    ("rocksdb.num-snapshots", "rocksdb_snapshots"),
];

/// The settings of a store over RocksDB.
#[derive(Clone, Copy, Debug)]
pub struct RocksOptions {
    /// Memory for memtables and the block cache in bytes, half for each.
    pub memory_bytes: usize,
    /// Limit of a value in bytes.
    pub value_bytes_max: usize,
    /// Limit of the requests that wait for a worker thread. Further ones fail with
    /// [`StoreError::Busy`].
    pub handed_over_max: usize,
}

impl Default for RocksOptions {
    fn default() -> RocksOptions {
        RocksOptions { memory_bytes: 128 << 20, value_bytes_max: 64 << 20, handed_over_max: 1_024 }
    }
}

/// A store in a local folder, over RocksDB.
pub struct RocksStore {
    database: Arc<Database>,
    workers: Workers,
    /// Options of writes that must not wait.
    at_once: WriteOptions,
    value_bytes_max: usize,
}

impl RocksStore {
    /// Opens the store in `directory`, or creates one there.
    ///
    /// # Errors
    /// Any error of RocksDB; for example, the database is open elsewhere, or damaged.
    pub fn open(directory: &Path, options: RocksOptions) -> Result<RocksStore> {
        let database = Arc::new(Database::open(directory, options.memory_bytes)?);
        let workers = Workers::start(WORKER, WORKERS, options.handed_over_max)?;
        let at_once = write_options(false, false);
        Ok(RocksStore { database, workers, at_once, value_bytes_max: options.value_bytes_max })
    }

    /// RocksDB's own interface to a table, to compare its cost with that of the store's interface.
    ///
    /// # Errors
    /// If the store has no such table.
    #[doc(hidden)]
    pub fn bare(&self, table: Table) -> Result<BareTable> {
        let database = Arc::clone(&self.database);
        let family = Arc::clone(self.database.family(table)?);
        Ok(BareTable { family, writing: WriteOptions::default(), database })
    }

    /// Reads a key: on this thread if all needed bytes are in memory, else on a worker thread.
    /// `shown` makes the result of an entry.
    #[inline]
    fn read<T: Send + 'static>(
        &self,
        table: Table,
        key: &[u8],
        timeline: &mut Timeline,
        shown: impl Fn(EntryHead, &[u8]) -> T + Copy + Send + 'static,
    ) -> Answer<Option<T>> {
        let here = || find(&self.database, table, key, &self.database.reading_at_once, shown);
        match accounted(timeline, here) {
            Err(StoreError::NotInMemory) => {}
            found => return Answer::Now(found),
        }
        let (database, key) = (Arc::clone(&self.database), key.to_vec());
        hand_over(&self.workers, timeline, move |timeline| {
            let here = || find(&database, table, &key, &database.reading, shown);
            Answer::Now(accounted(timeline, here))
        })
    }

    fn check(&self, operations: &[Operation<'_>]) -> Result<()> {
        self.database.check_open()?;
        if operations.is_empty() {
            return Err(StoreError::Unacceptable("a batch has an entry".to_owned()));
        }
        operations.iter().try_for_each(|operation| operation.check(self.value_bytes_max))
    }
}

/// RocksDB's own interface to a table ([`RocksStore::bare`]).
#[doc(hidden)]
pub struct BareTable {
    // Stands before `database`: the handle must not outlive it.
    family: Handle,
    writing: WriteOptions,
    database: Arc<Database>,
}

impl BareTable {
    /// Writes an entry, without a sync.
    ///
    /// # Errors
    /// Errors of RocksDB.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.database.db.put_cf_opt(&self.family, key, value, &self.writing).map_err(error_of)
    }

    /// Reads a copy of a value.
    ///
    /// # Errors
    /// Errors of RocksDB.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Database { db, reading, .. } = &*self.database;
        let found = db.get_pinned_cf_opt(&self.family, key, reading).map_err(error_of)?;
        Ok(found.map(|value| value.to_vec()))
    }
}

/// Applies `shown` to the entry of a key; `None` if there is none, or if it has expired.
///
/// # Errors
/// [`StoreError::NotInMemory`] if the read would have to wait for the disk, and `reading` forbids
/// that.
#[inline]
fn find<T>(
    database: &Database,
    table: Table,
    key: &[u8],
    reading: &ReadOptions,
    shown: impl Fn(EntryHead, &[u8]) -> T,
) -> Result<Option<T>> {
    check_key(key)?;
    let family = database.family(table)?;
    let found = database.db.get_pinned_cf_opt(family, key, reading).map_err(error_of)?;
    EntryHead::shown(found.as_deref(), shown)
}

/// Writes all operations or none. The locks of the keys are held from before the conditions are
/// checked until the write is done, so that the sequence numbers of a key rise with each write.
///
/// # Errors
/// [`StoreError::NotInMemory`] if the write would have to wait for a lock or for RocksDB, and must
/// not.
fn write(
    database: &Database,
    table: Table,
    operations: &[Operation<'_>],
    options: &WriteOptions,
    may_wait: bool,
) -> Result<WriteOutcome> {
    let family = database.family(table)?;
    let keys = operations.iter().map(|operation| operation.key);
    let locks = database.stripes.lock(table, keys, may_wait).ok_or(StoreError::NotInMemory)?;
    judge(database, table, operations)?;
    // The numbers take the time by which entries expire to the next run.
    let now = rising(Clock::system().wall());
    let first = database.sequences.draw(&database.db, &locks, operations.len(), now, may_wait)?;
    let stored = |index: usize, operation: &Operation<'_>| {
        let lifetime = operation.lifetime_ms;
        let expires_at_ms = lifetime.map_or(0, |ms| now.unix_ms().saturating_add(ms));
        EntryHead { sequence: first + index as u64, expires_at_ms }
    };
    let done = match operations {
        [Operation { key, value: None, .. }] => database.db.delete_cf_opt(family, key, options),
        [operation @ Operation { key, value: Some(value), .. }] => stored(0, operation)
            .with(value, |bytes| database.db.put_cf_opt(family, key, bytes, options)),
        operations => {
            let mut batch = WriteBatchWithTransaction::<false>::default();
            for (index, operation) in operations.iter().enumerate() {
                match operation.value {
                    Some(value) => stored(index, operation)
                        .with(value, |bytes| batch.put_cf(family, operation.key, bytes)),
                    None => batch.delete_cf(family, operation.key),
                }
            }
            database.db.write_opt(batch, options)
        }
    };
    done.map_err(error_of)?;
    Ok(WriteOutcome { sequence: first + operations.len() as u64 - 1 })
}

/// Checks all conditions.
///
/// # Errors
/// The first condition that does not hold.
fn judge(database: &Database, table: Table, operations: &[Operation<'_>]) -> Result<()> {
    for (index, operation) in operations.iter().enumerate() {
        if operation.condition == Condition::None {
            continue;
        }
        let sequence_of = |stored: EntryHead, _: &[u8]| stored.sequence;
        let current = find(database, table, operation.key, &database.reading, sequence_of)?;
        if !operation.condition.holds(current) {
            return Err(StoreError::ConditionFailed { index, current });
        }
    }
    Ok(())
}

impl Store for RocksStore {
    fn table(&self, name: &str) -> Result<Table> {
        self.database.table(name)
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>> {
        self.read(table, key, timeline, EntryHead::object)
    }

    fn head(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>> {
        self.read(table, key, timeline, EntryHead::head)
    }

    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<WriteOutcome> {
        if let Err(error) = self.check(operations) {
            return Answer::Now(Err(error));
        }
        let is_synced = acknowledgement == Acknowledgement::Disk;
        let is_plain = operations.iter().all(|each| each.condition == Condition::None);
        // A sync, or a condition on what is on the disk, would hold up the thread that asks.
        if !is_synced && is_plain {
            let work = || write(&self.database, table, operations, &self.at_once, false);
            match accounted(timeline, work) {
                Err(StoreError::NotInMemory) => {}
                written => return Answer::Now(written),
            }
        }
        let database = Arc::clone(&self.database);
        hand_over_write(&self.workers, timeline, operations, move |operations, timeline| {
            let options = write_options(is_synced, true);
            let work = || write(&database, table, operations, &options, true);
            Answer::Now(accounted(timeline, work).map_err(|error| match error {
                StoreError::NotInMemory => StoreError::Busy("RocksDB takes no writes now".into()),
                error => error,
            }))
        })
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        scan(&self.database, None, table, range)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(RocksSnapshot(Arc::new(OwnedSnapshot::now(&self.database)))))
    }

    fn properties(&self) -> Properties {
        Properties {
            copies: 1,
            value_bytes_max: self.value_bytes_max,
            part_names: &NAMES,
            ranges_wait: false,
        }
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let value = |property| self.database.db.property_int_value(property).ok().flatten();
        let figures = FIGURES.iter().map(|(property, name)| (*name, value(*property).unwrap_or(0)));
        figures.collect()
    }

    fn workers(&self) -> Option<&Workers> {
        Some(&self.workers)
    }

    fn close(&self) -> Result<()> {
        self.database.close()
    }

    fn local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }
}

impl LocalStore for RocksStore {
    fn table_names(&self) -> Result<Vec<String>> {
        self.database.table_names()
    }

    fn compact(&self) -> Result<()> {
        self.database.compact()
    }

    /// RocksDB keeps no reserve.
    fn give_up(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<WriteOutcome> {
        self.write(table, operations, acknowledgement, &mut Timeline::off()).wait()
    }
}
