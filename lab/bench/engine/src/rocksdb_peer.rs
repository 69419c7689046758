//! The peer RocksDB in three variants: tuned, with its defaults, and with values in blob files.

use std::path::{Path, PathBuf};

use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType, FlushOptions, Options,
    ReadOptions,
};

use crate::peer::{Outcome, Peer, ScanResult, Setting, text};

const BLOCK_CACHE_BYTES: usize = 512 << 20;
const FILTER_BITS_PER_KEY: f64 = 10.0;
/// The length from which on values go to blob files.
const BLOB_LENGTH_MIN: u64 = 64;
/// The divisor for the block cache's share of limited memory; the rest is for the page cache.
const CACHE_SHARE: u64 = 2;
/// The properties of RocksDB that count pending and running background jobs.
const BACKGROUND: [&str; 4] = [
    "rocksdb.mem-table-flush-pending",
    "rocksdb.num-running-flushes",
    "rocksdb.compaction-pending",
    "rocksdb.num-running-compactions",
];

/// The settings of RocksDB.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Filters, a large block cache, no compression, a hash index in each block, and as many
    /// threads as cores.
    Tuned,
    /// The defaults: no filters, and a cache of 8 MiB.
    Defaults,
    /// The tuned settings, with values in blob files.
    Blobs,
}

struct RocksDb {
    db: DB,
    folder: PathBuf,
}

fn options(variant: Variant, setting: Setting) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    if variant == Variant::Defaults {
        return options;
    }
    let cache_bytes =
        setting.confined_to_bytes.map_or(BLOCK_CACHE_BYTES, |bytes| (bytes / CACHE_SHARE) as usize);
    let mut blocks = BlockBasedOptions::default();
    blocks.set_bloom_filter(FILTER_BITS_PER_KEY, false);
    blocks.set_block_cache(&Cache::new_lru_cache(cache_bytes));
    blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    blocks.set_format_version(5);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::None);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_max_background_jobs(
        std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2) as i32),
    );
    options.set_max_write_buffer_number(4);
    options.set_memtable_whole_key_filtering(true);
    options.set_memtable_prefix_bloom_ratio(0.02);
    if variant == Variant::Blobs {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(BLOB_LENGTH_MIN);
        options.set_enable_blob_gc(true);
    }
    options
}

pub fn open(folder: &Path, variant: Variant, setting: Setting) -> Outcome<Box<dyn Peer>> {
    let db = DB::open(&options(variant, setting), folder).map_err(text)?;
    Ok(Box::new(RocksDb { db, folder: folder.to_path_buf() }))
}

impl Peer for RocksDb {
    fn version(&self) -> String {
        // The library has no call for the version, but writes it to its log.
        let log = std::fs::read_to_string(self.folder.join("LOG")).unwrap_or_default();
        let version = log.lines().find_map(|line| line.split_once("RocksDB version: "));
        format!("RocksDB {}", version.map_or("of unknown version", |(_, version)| version.trim()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.db.put(key, value).map_err(text)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Outcome<bool> {
        let Some(value) = self.db.get_pinned(key).map_err(text)? else { return Ok(false) };
        into.clear();
        into.extend_from_slice(&value);
        Ok(true)
    }

    fn head(&self, key: &[u8]) -> Outcome<bool> {
        Ok(self.db.get_pinned(key).map_err(text)?.is_some())
    }

    fn scan(&self) -> Outcome<ScanResult> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        let mut iterator = self.db.raw_iterator_opt(options);
        let mut scanned = ScanResult::default();
        iterator.seek_to_first();
        while let Some((key, value)) = iterator.item() {
            scanned.rows += 1;
            scanned.bytes += (key.len() + value.len()) as u64;
            iterator.next();
        }
        iterator.status().map_err(text)?;
        Ok(scanned)
    }

    fn flush(&self) -> Outcome<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_opt(&options).map_err(text)
    }

    fn is_settled(&self) -> Outcome<bool> {
        for property in BACKGROUND {
            if self.db.property_int_value(property).map_err(text)? != Some(0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn compact(&self) -> Outcome<()> {
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        Ok(())
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.flush()
    }
}
