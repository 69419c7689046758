//! The change feed: the writes of a table in their order, for followers of a store in this process.

use crate::error::Result;
use crate::model::{Table, Value};

/// A write of a table.
#[derive(Clone, Debug)]
pub struct Change {
    /// The sequence number of the write, which is also the entry's ETag.
    pub sequence: u64,
    /// The time of the write, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// The time of expiry, in milliseconds since the Unix epoch; `None` if it does not expire.
    pub expires_at_ms: Option<u64>,
    /// The key.
    pub key: Vec<u8>,
    /// The value that was put; `None` for a removal.
    pub value: Option<Value>,
}

/// A step of reading changes.
#[derive(Debug)]
pub enum ChangeStep {
    /// A write of the table.
    Change(Change),
    /// Writes of other tables or keys were skipped. More writes may follow.
    Others,
    /// There are no more writes at present.
    End,
}

/// The selection of changes.
#[derive(Clone, Copy, Debug)]
pub struct ChangeSelector<'a> {
    /// The table.
    pub table: Table,
    /// The prefix of the keys.
    pub prefix: &'a [u8],
    /// The sequence number after which the changes begin.
    pub since: u64,
    /// True if only writes that are on the disk are returned, so that they survive a power loss.
    pub is_durable: bool,
}

/// A reader of changes. It may block.
pub trait ChangeReader: Send {
    /// The next step.
    ///
    /// # Errors
    /// [`StoreError::ChangesLost`](crate::StoreError::ChangesLost) if the next changes were removed
    /// by a merge meanwhile. Errors of reading the store.
    fn step(&mut self) -> Result<ChangeStep>;

    /// Goes back before the change that the last step returned: the next step reads it again.
    fn step_back(&mut self);

    /// The last sequence number that was read. A new reader after it continues here.
    fn sequence(&self) -> u64;
}

/// A store with a change feed.
pub trait ChangeFeed {
    /// Begins to read the changes after a sequence number. Never waits.
    ///
    /// # Errors
    /// [`StoreError::ChangesLost`](crate::StoreError::ChangesLost) if some are not available any
    /// more.
    fn changes(&self, after: ChangeSelector<'_>) -> Result<Box<dyn ChangeReader>>;

    /// The sequence number of the last write.
    fn newest_sequence(&self) -> u64;
}
