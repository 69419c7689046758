//! The type of the database, and the conversion of RocksDB's errors.

use pellucid_store::StoreError;
use rocksdb::{DBWithThreadMode, MultiThreaded};

pub(crate) type Db = DBWithThreadMode<MultiThreaded>;

pub(crate) fn error_of(error: rocksdb::Error) -> StoreError {
    let text = format!("RocksDB: {}", error.clone().into_string());
    match error.kind() {
        rocksdb::ErrorKind::Corruption => StoreError::Corruption(text),
        rocksdb::ErrorKind::Busy | rocksdb::ErrorKind::TryAgain => StoreError::Busy(text),
        _ => StoreError::Failed(text),
    }
}
