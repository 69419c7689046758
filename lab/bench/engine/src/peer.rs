//! What every store under comparison can do: one driver for all of them, so that no difference
//! comes from how they are called.

use std::path::Path;

use crate::fjall_peer;
use crate::lmdb_peer;
use crate::pellucid_peer;
use crate::redb_peer;
use crate::rocksdb_peer;

/// Any error as text: what a benchmark does about all of them is to say them and stop.
pub type Outcome<T> = Result<T, String>;

/// The name of our engine among the peers.
pub const PELLUCID: &str = "pellucid";
/// The peer that the bars compare with.
pub const ROCKSDB: &str = "rocksdb";
/// All peers, in the order of the first round.
pub const PEERS: [&str; 8] =
    [PELLUCID, ROCKSDB, "rocksdb-defaults", "blobdb", "fjall", "fjall-separated", "lmdb", "redb"];
/// Those of the table in the engine's README.
pub const PEERS_OF_TABLE: [&str; 5] = [PELLUCID, ROCKSDB, "fjall", "lmdb", "redb"];

/// How a store is opened.
#[derive(Clone, Copy, Default)]
pub struct Setting {
    /// The memory that the process is confined to, page cache included: its caches have to fit.
    pub confined_to_bytes: Option<u64>,
}

/// What a full scan saw.
#[derive(Clone, Copy, Default)]
pub struct Scanned {
    /// Keys.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// A store that is open, with durability `os`: a write survives the process, not the machine.
pub trait Peer: Send + Sync {
    /// Which version of the store it is.
    fn version(&self) -> String;
    /// Sets a key.
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()>;
    /// Copies the value into `into`, whose former content goes; false if there is none.
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Outcome<bool>;
    /// Whether the key is there, by the cheapest way that reads no value; by a GET if there is
    /// none.
    fn head(&self, key: &[u8]) -> Outcome<bool>;
    /// Reads all keys and values in order.
    fn scan(&self) -> Outcome<Scanned>;
    /// Writes all that is in memory to tables.
    fn flush(&self) -> Outcome<()>;
    /// Whether no flush or merge runs or is due.
    fn is_settled(&self) -> Outcome<bool>;
    /// Merges everything.
    fn compact(&self) -> Outcome<()>;
    /// Bytes that the store says it wrote, journal included, if it counts them.
    fn written_bytes(&self) -> Option<u64> {
        None
    }
    /// The memory it was told to keep to, page cache aside, if there is such a setting.
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
