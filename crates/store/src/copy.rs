//! Copying of tables from one store to another, of any kinds. A table is copied in key order. Notes
//! in the target record the source and the progress, so that an interrupted copy can be resumed. A
//! comparison of both tables checks the copy.

use std::hash::{BuildHasher, RandomState};

use pellucid_account::Timeline;
use pellucid_clock::WallTime;

use crate::answer::Answer;
use crate::copy_notes::{CopyPosition, NOTES_TABLE, Notes};
use crate::error::{Result, StoreError};
use crate::model::{Acknowledgement, Operation, PartitionFunction, Table};
use crate::store::{Range, Scan, Store};

/// The most entries of a group, which is written together or at the same time.
const GROUP_ENTRIES_MAX: usize = 64;
/// The most bytes of keys and values of a group; one entry alone may have more.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// The number of groups between two notes of the progress.
const GROUPS_PER_NOTE: u64 = 64;
/// The most by which the clocks that decide on expiry may differ between the two stores.
const CLOCKS_APART_MS: u64 = 5_000;
/// The most by which an entry may expire later in the copy than in the source: its remaining
/// lifetime counts from the write to the copy, which may take that long.
const WRITTEN_WITHIN_MS: u64 = 60_000;

/// The store that is copied.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The store.
    pub store: &'a dyn Store,
    /// A line of text that identifies the store among all others.
    pub identity: &'a str,
}

/// The table that is copied.
#[derive(Clone, Copy, Debug)]
pub struct CopiedTable<'a> {
    /// Its name, in both stores.
    pub name: &'a str,
    /// The rule for [`Store::table_in_parts`], if the table is in parts.
    pub part_of: Option<PartitionFunction>,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCopyProgress {
    /// The number of entries that were copied or compared.
    pub entries: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
    /// The number of entries that the comparison found in only one store because they had expired,
    /// or were about to.
    pub expired: u64,
    /// True if an interrupted copy was resumed.
    pub resumed: bool,
}

/// An entry that is copied or compared.
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: Option<u64>,
}

impl Entry {
    fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }

    /// The operation that writes the entry, with its remaining lifetime.
    fn operation(&self) -> Operation<'_> {
        let now_ms = WallTime::now().unix_ms();
        Operation {
            lifetime_ms: self.expires_at_ms.map(|at_ms| at_ms.saturating_sub(now_ms).max(1)),
            ..Operation::plain(&self.key, Some(&self.value))
        }
    }

    /// True if the entry expires within `ms` milliseconds from now.
    fn is_over_within(&self, ms: u64) -> bool {
        let then_ms = WallTime::now().unix_ms().saturating_add(ms);
        self.expires_at_ms.is_some_and(|at_ms| at_ms <= then_ms)
    }
}

fn open(store: &dyn Store, table: CopiedTable<'_>) -> Result<Table> {
    match table.part_of {
        Some(part_of) => store.table_in_parts(table.name, part_of),
        None => store.table(table.name),
    }
}

fn all<'a>(start: &'a [u8]) -> Range<'a> {
    Range { start, end: None, reverse: false }
}

/// The table in a store that is only read; `None` if the store has no table of this name. It avoids
/// to create one where the store tells its tables.
fn find(store: &dyn Store, table: CopiedTable<'_>) -> Result<Option<Table>> {
    match store.local().map(|local| local.table_names()).transpose()? {
        Some(names) if !names.iter().any(|name| name == table.name) => Ok(None),
        _ => open(store, table).map(Some),
    }
}

/// Begins a scan of a table, from the key `start` to the end.
fn scan(store: &dyn Store, table: Option<Table>, start: &[u8]) -> Result<Option<Box<dyn Scan>>> {
    table.map(|table| store.scan(table, all(start))).transpose()
}

/// The first of these tables in which the target has entries, unless a copy has begun.
///
/// # Errors
/// Those of [`begin_copy`].
pub fn occupied_table<'a>(
    source: &Source<'_>,
    to: &dyn Store,
    tables: &[CopiedTable<'a>],
) -> Result<Option<&'a str>> {
    let notes = Notes::of(to)?;
    let mut has_begun = false;
    for table in tables {
        has_begun |= notes.read(table.name, source.identity)?.is_some();
    }
    if has_begun { Ok(None) } else { filled_table(to, tables) }
}

/// The first of these tables in which a store has entries.
///
/// # Errors
/// Errors of the store.
pub fn filled_table<'a>(store: &dyn Store, tables: &[CopiedTable<'a>]) -> Result<Option<&'a str>> {
    for table in tables {
        if next(&mut scan(store, find(store, *table)?, b"")?)?.is_some() {
            return Ok(Some(table.name));
        }
    }
    Ok(None)
}

/// True if both are the same store, as by two nodes of a ring. It writes a note to `one`, and
/// removes it again.
///
/// # Errors
/// Errors of either store.
pub fn is_same(one: &dyn Store, other: &dyn Store) -> Result<bool> {
    let (notes, seen) = (Notes::of(one)?, Notes::of(other)?);
    let name = format!("probe {:016x}", RandomState::new().hash_one(NOTES_TABLE));
    notes.write(&name, "", &CopyPosition::End)?;
    let is_seen = seen.has(&name);
    notes.remove(&name)?;
    is_seen
}

/// Removes the notes of all copies to a store, also those of tables that it does not have.
///
/// # Errors
/// Errors of the store.
pub fn give_up_copies(to: &dyn Store) -> Result<()> {
    empty(to, CopiedTable { name: NOTES_TABLE, part_of: None })
}

/// Begins the copy of these tables, or resumes an interrupted one. Until [`end_copy`] is called,
/// the target keeps a note of the progress of each table, and accepts no other source.
///
/// # Errors
/// [`StoreError::Unacceptable`] if the target has an interrupted copy of another source; nothing is
/// changed then. Errors of the target.
pub fn begin_copy(source: &Source<'_>, to: &dyn Store, tables: &[CopiedTable<'_>]) -> Result<()> {
    let notes = Notes::of(to)?;
    let mut new = Vec::new();
    for table in tables {
        if notes.read(table.name, source.identity)?.is_none() {
            new.push(table.name);
        }
    }
    let nothing = CopyPosition::Key(Vec::new());
    new.into_iter().try_for_each(|name| notes.write(name, source.identity, &nothing))
}

/// Ends the copy of these tables, whether it is finished or not. The next copy begins at their
/// first keys.
///
/// # Errors
/// Errors of the target.
pub fn end_copy(to: &dyn Store, tables: &[CopiedTable<'_>]) -> Result<()> {
    let notes = Notes::of(to)?;
    tables.iter().try_for_each(|table| notes.remove(table.name))
}

/// Copies the rest of a table, after [`begin_copy`]. Calls `told` with the progress after each
/// group. Other entries in the target stay there, and [`compare`] reports the first of them.
///
/// # Errors
/// Errors of either store; a further call resumes the copy. Those of [`begin_copy`].
pub fn copy(
    source: &Source<'_>,
    to: &dyn Store,
    table: CopiedTable<'_>,
    told: &mut dyn FnMut(TableCopyProgress),
) -> Result<TableCopyProgress> {
    let (notes, identity) = (Notes::of(to)?, source.identity);
    let start = match notes.read(table.name, identity)? {
        Some(CopyPosition::End) => {
            return Ok(TableCopyProgress { resumed: true, ..TableCopyProgress::default() });
        }
        Some(CopyPosition::Key(key)) => key,
        None => Vec::new(),
    };
    let mut copied =
        TableCopyProgress { resumed: !start.is_empty(), ..TableCopyProgress::default() };
    let (from, target) = (find(source.store, table)?, open(to, table)?);
    let mut scan = scan(source.store, from, &start)?;
    let mut group: Vec<Entry> = Vec::new();
    let (mut group_bytes, mut groups) = (0_u64, 0_u64);
    loop {
        let entry = next(&mut scan)?;
        let part = |key: &[u8]| table.part_of.map(|part_of| key[..part_of(key)].to_vec());
        let is_full = |next: &Entry| {
            group.len() >= GROUP_ENTRIES_MAX || group_bytes + next.bytes() > GROUP_BYTES_MAX as u64
        };
        let ends = match (&entry, group.last()) {
            (None, _) => true,
            (Some(entry), Some(last)) => is_full(entry) || part(&entry.key) != part(&last.key),
            (Some(_), None) => false,
        };
        if ends && !group.is_empty() {
            let operations: Vec<_> = group.iter().map(Entry::operation).collect();
            write(to, target, &operations, table.part_of.is_some())?;
            copied.entries += group.len() as u64;
            copied.bytes += group_bytes;
            groups += 1;
            if groups.is_multiple_of(GROUPS_PER_NOTE) {
                let last = group.last().map(|entry| entry.key.clone()).unwrap_or_default();
                notes.write(table.name, identity, &CopyPosition::Key(last))?;
            }
            told(copied);
            (group, group_bytes) = (Vec::new(), 0);
        }
        let Some(entry) = entry else { break };
        group_bytes += entry.bytes();
        group.push(entry);
    }
    notes.write(table.name, identity, &CopyPosition::End)?;
    Ok(copied)
}

/// Compares the keys and values of a table in two stores, a source and its copy, but not the
/// lifetimes. Entries that have expired, or are so near to it that one of the stores may count them
/// as expired, are no difference.
///
/// # Errors
/// [`StoreError::Corruption`] with the first key that differs. Errors of either store.
pub fn compare(
    from: &dyn Store,
    to: &dyn Store,
    table: CopiedTable<'_>,
    told: &mut dyn FnMut(TableCopyProgress),
) -> Result<TableCopyProgress> {
    let mut one = scan(from, find(from, table)?, b"")?;
    let mut other = scan(to, find(to, table)?, b"")?;
    let differs = |key: &[u8], how: &str| {
        let (key, name) = (String::from_utf8_lossy(key), table.name);
        Err(StoreError::Corruption(format!("the two tables {name} differ: the key {key:?} {how}")))
    };
    let mut compared = TableCopyProgress::default();
    let (mut left, mut right) = (next(&mut one)?, next(&mut other)?);
    loop {
        let (lone, is_of_source) = match (&left, &right) {
            (None, None) => return Ok(compared),
            (Some(mine), Some(yours)) if mine.key == yours.key => {
                if mine.value != yours.value {
                    return differs(&mine.key, "has two values");
                }
                compared.entries += 1;
                compared.bytes += mine.bytes();
                if compared.entries.is_multiple_of(GROUP_ENTRIES_MAX as u64) {
                    told(compared);
                }
                (left, right) = (next(&mut one)?, next(&mut other)?);
                continue;
            }
            (Some(mine), Some(yours)) if mine.key > yours.key => (yours, false),
            (Some(mine), _) => (mine, true),
            (None, Some(yours)) => (yours, false),
        };
        let soon_ms = if is_of_source { CLOCKS_APART_MS } else { WRITTEN_WITHIN_MS };
        if !lone.is_over_within(soon_ms) {
            let place = if is_of_source { "source" } else { "copy" };
            return differs(&lone.key, &format!("is in the {place} alone"));
        }
        compared.expired += 1;
        if is_of_source {
            left = next(&mut one)?;
        } else {
            right = next(&mut other)?;
        }
    }
}

/// The next entry that has not expired.
fn next(scan: &mut Option<Box<dyn Scan>>) -> Result<Option<Entry>> {
    let Some(scan) = scan else { return Ok(None) };
    loop {
        let Some((key, object)) = scan.next()? else { return Ok(None) };
        let (key, value) = (key.to_vec(), object.value.read(<[u8]>::to_vec)?);
        let entry = Entry { key, value, expires_at_ms: scan.expires_at_ms() };
        if !entry.is_over_within(0) {
            return Ok(Some(entry));
        }
    }
}

/// Removes all entries of a table.
///
/// # Errors
/// Errors of the store; some entries may be removed then.
pub fn empty(store: &dyn Store, table: CopiedTable<'_>) -> Result<()> {
    let Some(place) = find(store, table)? else { return Ok(()) };
    let part = |key: &[u8]| table.part_of.map(|part_of| key[..part_of(key)].to_vec());
    let mut scan = store.scan(place, all(b""))?;
    let mut group: Vec<Vec<u8>> = Vec::new();
    loop {
        let key = scan.next_head()?.map(|(key, _)| key.to_vec());
        let ends = match (&key, group.last()) {
            (None, _) => true,
            (Some(key), Some(last)) => group.len() >= GROUP_ENTRIES_MAX || part(key) != part(last),
            (Some(_), None) => false,
        };
        if ends {
            let removals: Vec<_> = group.iter().map(|key| Operation::plain(key, None)).collect();
            write(store, place, &removals, table.part_of.is_some())?;
            group.clear();
        }
        let Some(key) = key else { return Ok(()) };
        group.push(key);
    }
}

/// Writes a group: as one batch if it is within one part, otherwise as single writes at the same
/// time.
fn write(to: &dyn Store, table: Table, group: &[Operation<'_>], is_one_part: bool) -> Result<()> {
    if group.is_empty() {
        return Ok(());
    }
    // A store in this process syncs all its data when it is closed; remote nodes do not.
    let durable = match to.local() {
        Some(_) => Acknowledgement::Os,
        None => Acknowledgement::Disk,
    };
    let mut timeline = Timeline::off();
    if is_one_part {
        to.write(table, group, durable, &mut timeline).wait()?;
        return Ok(());
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    for operation in group {
        match to.write(table, std::slice::from_ref(operation), durable, &mut timeline) {
            Answer::Now(result) => {
                result?;
            }
            Answer::Later(pending) => {
                let sender = sender.clone();
                pending.when_ready(move |arrival| {
                    // If the receiver is gone, another entry failed, and the copy with it.
                    let _ = sender.send(arrival.result);
                });
            }
        }
    }
    drop(sender);
    receiver.into_iter().try_for_each(|result| result.map(|_| ()))
}
