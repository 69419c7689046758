//! The store over RocksDB: the engine that one of the studies was made on, behind the same
//! interface as ours, so that the two can be compared side by side, each with its own account.
//!
//! It is there with the feature `rocksdb` alone, linked with the system's library
//! (`ROCKSDB_LIB_DIR`), because compiling RocksDB takes longer than all the rest together.

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
pub use store::{Bare, RocksOptions, RocksStore};
