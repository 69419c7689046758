//! The interface that every kind of store implements.

use std::any::Any;
use std::sync::Arc;

use pellucid_account::{Activity, LateParts, PARTS_MAX, Timeline};

use crate::answer::Answer;
use crate::backups::Backups;
use crate::changes::ChangeFeed;
use crate::error::Result;
use crate::model::{
    Acknowledgement, Head, Note, Object, Operation, PartitionFunction, ReadMode, ReplicaQuorum,
    Table, WriteOutcome,
};
use crate::workers::Workers;

/// A range of keys, in the order of their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The first key of the range.
    pub start: &'a [u8],
    /// The end of the range, which is not in it; `None` for the end of the table.
    pub end: Option<&'a [u8]>,
    /// True if the range is scanned from its last key to its first.
    pub reverse: bool,
}

/// The smallest key above all keys with `prefix`; `None` if there is none.
#[must_use]
pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    Some([&prefix[..last], &[prefix[last] + 1]].concat())
}

/// The properties of a store, which do not change while it is open.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// The number of copies of each entry that the store keeps.
    pub copies: u32,
    /// The most bytes of a value.
    pub value_bytes_max: usize,
    /// The names of the parts into which the store splits the phase `execute`, by slot.
    pub part_names: &'static [&'static str; PARTS_MAX],
    /// True if a scan waits for other machines or for disks, so that it has to run on
    /// [`Store::workers`].
    pub ranges_wait: bool,
}

/// An ordered key space in named tables. Methods with a timeline add the time of the store's parts
/// of the phase `execute` to it. Kinds with further functions return them by [`Store::noting`],
/// [`Store::local`] and [`Store::replicated`].
pub trait Store: Any + Send + Sync {
    /// Returns the table of this name; creates it if there is none.
    ///
    /// # Errors
    /// If the store cannot be written to, or has no room for a further table.
    fn table(&self, name: &str) -> Result<Table>;

    /// As [`Store::table`], for a table that is divided into parts: keys with the same prefix by
    /// `part_of` are one part. On every kind of store, a batch within one part is atomic, with its
    /// conditions. `part_of` must be the same at each opening of the table, and no key of another
    /// part may sort between the keys of a part.
    ///
    /// # Errors
    /// Those of [`Store::table`].
    fn table_in_parts(&self, name: &str, part_of: PartitionFunction) -> Result<Table> {
        let _ = part_of;
        self.table(name)
    }

    /// Reads the newest object of a key.
    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>>;

    /// Reads the newest head of a key, without its value.
    fn head(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>>;

    /// Writes all of `operations`, or none of them if a condition does not hold.
    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<WriteOutcome>;

    /// Begins a scan over the present state of a range.
    ///
    /// # Errors
    /// If the scan cannot begin.
    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>>;

    /// Takes a snapshot: the present state of the store, for reads that belong together.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// As [`Store::snapshot`], for reads in `mode`. With [`ReadMode::InMemory`], reads of the
    /// snapshot fail with [`StoreError::NotInMemory`](crate::StoreError::NotInMemory) where they
    /// would wait for the disk, if the store can tell.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn snapshot_in(&self, mode: ReadMode) -> Result<Arc<dyn Snapshot>> {
        let _ = mode;
        self.snapshot()
    }

    /// The properties of the store.
    fn properties(&self) -> Properties;

    /// Metrics of the store, as names and values. Each name ends in its unit, and those of counters
    /// end in `_total`.
    fn figures(&self) -> Vec<(&'static str, u64)>;

    /// Closes the store. All acknowledged writes are on the disk afterwards.
    ///
    /// # Errors
    /// If they could not be written to the disk.
    fn close(&self) -> Result<()>;

    /// The threads to which requests are handed over, if the store has any.
    fn workers(&self) -> Option<&Workers> {
        None
    }

    /// True if a write of these operations may go to another thread, for which their keys and
    /// values are copied.
    fn may_copy(&self, operations: &[Operation<'_>]) -> bool {
        let _ = operations;
        self.workers().is_some()
    }

    /// The store, if it keeps notes.
    fn noting(&self) -> Option<&dyn NotingStore> {
        None
    }

    /// The store, if its data is in this process.
    fn local(&self) -> Option<&dyn LocalStore> {
        None
    }

    /// The store, if it keeps copies or other processes write to it as well.
    fn replicated(&self) -> Option<&dyn ReplicatedStore> {
        None
    }
}

/// A store that keeps a note with each entry: a few bytes that can be read without the value.
pub trait NotingStore {
    /// As [`Store::head`], with the note of [`NotingStore::write_noted`]. The note is empty if the
    /// entry has none.
    fn head_noted(
        &self,
        table: Table,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Answer<Option<(Head, Note)>>;

    /// As [`Store::write`], with a note for each operation. The notes of removals are empty.
    fn write_noted(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        notes: &[Note],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<WriteOutcome>;
}

/// A store in this process, with its memory, files and background jobs.
pub trait LocalStore {
    /// The names of all existing tables, in no particular order.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn table_names(&self) -> Result<Vec<String>>;

    /// The background jobs of the store, if they are accounted for.
    fn activity(&self) -> Option<Activity> {
        None
    }

    /// True if recent reads were answered from memory, so that a thread that must not block may
    /// make a few reads. [`Store::get`] checks that itself.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Calls `reads` to make a few reads that belong together on a thread that must not block.
    /// `reads` gets the mode for its [snapshot](Store::snapshot_in). A read that would have to wait
    /// for the disk fails with [`StoreError::NotInMemory`](crate::StoreError::NotInMemory), and
    /// `reads` then returns false. Returns false in that case, and also, without calling `reads`,
    /// if the store does not answer from memory at present. The caller then has to read the data
    /// again on a thread that may block.
    fn all_in_memory(&self, reads: &mut dyn FnMut(ReadMode) -> bool) -> bool {
        let _ = reads;
        false
    }

    /// Frees the disk space of all removed and overwritten entries, on the calling thread. It may
    /// take minutes; requests are served meanwhile.
    ///
    /// # Errors
    /// If the store cannot be read or written, or is closed meanwhile.
    fn compact(&self) -> Result<()>;

    /// As [`Store::write`], for a batch that marks data for a later removal. It also succeeds on a
    /// full disk, by a reserve. It blocks.
    ///
    /// # Errors
    /// Those of a write.
    fn give_up(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<WriteOutcome>;

    /// The backups of the store, if it supports them.
    fn backups(&self) -> Option<&dyn Backups> {
        None
    }

    /// The change feed of the store, if it has one.
    fn change_feed(&self) -> Option<&dyn ChangeFeed> {
        None
    }
}

/// A store of several machines, or one to which other processes write as well.
pub trait ReplicatedStore {
    /// The same store, with requests that wait for this number of copies; `None` if this one does
    /// already. The caller ensures `ack` ≤ `from` ≤ [`Properties::copies`].
    ///
    /// # Errors
    /// [`StoreError::Unacceptable`](crate::StoreError::Unacceptable) if the store cannot wait for
    /// exactly this number.
    fn waiting_for(&self, copies: ReplicaQuorum) -> Result<Option<Arc<dyn Store>>> {
        let _ = copies;
        Ok(None)
    }

    /// A sequence number above those of all writes before this call, if other processes write to
    /// the store.
    fn sequence_now(&self) -> Option<u64> {
        None
    }

    /// Parts of requests that became known after their answers, since the last call. They belong to
    /// requests whose timelines the store has announced them to ([`Timeline::tell_later`]). Never
    /// waits.
    fn late_parts(&self) -> Vec<LateParts> {
        Vec::new()
    }
}

/// The state of the store at one moment. The store keeps that state as long as the snapshot exists.
/// Reads of it may block.
pub trait Snapshot: Send + Sync {
    /// The sequence number of the last write in the snapshot.
    fn sequence(&self) -> u64;

    /// As [`Store::get`], in the snapshot.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Result<Option<Object>>;

    /// As [`Store::scan`], in the snapshot.
    ///
    /// # Errors
    /// If the scan cannot begin.
    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>>;

    /// Scans the keys that begin with `prefix`, from the last to the first if `reverse`. If the
    /// store was opened with a rule for the prefixes of the table's keys, `prefix` has to be a
    /// whole prefix by that rule. A few entries are then found as fast as a single key.
    ///
    /// # Errors
    /// If the scan cannot begin.
    fn scan_prefix(&self, table: Table, prefix: &[u8], reverse: bool) -> Result<Box<dyn Scan>> {
        let end = end_of_prefix(prefix);
        self.scan(table, Range { start: prefix, end: end.as_deref(), reverse })
    }
}

/// A scan over a range. It holds a snapshot, and a bounded amount of memory.
pub trait Scan: Send {
    /// The next entry, or `None` after the last.
    ///
    /// # Errors
    /// If the store cannot be read. The scan is over then.
    fn next(&mut self) -> Result<Option<(&[u8], Object)>>;

    /// As [`Scan::next`], without reading the value.
    ///
    /// # Errors
    /// Those of [`Scan::next`].
    fn next_head(&mut self) -> Result<Option<(&[u8], Head)>>;

    /// Releases what the scan can find again, for a caller that may not need the next entry for a
    /// long time.
    fn release(&mut self) {}

    /// The expiry of the entry that was returned last, in milliseconds since the Unix epoch; `None`
    /// if it does not expire, or if the store does not tell.
    fn expires_at_ms(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::end_of_prefix;

    #[test]
    fn ends_of_prefixes() {
        assert_eq!(end_of_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(end_of_prefix(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(end_of_prefix(&[255]), None);
    }
}
