//! Reads that never wait for the medium.
//!
//! If an event loop reads a page that is not in memory, it stops, and with it every connection that
//! it owns. Checking before each read whether its pages are in memory would cost more than the
//! read. So it is checked only while recent reads were slow, and never if everything has been in
//! memory for a while. Another thread then fetches the pages.

/// The mode of a read: whether it may wait for the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// The read waits until the pages that it needs are in memory.
    #[default]
    MayBlock,
    /// The read ends where it would have to wait: with [`ReadResult::NotInMemory`] for one key,
    /// with [`crate::Error::NotInMemory`] for snapshots and scans. Scans are also limited as with
    /// [`ReadMode::Brief`].
    InMemory,
    /// The read waits, but a scan ends with [`crate::Error::NotInMemory`] if it would have to skip
    /// many entries that are deleted or too new. For threads that serve others, while reads are
    /// fast.
    Brief,
}

/// The result of reading one key.
#[derive(Clone, Debug)]
pub enum ReadResult<T> {
    /// The key is there.
    Value(T),
    /// The key is not there.
    Missing,
    /// A page that the read needs is not in memory, and the read must not wait for it: read again
    /// on a thread that may wait. Only with [`ReadMode::InMemory`].
    NotInMemory,
}

impl<T> ReadResult<T> {
    /// The value; `None` if the key is missing or not in memory.
    pub fn value(self) -> Option<T> {
        match self {
            ReadResult::Value(value) => Some(value),
            ReadResult::Missing | ReadResult::NotInMemory => None,
        }
    }
}

impl<T> From<Option<T>> for ReadResult<T> {
    fn from(found: Option<T>) -> ReadResult<T> {
        found.map_or(ReadResult::Missing, ReadResult::Value)
    }
}
