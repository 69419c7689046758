//! The short way of a GET: a directory names the record of a key, and the record says all that the
//! entry in the table's block would. Whoever looks up says how records are read.

use std::convert::Infallible;

use super::FoundEntry;

/// What a look-up found.
pub(crate) enum Answer<T> {
    /// The entry.
    Entry(FoundEntry),
    /// What was made of the record that a directory named for the key.
    Record(T),
}

/// Reads the records that directories name.
pub(crate) trait Records {
    /// What is made of a record.
    type Answer;
    /// Whether records are read at all.
    const ARE_READ: bool;

    /// What the record with this sequence number says of the key that is looked up; `None` if it is
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
