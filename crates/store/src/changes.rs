//! Changes: the writes of a table in their order, for those who follow a store in this process.

use crate::error::Result;
use crate::model::{Table, Value};

/// A write of a table.
#[derive(Clone, Debug)]
pub struct Change {
    /// The sequence number of the write: an entry that was put has it in its ETag.
    pub sequence: u64,
    /// The time of the write, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// The time of expiry, in milliseconds since the Unix epoch; nothing for never.
    pub expires_at_ms: Option<u64>,
    /// The key.
    pub key: Vec<u8>,
    /// The value that was put; nothing for a removal.
    pub value: Option<Value>,
}

/// A step of a walk over changes.
#[derive(Debug)]
pub enum ChangeStep {
    /// A write.
    Change(Change),
    /// Writes of other tables and keys, behind which there may be more.
    Others,
    /// The end, for now.
    End,
}

/// The changes that are asked for.
#[derive(Clone, Copy, Debug)]
pub struct ChangesAfter<'a> {
    /// The table.
    pub table: Table,
    /// The first bytes of their keys.
    pub prefix: &'a [u8],
    /// The sequence number that all of them are above.
    pub since: u64,
    /// True if they are told once they survive the loss of the machine's power.
    pub is_durable: bool,
}

/// A walk over changes, on a thread that may block.
pub trait Changes: Send {
    /// The next step.
    ///
    /// # Errors
    /// [`StoreError::ChangesLost`](crate::StoreError::ChangesLost) if what comes next was collected
    /// meanwhile, and otherwise if the store cannot be read.
    fn step(&mut self) -> Result<ChangeStep>;

    /// The last sequence number that was looked at: a walk that begins after it goes on here.
    fn sequence(&self) -> u64;
}

/// A store that tells its changes.
pub trait ChangeFeed {
    /// The changes after a sequence number. Never waits.
    ///
    /// # Errors
    /// [`StoreError::ChangesLost`](crate::StoreError::ChangesLost) if they are not all there.
    fn changes(&self, after: ChangesAfter<'_>) -> Result<Box<dyn Changes>>;

    /// The sequence number of the last write.
    fn newest_sequence(&self) -> u64;
}
