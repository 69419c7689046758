//! The short way of a GET: a directory names the record of a key, and the record says all that the
//! entry in the table's block would. Whoever looks up says how records are read.

use std::convert::Infallible;

use super::FoundEntry;
use crate::read_mode::ReadMode;

/// The question of a look-up.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'a> {
    pub(crate) key: &'a [u8],
    /// The hash of the key.
    pub(crate) hash: u64,
    /// Entries above it are passed over.
    pub(crate) at_sequence: u64,
    /// Says whether the look-up may wait for the medium.
    pub(crate) mode: ReadMode,
}

/// The answer to a look-up.
pub(crate) enum Answer<T> {
    /// The entry.
    Entry(FoundEntry),
    /// The outcome of reading the record that a directory named for the key.
    Record(T),
}

/// Reads the records that directories name.
pub(crate) trait Records {
    /// The outcome of reading a record.
    type Answer;
    /// Says whether records are read at all.
    const ARE_READ: bool;

    /// Reads the record with this sequence number for the key that is looked up; `None` if it is
    /// another key's, or cannot be read: then the entry is asked.
    fn read(&mut self, sequence: u64) -> Option<Self::Answer>;
}

/// Look-ups that want the entry.
pub(crate) struct NoRecords;

impl Records for NoRecords {
    type Answer = Infallible;
    const ARE_READ: bool = false;

    fn read(&mut self, _: u64) -> Option<Infallible> {
        None
    }
}

impl Answer<Infallible> {
    /// The entry: there is nothing else that it can be.
    #[inline]
    pub(crate) fn into_entry(self) -> FoundEntry {
        match self {
            Answer::Entry(entry) => entry,
            Answer::Record(never) => match never {},
        }
    }
}
