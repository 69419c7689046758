//! The type of the database, and the conversion of RocksDB's errors.

use pellucid_store::StoreError;
use rocksdb::{DBWithThreadMode, MultiThreaded};

pub(crate) type Db = DBWithThreadMode<MultiThreaded>;

/// The error of the store. [`StoreError::NotInMemory`] is that of a request that would have to wait
/// on a thread that must not.
pub(crate) fn error_of(error: rocksdb::Error) -> StoreError {
    let text = format!("RocksDB: {}", error.clone().into_string());
    match error.kind() {
        rocksdb::ErrorKind::Corruption => StoreError::Corruption(text),
        rocksdb::ErrorKind::Incomplete => StoreError::NotInMemory,
        rocksdb::ErrorKind::Busy | rocksdb::ErrorKind::TryAgain => StoreError::Busy(text),
        _ => StoreError::Failed(text),
    }
}
