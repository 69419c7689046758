//! The interface of all compared stores. One driver calls all of them, so that no difference comes
//! from the way they are called.

use std::path::Path;

use crate::fjall_peer;
use crate::lmdb_peer;
use crate::pellucid_peer;
use crate::redb_peer;
use crate::rocksdb_peer;

/// A result whose error is text: the benchmark prints any error and stops.
pub type Outcome<T> = Result<T, String>;

/// The name of our engine among the peers.
pub const PELLUCID: &str = "pellucid";
/// The peer that the bars compare with.
pub const ROCKSDB: &str = "rocksdb";
/// All peers, in the order of the first round.
pub const PEERS: [&str; 8] =
    [PELLUCID, ROCKSDB, "rocksdb-defaults", "blobdb", "fjall", "fjall-separated", "lmdb", "redb"];
/// The peers of the table in the engine's README.
pub const PEERS_OF_TABLE: [&str; 5] = [PELLUCID, ROCKSDB, "fjall", "lmdb", "redb"];

/// The setting with which a store is opened.
#[derive(Clone, Copy, Default)]
pub struct Setting {
    /// The memory limit of the process, page cache included, if there is one. The store's caches
    /// have to fit.
    pub confined_to_bytes: Option<u64>,
}

/// The result of a full scan.
#[derive(Clone, Copy, Default)]
pub struct ScanResult {
    /// The number of keys.
    pub rows: u64,
    /// The bytes of keys and values.
    pub bytes: u64,
}

/// An open store with durability `os`: a write survives the process, but not the machine.
pub trait Peer: Send + Sync {
    /// The name and version of the store.
    fn version(&self) -> String;
    /// Sets a key.
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()>;
    /// Replaces the contents of `into` with the value; returns false if the key is missing.
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Outcome<bool>;
    /// Returns true if the key exists. Uses the cheapest way that reads no value, or a GET if there
    /// is none.
    fn head(&self, key: &[u8]) -> Outcome<bool>;
    /// Reads all keys and values in order.
    fn scan(&self) -> Outcome<ScanResult>;
    /// Writes all that is in memory to tables.
    fn flush(&self) -> Outcome<()>;
    /// Returns true if no flush or merge runs or is due, as always without background work.
    fn is_settled(&self) -> Outcome<bool> {
        Ok(true)
    }
    /// Merges everything. Does nothing for stores that cannot.
    fn compact(&self) -> Outcome<()> {
        Ok(())
    }
    /// The bytes written according to the store, journal included, if it counts them.
    fn written_bytes(&self) -> Option<u64> {
        None
    }
    /// The memory setting of the store, without the page cache, if it has one.
    fn memory_setting_bytes(&self) -> Option<u64> {
        None
    }
    /// Closes it cleanly.
    fn close(self: Box<Self>) -> Outcome<()>;
}

/// Opens or makes the store of the peer called `name`.
pub fn open(name: &str, folder: &Path, setting: Setting) -> Outcome<Box<dyn Peer>> {
    match name {
        PELLUCID => pellucid_peer::open(folder, setting),
        ROCKSDB => rocksdb_peer::open(folder, rocksdb_peer::Variant::Tuned, setting),
        "rocksdb-defaults" => rocksdb_peer::open(folder, rocksdb_peer::Variant::Defaults, setting),
        "blobdb" => rocksdb_peer::open(folder, rocksdb_peer::Variant::Blobs, setting),
        "fjall" => fjall_peer::open(folder, false, setting),
        "lmdb" => lmdb_peer::open(folder, setting),
        "redb" => redb_peer::open(folder, setting),
        "fjall-separated" => fjall_peer::open(folder, true, setting),
        _ => Err(format!("there is no peer {name:?}; there are {}", PEERS.join(", "))),
    }
}

/// Any error as text.
pub fn text(error: impl ToString) -> String {
    error.to_string()
}
