//! The peer LMDB, through heed: one transaction per call, and no sync. It cannot be compacted: LMDB
//! reuses pages, but never returns them.

use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use crate::peer::{Outcome, Peer, ScanResult, Setting, text};

/// The address space reserved for the file, in bytes. The file takes only the disk space of its
/// pages.
const MAP_BYTES: usize = 64 << 30;

struct Lmdb {
    env: Env,
    table: Database<Bytes, Bytes>,
}

/// Opens the store. Its only cache is the page cache, so limited memory needs no other settings.
pub fn open(folder: &Path, _: Setting) -> Outcome<Box<dyn Peer>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: without syncs a commit survives the process, as with all peers here. A file that a
    // loss of power has damaged is never opened.
    unsafe { options.flags(EnvFlags::NO_SYNC) };
    // SAFETY: the file is of this process alone, and nothing else changes it.
    let env = unsafe { options.open(folder) }.map_err(text)?;
    let mut transaction = env.write_txn().map_err(text)?;
    let table = env.create_database(&mut transaction, None).map_err(text)?;
    transaction.commit().map_err(text)?;
    Ok(Box::new(Lmdb { env, table }))
}

impl Peer for Lmdb {
    fn version(&self) -> String {
        let version = heed::lmdb_version();
        format!("LMDB {}.{}.{}", version.major, version.minor, version.patch)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let mut transaction = self.env.write_txn().map_err(text)?;
        self.table.put(&mut transaction, key, value).map_err(text)?;
        transaction.commit().map_err(text)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Outcome<bool> {
        let transaction = self.env.read_txn().map_err(text)?;
        let Some(value) = self.table.get(&transaction, key).map_err(text)? else {
            return Ok(false);
        };
        into.clear();
        into.extend_from_slice(value);
        Ok(true)
    }

    fn head(&self, key: &[u8]) -> Outcome<bool> {
        let transaction = self.env.read_txn().map_err(text)?;
        Ok(self.table.get(&transaction, key).map_err(text)?.is_some())
    }

    fn scan(&self) -> Outcome<ScanResult> {
        let transaction = self.env.read_txn().map_err(text)?;
        let mut scanned = ScanResult::default();
        for row in self.table.iter(&transaction).map_err(text)? {
            let (key, value) = row.map_err(text)?;
            // Values are borrowed: without the copy, they would not be read.
            let value = std::hint::black_box(value.to_vec());
            scanned.bytes += (key.len() + value.len()) as u64;
            scanned.rows += 1;
        }
        Ok(scanned)
    }

    fn flush(&self) -> Outcome<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.env.force_sync().map_err(text)
    }
}
