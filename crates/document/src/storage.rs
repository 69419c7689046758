//! The table of the documents in a store. Only the process that serves the documents writes to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_account::Timeline;
use pellucid_store::{
    Acknowledgement, Answer, Object, Operation, Range, Scan, Store, Table, WriteOutcome,
    end_of_prefix,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::definition::CollectionDefinition;
use crate::error::{CancellationCheck, DocumentError, ErrorNumber, Result};
use crate::layout::{
    DefinitionKind, definition_key, definitions_prefix, documents_prefix, garbage_key,
    garbage_prefix, part_of,
};
use crate::lease::Lease;

/// The name of the table of all documents, index entries and definitions.
pub const TABLE: &str = "documents";

/// The most keys that one step of the removal of garbage removes.
const KEYS_AT_ONCE: usize = 1_000;

/// The documents between two checks for cancellation while they are counted.
const COUNTED_BETWEEN_CHECKS: u64 = 1_000;

/// The table, with the lease that permits writes to it.
pub(crate) struct Storage {
    store: Arc<dyn Store>,
    table: Table,
    /// The lease of the documents, if other processes write to the store as well.
    lease: Option<Arc<Lease>>,
    /// True if there may be garbage to remove.
    may_have_garbage: AtomicBool,
}

impl Storage {
    pub(crate) fn open(store: Arc<dyn Store>, lease: Option<Arc<Lease>>) -> Result<Storage> {
        let table = store.table_in_parts(TABLE, part_of)?;
        Ok(Storage { store, table, lease, may_have_garbage: AtomicBool::new(true) })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn table(&self) -> Table {
        self.table
    }

    /// A reader of the table.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { store: &*self.store, table: self.table }
    }

    /// Checks that this process serves the documents.
    pub(crate) fn may_write(&self) -> Result<()> {
        match &self.lease {
            Some(lease) if !lease.is_ours() => Err(lease.refusal()),
            _ => Ok(()),
        }
    }

    /// Lets another process serve the documents.
    pub(crate) fn release(&self) {
        if let Some(lease) = &self.lease {
            lease.release();
        }
    }

    /// Stops writing, and lets another process serve the documents only once the writes under way
    /// are over for certain.
    pub(crate) fn abandon(&self) {
        if let Some(lease) = &self.lease {
            lease.abandon();
        }
    }

    /// The newest sequence number of the store's changes; zero if it tells none.
    pub(crate) fn newest_sequence(&self) -> u64 {
        let feed = self.store.local().and_then(|local| local.change_feed());
        feed.map_or(0, |feed| feed.newest_sequence())
    }

    /// The object under a key.
    pub(crate) fn get(&self, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>> {
        self.store.get(self.table, key, timeline)
    }

    /// Walks all keys with `prefix`, from `start` on.
    pub(crate) fn scan(&self, prefix: &[u8], start: &[u8]) -> Result<Box<dyn Scan>> {
        self.reader().scan(prefix, start)
    }

    /// Writes, and waits until it is acknowledged.
    pub(crate) fn write(
        &self,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<WriteOutcome> {
        self.may_write()?;
        let mut timeline = Timeline::off();
        let written =
            self.store.write(self.table, operations, acknowledgement, &mut timeline).wait()?;
        Ok(written)
    }

    /// Writes a collection's definition, and marks the prefixes in `garbage` as garbage, in one
    /// batch.
    pub(crate) fn change_collection(
        &self,
        definition: &CollectionDefinition,
        garbage: &[Vec<u8>],
    ) -> Result<()> {
        let key = definition_key(DefinitionKind::Collection, definition.id);
        self.change(&[(key, Some(json_of(definition)?))], garbage)
    }

    pub(crate) fn put_definition(
        &self,
        kind: DefinitionKind,
        id: u64,
        definition: &impl Serialize,
    ) -> Result<()> {
        let (key, value) = (definition_key(kind, id), json_of(definition)?);
        self.write(&[Operation::plain(&key, Some(&value))], Acknowledgement::Os).map(drop)
    }

    /// Stores the ceiling of the numbers, also on a full disk, because the removal of a
    /// collection's documents needs a number.
    pub(crate) fn put_ticks(&self, ceiling: u64) -> Result<()> {
        let (key, value) = (definition_key(DefinitionKind::Ticks, 0), json_of(&ceiling)?);
        self.give_up(&[Operation::plain(&key, Some(&value))], Acknowledgement::Os).map(drop)
    }

    /// Writes or removes definitions, and marks the prefixes in `garbage` as garbage, in one batch,
    /// which is on the disk on return.
    pub(crate) fn change(
        &self,
        definitions: &[(Vec<u8>, Option<Vec<u8>>)],
        garbage: &[Vec<u8>],
    ) -> Result<()> {
        let garbage: Vec<_> = garbage.iter().map(|prefix| garbage_key(prefix)).collect();
        let definitions =
            definitions.iter().map(|(key, value)| Operation::plain(key, value.as_deref()));
        let garbage = garbage.iter().map(|key| Operation::plain(key, Some(&[])));
        let gives_up = garbage.len() > 0;
        let operations: Vec<_> = definitions.chain(garbage).collect();
        let written = match gives_up {
            true => self.give_up(&operations, Acknowledgement::Disk),
            false => self.write(&operations, Acknowledgement::Disk),
        };
        if gives_up {
            // The removal looks for garbage once per call of `expect_garbage`, so the call comes
            // after the write. A write that failed may still have taken effect.
            self.expect_garbage();
        }
        written.map(|_| ())
    }

    /// Writes a batch that a full disk does not refuse, if the store keeps a reserve.
    fn give_up(
        &self,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<WriteOutcome> {
        let Some(local) = self.store.local() else {
            return self.write(operations, acknowledgement);
        };
        self.may_write()?;
        Ok(local.give_up(self.table, operations, acknowledgement)?)
    }

    /// Makes the next removal look for garbage, which this process or another may have left.
    pub(crate) fn expect_garbage(&self) {
        self.may_have_garbage.store(true, Ordering::Release);
    }

    /// Removes some garbage. Returns true if there may be more. It does not read the store if
    /// nothing became garbage since the last look found none: a scan sorts the memtable, and this
    /// is called every second.
    pub(crate) fn remove_garbage(&self) -> Result<bool> {
        if !self.may_have_garbage.swap(false, Ordering::AcqRel) {
            return Ok(false);
        }
        let removed = self.remove_some_garbage();
        if !matches!(removed, Ok(false)) {
            self.expect_garbage();
        }
        removed
    }

    fn remove_some_garbage(&self) -> Result<bool> {
        let prefix = garbage_prefix();
        let Some(mark) = self.keys(&prefix, &prefix, 1)?.pop() else { return Ok(false) };
        // A damaged position does not stop the removal, which then begins at the first key again.
        let position = self.get(&mark, &mut Timeline::off()).wait().ok().flatten();
        let start = position.and_then(|object| object.value.read(<[u8]>::to_vec).ok());
        let keys = self.keys(&mark[prefix.len()..], &start.unwrap_or_default(), KEYS_AT_ONCE)?;
        if !keys.is_empty() {
            self.remove(&keys)?;
        }
        // The marks are in another part than these keys, and a batch is within one part.
        match keys.get(KEYS_AT_ONCE - 1) {
            // The next step begins here: a ring fails at a page with too many removed keys.
            Some(last) => {
                self.give_up(&[Operation::plain(&mark, Some(last))], Acknowledgement::Os)?
            }
            // Marks of longer prefixes are for keys that are removed as well.
            None => self.remove(&self.keys(&mark, &mark, KEYS_AT_ONCE)?)?,
        };
        Ok(true)
    }

    /// The first keys with `prefix`, from `start` on. Only heads are read, so that a damaged value
    /// does not stop the removal.
    fn keys(&self, prefix: &[u8], start: &[u8], count_max: usize) -> Result<Vec<Vec<u8>>> {
        let mut scan = self.scan(prefix, start)?;
        let mut keys = Vec::new();
        while keys.len() < count_max {
            let Some((key, _)) = scan.next_head()? else { break };
            keys.push(key.to_vec());
        }
        Ok(keys)
    }

    fn remove(&self, keys: &[Vec<u8>]) -> Result<WriteOutcome> {
        let operations: Vec<_> = keys.iter().map(|key| Operation::plain(key, None)).collect();
        self.write(&operations, Acknowledgement::Os)
    }
}

pub(crate) fn json_of(definition: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(definition)
        .map_err(|error| DocumentError::new(ErrorNumber::INTERNAL, error.to_string()))
}

/// A reader of the table, before or after the documents are opened.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    store: &'a dyn Store,
    table: Table,
}

impl<'a> Reader<'a> {
    /// Makes a reader of a store; creates the table if there is none.
    pub(crate) fn of(store: &'a dyn Store) -> Result<Reader<'a>> {
        Ok(Reader { store, table: store.table_in_parts(TABLE, part_of)? })
    }

    /// Walks all keys with `prefix`, from `start` on.
    pub(crate) fn scan(&self, prefix: &[u8], start: &[u8]) -> Result<Box<dyn Scan>> {
        let end = end_of_prefix(prefix);
        let range = Range { start: start.max(prefix), end: end.as_deref(), reverse: false };
        Ok(self.store.scan(self.table, range)?)
    }

    pub(crate) fn definitions<T: DeserializeOwned>(&self, kind: DefinitionKind) -> Result<Vec<T>> {
        let prefix = definitions_prefix(kind);
        let mut scan = self.scan(&prefix, &prefix)?;
        let mut definitions = Vec::new();
        while let Some((_, object)) = scan.next()? {
            let parsed = serde_json::from_slice(&object.value);
            definitions.push(parsed.map_err(|error| {
                let message = format!("a definition in the store makes no sense: {error}");
                DocumentError::new(ErrorNumber::INTERNAL, message)
            })?);
        }
        Ok(definitions)
    }

    /// The number of documents, and the highest sequence number among them. An error of
    /// `check_cancelled` ends the count.
    pub(crate) fn count(
        &self,
        storage: u64,
        check_cancelled: CancellationCheck<'_>,
    ) -> Result<(u64, u64)> {
        let prefix = documents_prefix(storage);
        let mut scan = self.scan(&prefix, &prefix)?;
        let (mut count, mut sequence) = (0_u64, 0);
        while let Some((_, head)) = scan.next_head()? {
            if count.is_multiple_of(COUNTED_BETWEEN_CHECKS) {
                check_cancelled()?;
            }
            count += 1;
            sequence = head.sequence.max(sequence);
        }
        Ok((count, sequence))
    }

    /// The prefixes that are marked as garbage.
    pub(crate) fn garbage(&self) -> Result<Vec<Vec<u8>>> {
        let mark = garbage_prefix();
        let mut scan = self.scan(&mark, &mark)?;
        let mut prefixes = Vec::new();
        while let Some((key, _)) = scan.next_head()? {
            prefixes.push(key[mark.len()..].to_vec());
        }
        Ok(prefixes)
    }
}
