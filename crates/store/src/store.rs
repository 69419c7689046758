//! The interface that every kind of store has.

use std::any::Any;
use std::sync::Arc;

use pellucid_account::{Activity, LateParts, PARTS_MAX, Timeline};

use crate::answer::Answer;
use crate::backups::Backups;
use crate::changes::ChangeFeed;
use crate::error::Result;
use crate::model::{
    Acknowledgement, Copies, Head, Note, Object, Operation, PartOf, ReadMode, Table, Written,
};
use crate::workers::Workers;

/// A range of keys, in the order of their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The first key that belongs to it.
    pub start: &'a [u8],
    /// The first key beyond it; nothing for the end of the table.
    pub end: Option<&'a [u8]>,
    /// True if it is walked from its last key to its first.
    pub reverse: bool,
}

/// The properties of a store, the same for as long as it is open.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Copies of each entry that the store keeps.
    pub copies: u32,
    /// Bytes that a value may have.
    pub value_bytes_max: usize,
    /// The names of the store's parts of `execute`, by slot.
    pub part_names: &'static [&'static str; PARTS_MAX],
    /// True if a walk over a range waits for others, machines or disks, so that it is made on
    /// [`Store::workers`].
    pub ranges_wait: bool,
}

/// An ordered key space in named tables. The timeline is passed along to be given the store's parts
/// of `execute`. Kinds with more to them say so by [`Store::noting`], [`Store::local`] and
/// [`Store::replicated`].
pub trait Store: Any + Send + Sync {
    /// The table of this name; it is made if there is none.
    ///
    /// # Errors
    /// If the store cannot be written to, or has no room for a further table.
    fn table(&self, name: &str) -> Result<Table>;

    /// As [`Store::table`], for keys that belong together where `part_of` finds the same prefix: a
    /// batch within one part is all or nothing, with its conditions, on every kind. The rule is the
    /// same whenever the table is opened, and the keys of a part follow one another.
    ///
    /// # Errors
    /// As [`Store::table`].
    fn table_in_parts(&self, name: &str, part_of: PartOf) -> Result<Table> {
        let _ = part_of;
        self.table(name)
    }

    /// The newest object of a key.
    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>>;

    /// The newest head of a key; the value is not touched.
    fn head(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>>;

    /// Writes all of `operations` or none of them.
    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<Written>;

    /// Walks a range as it is at this moment.
    ///
    /// # Errors
    /// If the walk cannot begin.
    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>>;

    /// The store as it is at this moment, for reads that belong together.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// As [`Store::snapshot`]; with [`ReadMode::InMemory`], reads of it fail with
    /// [`StoreError::NotInMemory`](crate::StoreError::NotInMemory) where they would wait for the
    /// medium, if the store can tell.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn snapshot_in(&self, mode: ReadMode) -> Result<Arc<dyn Snapshot>> {
        let _ = mode;
        self.snapshot()
    }

    /// See [`Properties`].
    fn properties(&self) -> Properties;

    /// Figures of the store as names and values, for metrics: each name ends in its unit, counters
    /// in `_total`.
    fn figures(&self) -> Vec<(&'static str, u64)>;

    /// Ends the store: all that was acknowledged is on disk afterwards.
    ///
    /// # Errors
    /// If it could not be brought there.
    fn close(&self) -> Result<()>;

    /// The threads that requests are offloaded to, if the store has any.
    fn workers(&self) -> Option<&Workers> {
        None
    }

    /// The store, if it keeps notes.
    fn noting(&self) -> Option<&dyn NotingStore> {
        None
    }

    /// The store, if it is in this process.
    fn local(&self) -> Option<&dyn LocalStore> {
        None
    }

    /// The store, if it keeps copies, or others write to it as well.
    fn replicated(&self) -> Option<&dyn ReplicatedStore> {
        None
    }
}

/// A store that keeps a note with each entry: a few bytes that are read without the value.
pub trait NotingStore {
    /// As [`Store::head`], with the note of [`NotingStore::write_noted`]; an empty one if there is
    /// none.
    fn head_noted(
        &self,
        table: Table,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Answer<Option<(Head, Note)>>;

    /// As [`Store::write`], leaving a note with each entry. There are as many notes as operations;
    /// removals have empty ones.
    fn write_noted(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        notes: &[Note],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<Written>;
}

/// A store in this process, with its memory, files and background jobs.
pub trait LocalStore {
    /// The names of all tables that there are, in no order.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn table_names(&self) -> Result<Vec<String>>;

    /// The background jobs of the store, if they are accounted for.
    fn activity(&self) -> Option<Activity> {
        None
    }

    /// True if reads have been answered from memory of late, so that a few of them may be made on a
    /// thread that must not block. [`Store::get`] looks at that itself.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Has `reads` make a few reads that belong together on a thread that must not block, on a
    /// [snapshot](Store::snapshot_in) in the mode that it is given: where one would have to wait
    /// for the medium, it fails with
    /// [`StoreError::NotInMemory`](crate::StoreError::NotInMemory), which `reads` tells by false.
    /// False is returned then, or if the store does not answer from memory and nothing was called:
    /// the data has to be read again on a thread that may block.
    fn all_in_memory(&self, reads: &mut dyn FnMut(ReadMode) -> bool) -> bool {
        let _ = reads;
        false
    }

    /// Gives back the room of all that was removed or written over, on the calling thread; that may
    /// take minutes, and requests go on meanwhile.
    ///
    /// # Errors
    /// If the store cannot be read or written, or is closed meanwhile.
    fn compact(&self) -> Result<()>;

    /// As [`Store::write`], for a batch that gives data up, to be removed later: a full disk has
    /// room for it.
    ///
    /// # Errors
    /// As there.
    fn give_up(&self, table: Table, operations: &[Operation<'_>]) -> Result<Written>;

    /// The backups of the store, if it can make some.
    fn backups(&self) -> Option<&dyn Backups> {
        None
    }

    /// The changes of the store, if it tells them.
    fn change_feed(&self) -> Option<&dyn ChangeFeed> {
        None
    }
}

/// A store of several machines, or one that others write to as well.
pub trait ReplicatedStore {
    /// The same store, whose requests wait for so many copies; nothing if this one does already.
    /// `ack` ≤ `from` ≤ [`Properties::copies`] holds.
    ///
    /// # Errors
    /// [`StoreError::Unacceptable`](crate::StoreError::Unacceptable) if it cannot wait for just so
    /// many.
    fn waiting_for(&self, copies: Copies) -> Result<Option<Arc<dyn Store>>> {
        let _ = copies;
        Ok(None)
    }

    /// A sequence number above that of each write before this call, if others write to the store.
    fn sequence_now(&self) -> Option<u64> {
        None
    }

    /// Parts of requests that were answered before, which came to light since the last call: of
    /// those whose timelines the store told so ([`Timeline::tell_later`]). Never waits.
    fn late_parts(&self) -> Vec<LateParts> {
        Vec::new()
    }
}

/// The store as it was at one moment. What it sees stays in the store for as long as it is held.
/// For threads that may block.
pub trait Snapshot: Send + Sync {
    /// The sequence number of the last write that it sees.
    fn sequence(&self) -> u64;

    /// As [`Store::get`], at that moment.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Result<Option<Object>>;

    /// As [`Store::scan`], at that moment.
    ///
    /// # Errors
    /// If the walk cannot begin.
    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>>;

    /// Walks the keys that begin with `prefix`, from the last to the first if `reverse`. Where the
    /// store was told which prefixes of keys are looked up, it has to be a whole one; few of them
    /// are then found as quickly as a key is.
    ///
    /// # Errors
    /// If the walk cannot begin.
    fn scan_prefix(&self, table: Table, prefix: &[u8], reverse: bool) -> Result<Box<dyn Scan>> {
        let last = prefix.iter().rposition(|byte| *byte < u8::MAX);
        let end = last.map(|last| [&prefix[..last], &[prefix[last] + 1]].concat());
        self.scan(table, Range { start: prefix, end: end.as_deref(), reverse })
    }
}

/// A walk over a range. It holds a snapshot, and a bounded amount of memory.
pub trait Scan: Send {
    /// The next entry, or nothing after the last.
    ///
    /// # Errors
    /// If the store cannot be read; the walk is over then.
    fn next(&mut self) -> Result<Option<(&[u8], Object)>>;

    /// As [`Scan::next`], without the value, which is not touched.
    ///
    /// # Errors
    /// As [`Scan::next`].
    fn next_head(&mut self) -> Result<Option<(&[u8], Head)>>;

    /// Sets whether the walk may wait for the medium from now on ([`Store::snapshot_in`]).
    fn set_mode(&mut self, mode: ReadMode) {
        let _ = mode;
    }

    /// The expiry of the entry that was returned last, in milliseconds since the Unix
    /// epoch; nothing for never, or if the store does not say.
    fn expires_at_ms(&self) -> Option<u64> {
        None
    }
}
