//! Errors of a store, in terms that an API can answer with.

use std::fmt;

/// The result of the functions of a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The failure of a request to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
// For the same reason as `Value`: both are moved in the result of a GET.
#[repr(u64)]
pub enum StoreError {
    /// The request can never be fulfilled: a key or a value is too long, or a batch too large. The
    /// text tells what, and the bounds.
    Unacceptable(String),
    /// A condition does not hold. Nothing was written.
    ConditionFailed {
        /// The index of the entry within the batch.
        index: usize,
        /// The present sequence number of the key, if the key exists.
        current: Option<u64>,
    },
    /// The disk is full. Nothing was written.
    Full(String),
    /// Stored bytes are damaged. The text names the file and the offset.
    Corruption(String),
    /// The store accepts no more writes. The text names the failure that caused it.
    ReadOnly(String),
    /// Too many requests wait. Nothing was done; a retry after a moment may succeed.
    Busy(String),
    /// Fewer copies answered than required. The text tells how many, or which node does not answer.
    /// It is unknown whether a write took effect; it may become visible later.
    Unreachable(String),
    /// Some of the writes after a sequence number are not available any more, or there is no write
    /// with that number yet.
    ChangesLost {
        /// The lowest sequence number after which all writes are available.
        oldest: u64,
        /// The sequence number of the last write.
        newest: u64,
    },
    /// The data is not in memory, and the caller must not wait for it
    /// ([`LocalStore::all_in_memory`](crate::LocalStore::all_in_memory)).
    NotInMemory,
    /// Any other failure of the store.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unacceptable(what)
            | StoreError::Full(what)
            | StoreError::Corruption(what)
            | StoreError::ReadOnly(what)
            | StoreError::Busy(what)
            | StoreError::Unreachable(what)
            | StoreError::Failed(what) => f.write_str(what),
            StoreError::ConditionFailed { current: Some(sequence), .. } => {
                write!(f, "the condition does not hold: the entry's ETag is \"{sequence}\"")
            }
            StoreError::ChangesLost { oldest, newest } => {
                write!(
                    f,
                    "the changes after that sequence number are not all there: there are those \
                     after {oldest}, and the last write is {newest}; read all entries anew, and \
                     follow from the newest sequence number that you know then"
                )
            }
            StoreError::NotInMemory => {
                f.write_str("what is read is not in memory: ask a thread that may wait")
            }
            StoreError::ConditionFailed { current: None, .. } => {
                f.write_str("the condition does not hold: there is no such entry")
            }
        }
    }
}

impl std::error::Error for StoreError {}
