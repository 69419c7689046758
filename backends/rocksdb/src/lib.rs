//! The store over RocksDB, behind the same interface as the embedded engine, so that the two can be
//! compared side by side, each with its own account. One of the studies used RocksDB.
//!
//! The crate is empty without the feature `rocksdb`. It links to the system's library
//! (`ROCKSDB_LIB_DIR`), because compiling RocksDB takes longer than compiling everything else.

#![cfg(feature = "rocksdb")]

mod account;
mod database;
mod db;
mod entry;
mod families;
mod scan;
mod sequences;
mod store;
mod stripes;

pub use account::NAMES as PART_NAMES;
pub use store::{BareTable, RocksOptions, RocksStore};
