//! Errors of a store, in terms that an API can answer with.

use std::fmt;

/// The result of the functions of a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The reason for which a store could not do a request.
#[derive(Clone, Debug, PartialEq, Eq)]
// As of `Value`: it is moved in one place with what a GET found.
#[repr(u64)]
pub enum StoreError {
    /// The request itself cannot be fulfilled, now or ever: a key or value too long, a batch too
    /// large. The text says what and by how much.
    Unacceptable(String),
    /// A condition does not hold; nothing was written.
    ConditionFailed {
        /// The index of the entry within the batch.
        index: usize,
        /// The sequence number that the key has, if it is there.
        current: Option<u64>,
    },
    /// There is no room; nothing was written.
    Full(String),
    /// Stored bytes are damaged; the text names file and offset.
    Corruption(String),
    /// The store takes no writes any more; the text says since which failure.
    ReadOnly(String),
    /// Too much waits already; nothing was done, and a moment later it may be.
    Busy(String),
    /// Fewer copies answered than had to. The text says how many, or which node is not there. Of a
    /// write it is unknown whether it happened; it may be seen later.
    Unreachable(String),
    /// The writes after a sequence number are not all there any more, or there is no such write
    /// yet.
    ChangesLost {
        /// The lowest sequence number after which all are there.
        oldest: u64,
        /// The last write.
        newest: u64,
    },
    /// The data is not in memory, and the thread must not wait for it
    /// ([`LocalStore::all_in_memory`](crate::LocalStore::all_in_memory)).
    NotInMemory,
    /// Anything else that failed below.
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
