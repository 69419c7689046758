//! The short path of a GET: a directory gives the sequence number of a key's record, and the record
//! has all facts of the ledger's entry. The caller of a look-up defines how records are read.

use std::convert::Infallible;

use super::FoundEntry;
use crate::read_mode::ReadMode;

/// The parameters of a look-up.
#[derive(Clone, Copy)]
pub(crate) struct LookupRequest<'a> {
    pub(crate) key: &'a [u8],
    /// The hash of the key.
    pub(crate) hash: u64,
    /// The sequence number to read at: newer entries are ignored.
    pub(crate) at_sequence: u64,
    /// The read mode: whether the look-up may wait for the medium.
    pub(crate) mode: ReadMode,
}

/// The answer to a look-up.
pub(crate) enum LookupResult<T> {
    /// The entry.
    Entry(FoundEntry),
    /// The result of reading the record that a directory named for the key.
    Record(T),
}

/// A reader of the records that directories name.
pub(crate) trait RecordReader {
    /// The result of reading a record.
    type Answer;
    /// True if records are read at all.
    const ARE_READ: bool;

    /// Reads the record with this sequence number for the key that is looked up. `None` if it
    /// belongs to another key or cannot be read; the entry in the table is then read.
    fn read(&mut self, sequence: u64) -> Option<Self::Answer>;
}

/// The reader for look-ups that want the entry: it reads no records.
pub(crate) struct NoRecordReader;

impl RecordReader for NoRecordReader {
    type Answer = Infallible;
    const ARE_READ: bool = false;

    fn read(&mut self, _: u64) -> Option<Infallible> {
        None
    }
}

impl LookupResult<Infallible> {
    /// The entry, which is the only possible answer.
    #[inline]
    pub(crate) fn into_entry(self) -> FoundEntry {
        match self {
            LookupResult::Entry(entry) => entry,
            LookupResult::Record(never) => match never {},
        }
    }
}
