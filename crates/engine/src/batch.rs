//! Batches of operations, and the conditions under which they are written.

use crate::ledger::EntryKind;
use crate::table_id::{IndexId, TableId};

/// A condition on a key; if it does not hold, the batch is not written. All conditions are checked
/// under the writer lock, before the first entry of the batch takes effect. An expired key counts
/// as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    #[default]
    None,
    /// The key is not there.
    Absent,
    /// The key is there.
    Present,
    /// The key is there with this sequence number.
    Sequence(u64),
}

/// A change of an index by a write. It takes effect together with the write.
///
/// The engine does not know the previous terms of an object: a write that replaces or deletes the
/// object must also remove the terms that no longer apply. It is not an error to add an entry that
/// is there, or to remove one that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexChange<'a> {
    pub(crate) index: IndexId,
    pub(crate) term: &'a [u8],
    pub(crate) is_added: bool,
}

impl<'a> IndexChange<'a> {
    /// Adds an entry: `term` finds the object until the entry is removed or the object that it was
    /// added with expires. A term has up to [`crate::TERM_LENGTH_MAX`] arbitrary bytes.
    #[must_use]
    pub fn add(index: IndexId, term: &'a [u8]) -> IndexChange<'a> {
        IndexChange { index, term, is_added: true }
    }

    /// Removes an entry: `term` no longer finds the object.
    #[must_use]
    pub fn remove(index: IndexId, term: &'a [u8]) -> IndexChange<'a> {
        IndexChange { index, term, is_added: false }
    }
}

/// One entry of a batch, borrowed from the caller.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    pub(crate) table: TableId,
    pub(crate) kind: EntryKind,
    pub(crate) key: &'a [u8],
    pub(crate) head: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expires_at_ms: u64,
    pub(crate) condition: Condition,
    pub(crate) index_changes: &'a [IndexChange<'a>],
    /// True if the operation may use the reserve of a full disk.
    pub(crate) gives_room: bool,
}

impl<'a> Operation<'a> {
    /// Sets `key` to `value`, with an empty head.
    #[must_use]
    pub fn put(table: TableId, key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
        let (head, kind) = (&[][..], EntryKind::Put);
        let (condition, index_changes) = (Condition::None, &[][..]);
        let (expires_at_ms, gives_room) = (0, false);
        Operation {
            table,
            kind,
            key,
            head,
            value,
            expires_at_ms,
            condition,
            index_changes,
            gives_room,
        }
    }

    /// Removes `key`. It is not an error if the key is not there.
    #[must_use]
    pub fn delete(table: TableId, key: &'a [u8]) -> Operation<'a> {
        Operation { kind: EntryKind::Delete, gives_room: true, ..Operation::put(table, key, &[]) }
    }

    /// Lets a put use the reserve of a full disk, as deletes do: for records that mark data as
    /// given up, so that it can be removed later.
    #[must_use]
    pub fn giving_room(self) -> Operation<'a> {
        Operation { gives_room: true, ..self }
    }

    /// Sets the head: bytes that [`crate::Engine::head`] returns without reading the value.
    #[must_use]
    pub fn with_head(self, head: &'a [u8]) -> Operation<'a> {
        Operation { head, ..self }
    }

    /// Sets the time of expiry, in milliseconds since the Unix epoch; 0 for never. From that time
    /// on ([`crate::Engine::now_ms`]) no read shows the key, not even through a snapshot that was
    /// taken before, and merges drop it.
    #[must_use]
    pub fn with_expiry(self, expires_at_ms: u64) -> Operation<'a> {
        Operation { expires_at_ms, ..self }
    }

    /// Changes indexes of the table together with the operation. The added index entries expire
    /// together with the object. Each change is an entry of the batch, and counts towards its
    /// limits.
    #[must_use]
    pub fn with_index_changes(self, index_changes: &'a [IndexChange<'a>]) -> Operation<'a> {
        Operation { index_changes, ..self }
    }

    /// Adds a condition.
    #[must_use]
    pub fn with_condition(self, condition: Condition) -> Operation<'a> {
        Operation { condition, ..self }
    }
}

/// Operations that are written together or not at all. A reader sees all of them or none.
///
/// ```
/// # use pellucid_engine::*;
/// # fn main() -> Result<()> {
/// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
/// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
/// # let engine = Engine::open("/store", options)?;
/// let accounts = engine.table("accounts")?;
/// let mut batch = Batch::new();
/// batch.put(accounts, b"alice", b"", b"90");
/// batch.push(Operation::put(accounts, b"bob", b"110").with_condition(Condition::Absent));
/// let written = engine.write(&batch, Acknowledgement::Os)?;
/// assert!(!written.pending);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch<'a> {
    operations: Vec<Operation<'a>>,
}

impl<'a> Batch<'a> {
    /// A batch without entries.
    #[must_use]
    pub fn new() -> Batch<'a> {
        Batch::default()
    }

    /// Adds an entry that sets `key`.
    pub fn put(&mut self, table: TableId, key: &'a [u8], head: &'a [u8], value: &'a [u8]) {
        self.push(Operation::put(table, key, value).with_head(head));
    }

    /// Adds an entry that removes `key`.
    pub fn delete(&mut self, table: TableId, key: &'a [u8]) {
        self.push(Operation::delete(table, key));
    }

    /// Adds an entry. If several entries have the same key, the last one wins.
    pub fn push(&mut self, operation: Operation<'a>) {
        self.operations.push(operation);
    }

    /// Removes all entries and keeps the memory.
    pub fn clear(&mut self) {
        self.operations.clear();
    }
}

impl<'a> std::ops::Deref for Batch<'a> {
    type Target = [Operation<'a>];

    fn deref(&self) -> &[Operation<'a>] {
        &self.operations
    }
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The sequence number of the last operation. The operations before it have consecutive numbers
    /// below it, and index entries have the numbers before all operations.
    pub sequence: u64,
    /// True if durability was asked for and the write is not durable yet: call
    /// [`crate::Engine::wait_durable`] or [`crate::Engine::when_durable`].
    pub pending: bool,
}
