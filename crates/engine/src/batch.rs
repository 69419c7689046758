//! Batches of operations, and the conditions under which they are written.

use crate::ledger::Kind;
use crate::table_id::{IndexId, TableId};

/// A condition on a key without which a write does not happen. It is judged under the writer lock,
/// before the first entry of the batch takes effect. A key that has expired is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// The key is not there.
    Absent,
    /// The key is there.
    Present,
    /// The key is there with this sequence number.
    Sequence(u64),
}

/// A change of an index by a write. It takes effect together with the write, or not at all.
///
/// The engine does not know by which terms an object was found before: a write that replaces or
/// deletes the object removes the terms that no longer apply. To add what is there, or to remove
/// what is not, is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexChange<'a> {
    pub(crate) index: IndexId,
    pub(crate) term: &'a [u8],
    pub(crate) is_added: bool,
}

impl<'a> IndexChange<'a> {
    /// The object is found by `term` from now on, until the entry is removed or the object that it
    /// was added with expires. A term has up to [`crate::TERM_LENGTH_MAX`] bytes, any of them.
    #[must_use]
    pub fn add(index: IndexId, term: &'a [u8]) -> IndexChange<'a> {
        IndexChange { index, term, is_added: true }
    }

    /// The object is no longer found by `term`.
    #[must_use]
    pub fn remove(index: IndexId, term: &'a [u8]) -> IndexChange<'a> {
        IndexChange { index, term, is_added: false }
    }
}

/// One entry of a batch, borrowed from the caller.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    pub(crate) table: TableId,
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    pub(crate) head: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expires_at_ms: u64,
    pub(crate) condition: Condition,
    pub(crate) index_changes: &'a [IndexChange<'a>],
    /// It may take from the reserve of a full disk.
    pub(crate) gives_room: bool,
}

impl<'a> Operation<'a> {
    /// Sets `key` to `value`, with an empty head.
    #[must_use]
    pub fn put(table: TableId, key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
        let (head, kind) = (&[][..], Kind::Put);
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

    /// Removes `key`. That it is not there is no error.
    #[must_use]
    pub fn delete(table: TableId, key: &'a [u8]) -> Operation<'a> {
        Operation { kind: Kind::Delete, gives_room: true, ..Operation::put(table, key, &[]) }
    }

    /// Lets a put take from the reserve of a full disk, as deletes do: for notes by which data is
    /// given up, which is removed later.
    #[must_use]
    pub fn giving_room(self) -> Operation<'a> {
        Operation { gives_room: true, ..self }
    }

    /// Adds a head: bytes that [`crate::Engine::head`] answers with, without touching the value.
    #[must_use]
    pub fn with_head(self, head: &'a [u8]) -> Operation<'a> {
        Operation { head, ..self }
    }

    /// Lets the key expire at a time in milliseconds since the Unix epoch, 0 for never: from then
    /// on ([`crate::Engine::now_ms`]) no read shows it, those of snapshots included, whenever they
    /// were taken, and merges drop it.
    #[must_use]
    pub fn with_expiry(self, expires_at_ms: u64) -> Operation<'a> {
        Operation { expires_at_ms, ..self }
    }

    /// Changes indexes of the table together with the operation. Entries that are added expire when
    /// the object does. Each change is an entry of the batch, and counts towards its limits.
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

/// Entries that are written together or not at all. A reader sees all of them or none.
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

    /// Adds an entry. Of several for one key, the last one stays.
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
pub struct Written {
    /// The sequence number of the last operation; those before it have the numbers before it, and
    /// entries of indexes have the numbers before all of them.
    pub sequence: u64,
    /// True if durability was asked for and is still to come:
    /// [`crate::Engine::wait_durable`] or [`crate::Engine::when_durable`] tell.
    pub pending: bool,
}
