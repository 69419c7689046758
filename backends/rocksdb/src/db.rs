//! The type of the database, the options of writes, and the conversion of RocksDB's errors.

use pellucid_store::StoreError;
use rocksdb::{DBWithThreadMode, ErrorKind, MultiThreaded, WriteOptions};

/// RocksDB's text for a full disk. Its kind is that of all errors of the file system.
const NO_SPACE: &str = "No space left on device";

pub(crate) type Db = DBWithThreadMode<MultiThreaded>;

/// The error of the store. [`StoreError::NotInMemory`] is that of a request that would have to wait
/// on a thread that must not.
pub(crate) fn error_of(error: rocksdb::Error) -> StoreError {
    error_of_kind(error.kind(), format!("RocksDB: {}", error.into_string()))
}

fn error_of_kind(kind: ErrorKind, text: String) -> StoreError {
    match kind {
        ErrorKind::Corruption => StoreError::Corruption(text),
        ErrorKind::Incomplete => StoreError::NotInMemory,
        ErrorKind::Busy | ErrorKind::TryAgain => StoreError::Busy(text),
        ErrorKind::IOError if text.contains(NO_SPACE) => StoreError::Full(text),
        _ => StoreError::Failed(text),
    }
}

/// The options of a write. If it must not wait, RocksDB refuses it where it would have to wait for
/// flushes and compactions.
pub(crate) fn write_options(is_synced: bool, may_wait: bool) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(is_synced);
    options.set_no_slowdown(!may_wait);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a full disk was an internal error.
    #[test]
    fn a_full_disk_is_an_error_of_its_own() {
        let of_io = |text: &str| error_of_kind(ErrorKind::IOError, text.to_owned());
        let full = "IO error: No space left on device: While appending to file: /s/000009.log";
        assert_eq!(of_io(full), StoreError::Full(full.to_owned()));
        let other = "IO error: Input/output error: While appending to file: /s/000009.log";
        assert_eq!(of_io(other), StoreError::Failed(other.to_owned()));
    }
}
