//! The store over RocksDB: the engine that one of the studies was made on, behind the same
//! interface as ours, so that the two can be compared side by side, each with its own account.
//!
//! It is there with the feature `rocksdb` alone, linked with the system's library
//! (`ROCKSDB_LIB_DIR`), because compiling RocksDB takes longer than all the rest together.

#[cfg(feature = "rocksdb")]
mod account;
#[cfg(feature = "rocksdb")]
mod database;
#[cfg(feature = "rocksdb")]
mod entry;
#[cfg(feature = "rocksdb")]
mod families;
#[cfg(feature = "rocksdb")]
mod scan;
#[cfg(feature = "rocksdb")]
mod sequences;
#[cfg(feature = "rocksdb")]
mod store;
#[cfg(feature = "rocksdb")]
mod stripes;

#[cfg(feature = "rocksdb")]
pub use account::NAMES as PART_NAMES;
#[cfg(feature = "rocksdb")]
pub use store::{Bare, RocksOptions, RocksStore};
