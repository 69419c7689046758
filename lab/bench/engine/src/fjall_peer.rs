//! The peer fjall, with its defaults, and with values stored separately from keys.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};

use crate::peer::{Outcome, Peer, ScanResult, Setting, text};

const CACHE_BYTES: u64 = 512 << 20;
/// The length from which on values are stored separately.
const SEPARATED_LENGTH_MIN: u32 = 64;
/// The divisor for the cache's share of limited memory; the rest is for the page cache.
const CACHE_SHARE: u64 = 2;

struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

pub fn open(folder: &Path, is_separated: bool, setting: Setting) -> Outcome<Box<dyn Peer>> {
    let cache_bytes = setting.confined_to_bytes.map_or(CACHE_BYTES, |bytes| bytes / CACHE_SHARE);
    let database = Database::builder(folder).cache_size(cache_bytes).open().map_err(text)?;
    let options = || {
        let separation = KvSeparationOptions::default().separation_threshold(SEPARATED_LENGTH_MIN);
        KeyspaceCreateOptions::default().with_kv_separation(is_separated.then_some(separation))
    };
    let keyspace = database.keyspace("bench", options).map_err(text)?;
    Ok(Box::new(Fjall { database, keyspace }))
}

impl Peer for Fjall {
    fn version(&self) -> String {
        "fjall 3, the version in Cargo.lock".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.keyspace.insert(key, value).map_err(text)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Outcome<bool> {
        let Some(value) = self.keyspace.get(key).map_err(text)? else { return Ok(false) };
        into.clear();
        into.extend_from_slice(&value);
        Ok(true)
    }

    fn head(&self, key: &[u8]) -> Outcome<bool> {
        Ok(self.keyspace.size_of(key).map_err(text)?.is_some())
    }

    fn scan(&self) -> Outcome<ScanResult> {
        let mut scanned = ScanResult::default();
        for guard in self.keyspace.iter() {
            let (key, value) = guard.into_inner().map_err(text)?;
            scanned.rows += 1;
            scanned.bytes += (key.len() + value.len()) as u64;
        }
        Ok(scanned)
    }

    fn flush(&self) -> Outcome<()> {
        self.keyspace.rotate_memtable_and_wait().map_err(text)
    }

    fn is_settled(&self) -> Outcome<bool> {
        Ok(self.database.outstanding_flushes() == 0 && self.database.active_compactions() == 0)
    }

    fn compact(&self) -> Outcome<()> {
        self.keyspace.major_compact().map_err(text)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.flush()?;
        self.database.persist(PersistMode::SyncAll).map_err(text)
    }
}
