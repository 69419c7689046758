//! The store itself.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use pellucid_account::{PARTS_MAX, Timeline};
use pellucid_clock::WallTime;
use pellucid_store::{
    Acknowledgement, Answer, Arrival, Condition, Head, Object, Operation, Pending, Range, Result,
    Scan, Snapshot, Store, StoreError, Table, Value, Workers, Written,
};
use rocksdb::WriteBatchWithTransaction;

use crate::account::{NAMES, accounted};
use crate::database::{Database, check_key, error_of, write_options};
use crate::entry::{HEAD_LENGTH, Stored};
use crate::scan::{Moment, RocksSnapshot, scan};

/// Threads that wait for the medium in place of event loops.
const WORKERS: usize = 4;
const WORKER: &str = "pellucid-rocks";
/// Properties of RocksDB that are shown, with the names of their figures.
const FIGURES: [(&str, &str); 5] = [
    ("rocksdb.num-running-flushes", "rocksdb_running_flushes"),
    ("rocksdb.num-running-compactions", "rocksdb_running_compactions"),
    ("rocksdb.cur-size-all-mem-tables", "rocksdb_memtable_bytes"),
    ("rocksdb.block-cache-usage", "rocksdb_block_cache_bytes"),
    ("rocksdb.num-snapshots", "rocksdb_snapshots"),
];

/// What an operator can set of a store over RocksDB.
#[derive(Clone, Copy, Debug)]
pub struct RocksOptions {
    /// Memory for memtables and the block cache, half each.
    pub memory_bytes: usize,
    /// Bytes that a value may have.
    pub value_bytes_max: usize,
    /// Writes that may wait for the medium. Beyond it: [`StoreError::Busy`].
    pub handed_over_max: usize,
}

impl Default for RocksOptions {
    fn default() -> RocksOptions {
        RocksOptions { memory_bytes: 128 << 20, value_bytes_max: 64 << 20, handed_over_max: 1_024 }
    }
}

/// A store in a folder of this machine, kept by RocksDB.
pub struct RocksStore {
    database: Arc<Database>,
    workers: Workers,
    value_bytes_max: usize,
}

impl RocksStore {
    /// Opens the store in `directory`, or makes one there.
    ///
    /// # Errors
    /// What RocksDB says: among others, that it is open elsewhere or damaged.
    pub fn open(directory: &Path, options: RocksOptions) -> Result<RocksStore> {
        let database = Arc::new(Database::open(directory, options.memory_bytes)?);
        let workers = Workers::start(WORKER, WORKERS, options.handed_over_max)
            .map_err(|error| StoreError::Failed(format!("cannot start a thread: {error}")))?;
        Ok(RocksStore { database, workers, value_bytes_max: options.value_bytes_max })
    }

    fn check(&self, operations: &[Operation<'_>]) -> Result<()> {
        self.database.check_open()?;
        if operations.is_empty() {
            return Err(StoreError::Unacceptable("a batch has an entry".to_owned()));
        }
        for operation in operations {
            check_key(operation.key)?;
            let (length, limit) = (operation.value.map_or(0, <[u8]>::len), self.value_bytes_max);
            if length > limit {
                return Err(StoreError::Unacceptable(format!(
                    "the value has {length} bytes; it may have up to {limit}"
                )));
            }
        }
        Ok(())
    }
}

/// The entry of a key, if its time is not over; `shown` is what is wanted of it.
fn find<T>(
    database: &Database,
    table: Table,
    key: &[u8],
    shown: impl FnOnce(Stored, &[u8]) -> T,
) -> Result<Option<T>> {
    let family = database.family(table)?;
    let found = database.db.get_pinned_cf(&family, key).map_err(error_of)?;
    let Some(bytes) = found else { return Ok(None) };
    let stored = Stored::of(&bytes)?;
    Ok(stored.is_live().then(|| shown(stored, &bytes)))
}

/// Writes all or nothing. The locks of the keys are held from before the conditions are judged until
/// it is done, so that sequence numbers of a key rise with its writes.
fn write(
    database: &Database,
    table: Table,
    operations: &[Operation<'_>],
    is_synced: bool,
) -> Result<Written> {
    let family = database.family(table)?;
    let _locks = database.lock(table, operations.iter().map(|operation| operation.key));
    judge(database, table, operations)?;
    let first = database.draw(operations.len());
    let written_at_ms = WallTime::now().unix_ms();
    let stored = |index: usize, operation: &Operation<'_>, value: &[u8]| {
        let lifetime = operation.lifetime_ms;
        let expires_at_ms = lifetime.map_or(0, |ms| written_at_ms.saturating_add(ms));
        Stored { sequence: first + index as u64, written_at_ms, expires_at_ms }.with(value)
    };
    let options = write_options(is_synced);
    let done = match operations {
        [Operation { key, value: None, .. }] => database.db.delete_cf_opt(&family, key, &options),
        [operation @ Operation { key, value: Some(value), .. }] => {
            database.db.put_cf_opt(&family, key, stored(0, operation, value), &options)
        }
        operations => {
            let mut batch = WriteBatchWithTransaction::<false>::default();
            for (index, operation) in operations.iter().enumerate() {
                match operation.value {
                    Some(value) => {
                        batch.put_cf(&family, operation.key, stored(index, operation, value));
                    }
                    None => batch.delete_cf(&family, operation.key),
                }
            }
            database.db.write_opt(batch, &options)
        }
    };
    done.map_err(error_of)?;
    Ok(Written { sequence: first + operations.len() as u64 - 1 })
}

/// Whether all conditions hold, each with what the operations before it leave.
fn judge(database: &Database, table: Table, operations: &[Operation<'_>]) -> Result<()> {
    if operations.iter().all(|operation| operation.condition == Condition::None) {
        return Ok(());
    }
    let mut written: HashMap<&[u8], bool> = HashMap::new();
    for (index, operation) in operations.iter().enumerate() {
        if operation.condition != Condition::None {
            let current = find(database, table, operation.key, |stored, _| stored.sequence)?;
            let before = written.get(operation.key).copied();
            let is_there = before.unwrap_or(current.is_some());
            let holds = match operation.condition {
                Condition::None => true,
                Condition::Absent => !is_there,
                Condition::Present => is_there,
                Condition::Sequence(sequence) => before.is_none() && current == Some(sequence),
            };
            if !holds {
                return Err(StoreError::ConditionFailed { index, current });
            }
        }
        written.insert(operation.key, operation.value.is_some());
    }
    Ok(())
}

/// An operation that outlives its request's bytes.
struct Owned {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    condition: Condition,
    lifetime_ms: Option<u64>,
}

impl Owned {
    fn of(operation: &Operation<'_>) -> Owned {
        Owned {
            key: operation.key.to_vec(),
            value: operation.value.map(<[u8]>::to_vec),
            condition: operation.condition,
            lifetime_ms: operation.lifetime_ms,
        }
    }

    fn borrowed(&self) -> Operation<'_> {
        let Owned { key, value, condition, lifetime_ms } = self;
        let (condition, lifetime_ms) = (*condition, *lifetime_ms);
        Operation { key, value: value.as_deref(), condition, lifetime_ms }
    }
}

impl Store for RocksStore {
    fn table(&self, name: &str) -> Result<Table> {
        self.database.table(name)
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>> {
        let object = |stored: Stored, bytes: &[u8]| Object {
            head: stored.head(bytes.len()),
            value: Value::Owned(bytes[HEAD_LENGTH..].to_vec()),
        };
        let found = check_key(key)
            .and_then(|()| accounted(timeline, || find(&self.database, table, key, object)));
        Answer::Now(found)
    }

    fn head(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>> {
        let head = |stored: Stored, bytes: &[u8]| stored.head(bytes.len());
        let found = check_key(key)
            .and_then(|()| accounted(timeline, || find(&self.database, table, key, head)));
        Answer::Now(found)
    }

    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<Written> {
        if let Err(error) = self.check(operations) {
            return Answer::Now(Err(error));
        }
        if acknowledgement != Acknowledgement::Disk {
            let work = || write(&self.database, table, operations, false);
            return Answer::Now(accounted(timeline, work));
        }
        // A sync would hold up the thread that asks.
        let Some(place) = self.workers.reserve() else {
            let what = "too many writes wait for the medium: try again in a moment";
            return Answer::Now(Err(StoreError::Busy(what.to_owned())));
        };
        let owned: Vec<_> = operations.iter().map(Owned::of).collect();
        let database = Arc::clone(&self.database);
        Answer::Later(Pending::new(move |callback| {
            place.run(move || {
                let operations: Vec<_> = owned.iter().map(Owned::borrowed).collect();
                let written = write(&database, table, &operations, true);
                callback(Arrival::new(written, Vec::new()));
            });
        }))
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        scan(&self.database, None, table, range)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(RocksSnapshot(Arc::new(Moment::now(&self.database)))))
    }

    fn copies(&self) -> u32 {
        1
    }

    fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let value = |property| self.database.db.property_int_value(property).ok().flatten();
        let figures = FIGURES.iter().map(|(property, name)| (*name, value(*property).unwrap_or(0)));
        figures.collect()
    }

    fn part_names(&self) -> &'static [&'static str; PARTS_MAX] {
        &NAMES
    }

    fn is_in_memory(&self) -> bool {
        false
    }

    fn workers(&self) -> Option<&Workers> {
        Some(&self.workers)
    }

    fn close(&self) -> Result<()> {
        self.database.close()
    }
}
