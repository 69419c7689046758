//! The peer that is our engine, with its default options; `MEMORY_MB` sets another memory size.

use std::ops::Bound;
use std::path::Path;

use pellucid_engine::{Direction, Engine, EngineOptions, TableId};

use crate::peer::{Outcome, Peer, ScanResult, Setting, text};

/// The divisor for the engine's share of limited memory. The rest is for the page cache, which the
/// engine uses as its cache.
const BUDGET_SHARE: u64 = 8;

struct Pellucid {
    engine: Engine,
    table: TableId,
    memory_bytes: u64,
}

pub fn open(folder: &Path, setting: Setting) -> Outcome<Box<dyn Peer>> {
    let mut options = EngineOptions::default();
    if let Ok(megabytes) = std::env::var("MEMORY_MB") {
        let megabytes: u64 =
            megabytes.parse().map_err(|_| format!("MEMORY_MB={megabytes} is no number"))?;
        options.memory_bytes = megabytes << 20;
    }
    if let Some(bytes) = setting.confined_to_bytes {
        options.memory_bytes = options.memory_bytes.min(bytes / BUDGET_SHARE);
    }
    let memory_bytes = options.memory_bytes;
    let engine = Engine::open(folder, options).map_err(text)?;
    let table = engine.table("bench").map_err(text)?;
    Ok(Box::new(Pellucid { engine, table, memory_bytes }))
}

impl Peer for Pellucid {
    fn version(&self) -> String {
        "Pellucid, this tree".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let done = self.engine.put(self.table, key, value);
        done.map(|_| ()).map_err(text)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Outcome<bool> {
        let found = self.engine.get(self.table, key).map_err(text)?;
        let Some(object) = found else { return Ok(false) };
        into.clear();
        into.extend_from_slice(&object.value);
        Ok(true)
    }

    fn head(&self, key: &[u8]) -> Outcome<bool> {
        let found = self.engine.head(self.table, key).map_err(text)?;
        Ok(found.is_some())
    }

    fn scan(&self) -> Outcome<ScanResult> {
        let (all, forward) = (Bound::Unbounded, Direction::Forward);
        let mut scan = self.engine.scan(self.table, all, all, forward).map_err(text)?;
        let mut scanned = ScanResult::default();
        while let Some((key, object)) = scan.next().map_err(text)? {
            scanned.rows += 1;
            scanned.bytes += (key.len() + object.value.len()) as u64;
        }
        Ok(scanned)
    }

    fn flush(&self) -> Outcome<()> {
        self.engine.flush().map_err(text)
    }

    fn is_settled(&self) -> Outcome<bool> {
        let ledger = self.engine.stats().ledger;
        match ledger.trouble {
            Some(trouble) => Err(trouble),
            None => {
                let is_behind = ledger.debt_bytes > 0 || ledger.sealed_memtables > 0;
                Ok(ledger.running.is_none() && !is_behind)
            }
        }
    }

    fn compact(&self) -> Outcome<()> {
        // Values of dropped entries are dead in the journal; collection frees their space.
        self.engine.compact().map_err(text)?;
        self.engine.collect().map(|_| ()).map_err(text)
    }

    fn written_bytes(&self) -> Option<u64> {
        let stats = self.engine.stats();
        let merges: u64 = stats.ledger.levels.iter().map(|level| level.compaction.bytes_out).sum();
        // All bytes appended to the journal: its size plus what collection freed. The copies of
        // collection are added below.
        let journal = stats.journal_bytes + stats.collected.freed_bytes;
        let copies = stats.collected.copied_bytes;
        Some(journal + copies + stats.ledger.flush.bytes_out + merges)
    }

    fn memory_setting_bytes(&self) -> Option<u64> {
        Some(self.memory_bytes)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.engine.close().map_err(text)
    }
}
