//! The open database with what has to live as long as it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, TryLockError};

use pellucid_store::{KEY_LENGTH_MAX, Result, StoreError, Table};
use pellucid_thread::{Mutex, MutexGuard};
use rocksdb::compaction_filter::Decision;
use rocksdb::{
    BlockBasedOptions, BoundColumnFamily, Cache, ColumnFamilyDescriptor, DBCompressionType,
    DBWithThreadMode, MultiThreaded, Options, ReadOptions, WriteOptions,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::entry::Stored;
use crate::families::{Families, Handle};

pub(crate) type Db = DBWithThreadMode<MultiThreaded>;

/// Locks over keys: writers of keys with the same lock follow one another.
const STRIPES: usize = 256;
const FILTER_BITS_PER_KEY: f64 = 10.0;
/// The share of the memory setting that goes to memtables; the rest is the block cache's.
const MEMTABLE_SHARE: usize = 2;
/// RocksDB's number for reads that stay within memtables and block cache.
const TIER_MEMORY: i32 = 1;
/// Memtables at a time.
const MEMTABLES: usize = 4;

/// What holds off writers of some keys until it is dropped.
pub(crate) enum Locks<'a> {
    /// As most writes have it, without a list of one.
    One(#[allow(dead_code, reason = "it is held")] MutexGuard<'a, ()>),
    Many(#[allow(dead_code, reason = "they are held")] Vec<MutexGuard<'a, ()>>),
}

/// See the module.
pub(crate) struct Database {
    // Before `db`: fields are dropped in their order, and handles must not outlive it.
    families: Families,
    stripes: Vec<Mutex<()>>,
    next_sequence: AtomicU64,
    is_closed: AtomicBool,
    options: Options,
    pub(crate) reading: ReadOptions,
    /// As `reading`, for threads that must not wait for the disk.
    pub(crate) reading_at_once: ReadOptions,
    pub(crate) db: Db,
}

/// The options of the database and of each table; all have one block cache.
fn options_for(memory_bytes: usize) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_bloom_filter(FILTER_BITS_PER_KEY, false);
    blocks.set_block_cache(&Cache::new_lru_cache(memory_bytes - memory_bytes / MEMTABLE_SHARE));
    blocks.set_format_version(5);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::None);
    options.set_db_write_buffer_size(memory_bytes / MEMTABLE_SHARE);
    options.set_write_buffer_size((memory_bytes / MEMTABLE_SHARE / MEMTABLES).max(64 << 10));
    options.set_max_write_buffer_number(MEMTABLES as i32);
    // What has expired is dropped when it is compacted: its space comes back, and reads have not
    // shown it for long.
    options.set_compaction_filter("pellucid-expiry", |_, _, value| match Stored::of(value) {
        Ok((stored, _)) if !stored.is_live() => Decision::Remove,
        _ => Decision::Keep,
    });
    options
}

impl Database {
    pub(crate) fn open(directory: &Path, memory_bytes: usize) -> Result<Database> {
        std::fs::create_dir_all(directory).map_err(|error| {
            StoreError::Failed(format!("cannot make {}: {error}", directory.display()))
        })?;
        let options = options_for(memory_bytes);
        // An error means that there is no database yet; other reasons show when it is opened.
        let names = Db::list_cf(&options, directory).unwrap_or_else(|_| vec!["default".to_owned()]);
        let with_options =
            names.iter().map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
        let db = Db::open_cf_descriptors(&options, directory, with_options).map_err(error_of)?;
        // Every entry that is written takes one of RocksDB's own sequence numbers at least.
        let next_sequence = AtomicU64::new(db.latest_sequence_number() + 1);
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        let families = Families::new();
        let is_closed = AtomicBool::new(false);
        let (reading, mut reading_at_once) = (ReadOptions::default(), ReadOptions::default());
        // SAFETY: the binding's type of tiers has no public name, but is an enumeration represented
        // by an `i32`, and this is one of its values.
        #[allow(clippy::missing_transmute_annotations, reason = "the type has no public name")]
        let tier = unsafe { std::mem::transmute::<i32, _>(TIER_MEMORY) };
        reading_at_once.set_read_tier(tier);
        Ok(Database {
            families,
            stripes,
            next_sequence,
            is_closed,
            options,
            reading,
            reading_at_once,
            db,
        })
    }

    pub(crate) fn table(&self, name: &str) -> Result<Table> {
        self.families.table(name, || self.find_or_make(&format!("table {name}")))
    }

    fn find_or_make(&self, family_name: &str) -> Result<Handle> {
        if self.db.cf_handle(family_name).is_none() {
            self.check_open()?;
            self.db.create_cf(family_name, &self.options).map_err(error_of)?;
        }
        let missing = || StoreError::Failed(format!("the {family_name} was made and is not there"));
        let handle = self.db.cf_handle(family_name).ok_or_else(missing)?;
        // SAFETY: the handle is valid for as long as the database is open and the family is not
        // dropped. No family ever is, and the handle is dropped before the database, with which it
        // is in one struct, or held beside an `Arc` of it.
        Ok(unsafe { std::mem::transmute::<Arc<BoundColumnFamily<'_>>, Handle>(handle) })
    }

    pub(crate) fn family(&self, table: Table) -> Result<&Handle> {
        let unknown = || StoreError::Unacceptable("the store has no such table".to_owned());
        self.families.get(table).ok_or_else(unknown)
    }

    /// Holds off others that write any of these keys. Nothing if somebody does, and this thread
    /// must not wait.
    pub(crate) fn lock<'a>(
        &self,
        table: Table,
        mut keys: impl ExactSizeIterator<Item = &'a [u8]>,
        may_wait: bool,
    ) -> Option<Locks<'_>> {
        let stripe = |key: &[u8]| (xxh3_64(key) as usize ^ usize::from(table.number())) % STRIPES;
        if keys.len() == 1 {
            return self.lock_one(stripe(keys.next()?), may_wait).map(Locks::One);
        }
        let mut wanted: Vec<usize> = keys.map(stripe).collect();
        // In one order, so that nobody waits for anybody who waits for him.
        wanted.sort_unstable();
        wanted.dedup();
        let locks: Option<_> =
            wanted.into_iter().map(|stripe| self.lock_one(stripe, may_wait)).collect();
        locks.map(Locks::Many)
    }

    fn lock_one(&self, stripe: usize, may_wait: bool) -> Option<MutexGuard<'_, ()>> {
        let stripe = &self.stripes[stripe];
        if may_wait {
            return Some(stripe.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match stripe.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The first of so many sequence numbers.
    pub(crate) fn draw(&self, count: usize) -> u64 {
        self.next_sequence.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// The last sequence number that was drawn.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.next_sequence.load(Ordering::Acquire) - 1
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(StoreError::ReadOnly("the store was closed".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        self.db.flush_wal(true).map_err(error_of)
    }
}

/// How a write is made: synced, or refused where it would have to wait for flushes and merges.
pub(crate) fn write_options(is_synced: bool, may_wait: bool) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(is_synced);
    options.set_no_slowdown(!may_wait);
    options
}

/// Refuses what is no key.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if (1..=KEY_LENGTH_MAX).contains(&key.len()) {
        return Ok(());
    }
    let length = key.len();
    Err(StoreError::Unacceptable(format!(
        "a key has 1 to {KEY_LENGTH_MAX} bytes, and this one has {length}"
    )))
}

pub(crate) fn error_of(error: rocksdb::Error) -> StoreError {
    let text = format!("RocksDB: {}", error.clone().into_string());
    match error.kind() {
        rocksdb::ErrorKind::Corruption => StoreError::Corruption(text),
        rocksdb::ErrorKind::Busy | rocksdb::ErrorKind::TryAgain => StoreError::Busy(text),
        _ => StoreError::Failed(text),
    }
}
