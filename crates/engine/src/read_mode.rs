//! Reads that never wait for the medium.
//!
//! An event loop that reads a page which is not in memory stops, and with it every connection it
//! owns. Asking before each read whether its pages are there would cost more than the read; so it
//! is asked only while reads were found to be slow of late, and never where everything has been in
//! memory for a while. Another thread then fetches it.

/// Says whether a read may wait for the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// It waits until the pages it needs are in memory.
    #[default]
    MayBlock,
    /// It ends where it would have to wait: with [`Read::NotInMemory`] for one key, with
    /// [`crate::Error::NotInMemory`] for snapshots and scans; these as with [`ReadMode::Brief`],
    /// too.
    InMemory,
    /// It waits, and a scan ends with [`crate::Error::NotInMemory`] where it would pass over many
    /// entries that are deleted or too new: for threads that serve others, while reads are quick.
    Brief,
}

/// The result of looking one key up.
#[derive(Clone, Debug)]
pub enum Read<T> {
    /// The key is there.
    Value(T),
    /// The key is not there.
    Missing,
    /// A page on the way is not in memory, and the read must not wait for it: read again on a
    /// thread that may block. Only with [`ReadMode::InMemory`].
    NotInMemory,
}

impl<T> Read<T> {
    /// The value; nothing if the key is missing, or not in memory.
    pub fn value(self) -> Option<T> {
        match self {
            Read::Value(value) => Some(value),
            Read::Missing | Read::NotInMemory => None,
        }
    }
}

impl<T> From<Option<T>> for Read<T> {
    fn from(found: Option<T>) -> Read<T> {
        found.map_or(Read::Missing, Read::Value)
    }
}
