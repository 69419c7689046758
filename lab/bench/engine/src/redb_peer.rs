//! The peer redb: one transaction per call.
//!
//! redb has no commit that survives the process without a sync. So puts are committed without
//! durability, which promises less than the other peers do. One commit in [`DURABLE_EVERY`] is
//! durable, because redb reuses free pages only after a durable commit. Nothing is compacted: that
//! needs exclusive access.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use crate::peer::{Outcome, Peer, ScanResult, Setting, text};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");
const FILE: &str = "bench.redb";
const CACHE_BYTES: usize = 512 << 20;
/// The divisor for the cache's share of limited memory; the rest is for the page cache.
const CACHE_SHARE: u64 = 2;
/// One commit in this many is durable.
const DURABLE_EVERY: u64 = 10_000;

struct Redb {
    database: Database,
    puts: AtomicU64,
}

pub fn open(folder: &Path, setting: Setting) -> Outcome<Box<dyn Peer>> {
    let confined = setting.confined_to_bytes.map(|bytes| (bytes / CACHE_SHARE) as usize);
    let mut builder = Database::builder();
    builder.set_cache_size(confined.unwrap_or(CACHE_BYTES));
    let database = builder.create(folder.join(FILE)).map_err(text)?;
    let redb = Redb { database, puts: AtomicU64::new(0) };
    // Make the table, so that reads find it.
    redb.write(Durability::Immediate, None)?;
    Ok(Box::new(redb))
}

impl Redb {
    fn write(&self, durability: Durability, row: Option<(&[u8], &[u8])>) -> Outcome<()> {
        let mut transaction = self.database.begin_write().map_err(text)?;
        transaction.set_durability(durability).map_err(text)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(text)?;
            if let Some((key, value)) = row {
                table.insert(key, value).map_err(text)?;
            }
        }
        transaction.commit().map_err(text)
    }
}

impl Peer for Redb {
    fn version(&self) -> String {
        "redb 4, the version in Cargo.lock".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let number = self.puts.fetch_add(1, Ordering::Relaxed) + 1;
        let is_durable = number.is_multiple_of(DURABLE_EVERY);
        let durability = if is_durable { Durability::Immediate } else { Durability::None };
        self.write(durability, Some((key, value)))
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Outcome<bool> {
        let transaction = self.database.begin_read().map_err(text)?;
        let table = transaction.open_table(TABLE).map_err(text)?;
        let Some(value) = table.get(key).map_err(text)? else { return Ok(false) };
        into.clear();
        into.extend_from_slice(value.value());
        Ok(true)
    }

    fn head(&self, key: &[u8]) -> Outcome<bool> {
        let transaction = self.database.begin_read().map_err(text)?;
        let table = transaction.open_table(TABLE).map_err(text)?;
        Ok(table.get(key).map_err(text)?.is_some())
    }

    fn scan(&self) -> Outcome<ScanResult> {
        let transaction = self.database.begin_read().map_err(text)?;
        let table = transaction.open_table(TABLE).map_err(text)?;
        let mut scanned = ScanResult::default();
        for row in table.iter().map_err(text)? {
            let (key, value) = row.map_err(text)?;
            // Values are borrowed: without the copy, they would not be read.
            let value = std::hint::black_box(value.value().to_vec());
            scanned.bytes += (key.value().len() + value.len()) as u64;
            scanned.rows += 1;
        }
        Ok(scanned)
    }

    fn flush(&self) -> Outcome<()> {
        self.write(Durability::Immediate, None)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.flush()
    }
}
