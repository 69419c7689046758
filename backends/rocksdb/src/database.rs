//! The open database, and everything that lives as long as it.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_store::{Result, StoreError, Table};
use rocksdb::compaction_filter::Decision;
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, BoundColumnFamily, Cache, ColumnFamilyDescriptor,
    CompactOptions, DBCompressionType, Options, ReadOptions,
};

use crate::db::{Db, error_of};
use crate::entry::EntryHead;
use crate::families::{Families, Handle};
use crate::sequences::Sequences;
use crate::stripes::Stripes;

const FILTER_BITS_PER_KEY: f64 = 10.0;
/// The divisor of the memory setting that gives the size of all memtables; the rest is block cache.
const MEMTABLE_SHARE: usize = 2;
/// RocksDB's read tier for reads that use only memtables and block cache.
const TIER_MEMORY: i32 = 1;
/// The prefix of the column family names of tables.
const TABLE: &str = "table ";
/// Number of memtables that a table may have at a time.
const MEMTABLES: usize = 4;

/// An open database.
pub(crate) struct Database {
    // Stands before `db`: fields are dropped in order, and handles must not outlive the database.
    families: Families,
    pub(crate) stripes: Stripes,
    pub(crate) sequences: Sequences,
    is_closed: AtomicBool,
    options: Options,
    pub(crate) reading: ReadOptions,
    /// Like `reading`, for threads that must not wait for the disk.
    pub(crate) reading_at_once: ReadOptions,
    pub(crate) db: Db,
}

/// The options of the database and of each table; all share one block cache.
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
    // Compaction drops expired entries to free their space; reads skip them before that.
    options.set_compaction_filter("pellucid-expiry", |_, _, value| match EntryHead::of(value) {
        Ok((stored, _)) if !stored.is_live() => Decision::Remove,
        _ => Decision::Keep,
    });
    options
}

impl Database {
    pub(crate) fn open(directory: &Path, memory_bytes: usize) -> Result<Database> {
        // RocksDB creates files that other users may read, so the folder keeps these users out.
        let mut folder = std::fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(directory).map_err(|error| {
            StoreError::Failed(format!("cannot make {}: {error}", directory.display()))
        })?;
        let options = options_for(memory_bytes);
        // An error here means that there is no database yet. Any other reason fails the open below.
        let names = Db::list_cf(&options, directory).unwrap_or_else(|_| vec!["default".to_owned()]);
        let with_options =
            names.iter().map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
        let db = Db::open_cf_descriptors(&options, directory, with_options).map_err(error_of)?;
        let (stripes, sequences) = (Stripes::new(), Sequences::continue_after(&db)?);
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
            sequences,
            is_closed,
            options,
            reading,
            reading_at_once,
            db,
        })
    }

    pub(crate) fn table(&self, name: &str) -> Result<Table> {
        self.families.table(name, || self.find_or_make(&format!("{TABLE}{name}")))
    }

    /// The names of all tables that exist.
    pub(crate) fn table_names(&self) -> Result<Vec<String>> {
        let families = Db::list_cf(&self.options, self.db.path()).map_err(error_of)?;
        Ok(families.iter().filter_map(|name| name.strip_prefix(TABLE)).map(str::to_owned).collect())
    }

    /// Merges each table into its last level.
    pub(crate) fn compact(&self) -> Result<()> {
        self.check_open()?;
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        for name in self.table_names()? {
            let family = self.find_or_make(&format!("{TABLE}{name}"))?;
            let everything = (None::<&[u8]>, None::<&[u8]>);
            self.db.compact_range_cf_opt(&family, everything.0, everything.1, &options);
        }
        Ok(())
    }

    fn find_or_make(&self, family_name: &str) -> Result<Handle> {
        if self.db.cf_handle(family_name).is_none() {
            self.check_open()?;
            self.db.create_cf(family_name, &self.options).map_err(error_of)?;
        }
        let missing = || StoreError::Failed(format!("the {family_name} was made and is not there"));
        let handle = self.db.cf_handle(family_name).ok_or_else(missing)?;
        // SAFETY: a handle is valid while the database is open and the family is not dropped. No
        // family is ever dropped. The handle is dropped before the database: it is in the same
        // struct, before `db`, or its holder also holds an `Arc` of the database.
        Ok(unsafe { std::mem::transmute::<Arc<BoundColumnFamily<'_>>, Handle>(handle) })
    }

    pub(crate) fn family(&self, table: Table) -> Result<&Handle> {
        let unknown = || StoreError::Unacceptable("the store has no such table".to_owned());
        self.families.get(table).ok_or_else(unknown)
    }

    /// The largest sequence number up to which every write is finished, so that it can be read from
    /// now on. Some later writes may be readable as well.
    pub(crate) fn last_sequence(&self) -> u64 {
        let next = self.sequences.next_free();
        self.stripes.least_under_way().min(next) - 1
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(StoreError::ReadOnly("the store was closed".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        let given_back = self.sequences.give_back(&self.db);
        self.db.flush_wal(true).and(given_back).map_err(error_of)
    }
}
