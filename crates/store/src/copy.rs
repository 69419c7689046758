//! Copying tables from one store to another, of whatever kinds: in key order, with notes in the
//! target of which source they are and how far they are, so that a copy that was cut short goes on
//! where it was, and with a comparison in the end.

use pellucid_account::Timeline;
use pellucid_clock::WallTime;

use crate::answer::Answer;
use crate::copy_notes::{Notes, Reached};
use crate::error::{Result, StoreError};
use crate::model::{Acknowledgement, Condition, Operation, PartOf, Table};
use crate::store::{Range, Scan, Store};

/// Entries that are written together, or are on their way at once.
const GROUP_ENTRIES_MAX: usize = 64;
/// Bytes of keys and values of such a group; one entry may be larger.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// Groups between two notes of how far it is.
const GROUPS_PER_NOTE: u64 = 64;
/// The difference that clocks may have by which two stores take an entry's time for over.
const CLOCKS_APART_MS: u64 = 5_000;
/// The time by which an entry's time may be over later in the copy than in the source: the rest of
/// it counts there from when the entry was written, which may take that long.
const WRITTEN_WITHIN_MS: u64 = 60_000;

/// The store that is copied.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The store.
    pub store: &'a dyn Store,
    /// A line of text that tells it from all other stores.
    pub identity: &'a str,
}

/// The table that is copied.
#[derive(Clone, Copy, Debug)]
pub struct CopiedTable<'a> {
    /// Its name, in both stores.
    pub name: &'a str,
    /// The rule for [`Store::table_in_parts`], if the table is in parts.
    pub part_of: Option<PartOf>,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Entries that were copied, or compared.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Entries that only one of the two had as they were compared, because their time was over, or
    /// nearly so.
    pub expired: u64,
    /// True if it went on where an earlier copy was cut short.
    pub resumed: bool,
}

/// An entry on its way.
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: Option<u64>,
}

impl Entry {
    fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }

    /// The write of it, with what is left of its time.
    fn operation(&self) -> Operation<'_> {
        let now_ms = WallTime::now().unix_ms();
        Operation {
            key: &self.key,
            value: Some(&self.value),
            condition: Condition::None,
            lifetime_ms: self.expires_at_ms.map(|at_ms| at_ms.saturating_sub(now_ms).max(1)),
        }
    }

    /// True if its time is over so many milliseconds from now.
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

/// The table of a store that is only read: nothing if it is known to have none of this name, which
/// must not make one there.
fn find(store: &dyn Store, table: CopiedTable<'_>) -> Result<Option<Table>> {
    match store.local().map(|local| local.table_names()).transpose()? {
        Some(names) if !names.iter().any(|name| name == table.name) => Ok(None),
        _ => open(store, table).map(Some),
    }
}

/// Walks a whole table from this key on.
fn scan(store: &dyn Store, table: Option<Table>, start: &[u8]) -> Result<Option<Box<dyn Scan>>> {
    table.map(|table| store.scan(table, all(start))).transpose()
}

/// Begins the copy of these tables, or goes on with one that was cut short. As long as
/// [`end_copy`] is not called, the target says of each table how far it is, and takes no other
/// source.
///
/// # Errors
/// [`StoreError::Unacceptable`] if the target has a copy of another source that was cut short;
/// nothing is changed then. What the target fails with.
pub fn begin_copy(source: &Source<'_>, to: &dyn Store, tables: &[CopiedTable<'_>]) -> Result<()> {
    let notes = Notes::of(to)?;
    let mut new = Vec::new();
    for table in tables {
        if notes.read(table.name, source.identity)?.is_none() {
            new.push(table.name);
        }
    }
    let nothing = Reached::Key(Vec::new());
    new.into_iter().try_for_each(|name| notes.write(name, source.identity, &nothing))
}

/// Ends the copy of these tables, done or given up: the next one begins at their first keys.
///
/// # Errors
/// Errors of the target.
pub fn end_copy(to: &dyn Store, tables: &[CopiedTable<'_>]) -> Result<()> {
    let notes = Notes::of(to)?;
    tables.iter().try_for_each(|table| notes.remove(table.name))
}

/// Copies what is still to be copied of a table, after [`begin_copy`]. `told` hears of it after
/// each group. Entries that the target has beside those of the source stay, and [`compare`] names
/// them.
///
/// # Errors
/// Errors of either store; called again, it goes on from there. As [`begin_copy`].
pub fn copy(
    source: &Source<'_>,
    to: &dyn Store,
    table: CopiedTable<'_>,
    told: &mut dyn FnMut(Copied),
) -> Result<Copied> {
    let (notes, identity) = (Notes::of(to)?, source.identity);
    let start = match notes.read(table.name, identity)? {
        Some(Reached::End) => return Ok(Copied { resumed: true, ..Copied::default() }),
        Some(Reached::Key(key)) => key,
        None => Vec::new(),
    };
    let mut copied = Copied { resumed: !start.is_empty(), ..Copied::default() };
    let (from, target) = (find(source.store, table)?, open(to, table)?);
    let mut scan = scan(source.store, from, &start)?;
    let mut group: Vec<Entry> = Vec::new();
    let (mut group_bytes, mut groups) = (0, 0_u64);
    loop {
        let entry = next(&mut scan)?;
        let part = |key: &[u8]| table.part_of.map(|part_of| key[..part_of(key)].to_vec());
        let is_full = group.len() >= GROUP_ENTRIES_MAX || group_bytes >= GROUP_BYTES_MAX as u64;
        let ends = match (&entry, group.last()) {
            (None, _) => true,
            (Some(entry), Some(last)) => is_full || part(&entry.key) != part(&last.key),
            (Some(_), None) => false,
        };
        if ends && !group.is_empty() {
            write(to, target, &group, table.part_of.is_some())?;
            copied.entries += group.len() as u64;
            copied.bytes += group_bytes;
            groups += 1;
            if groups.is_multiple_of(GROUPS_PER_NOTE) {
                let last = group.last().map(|entry| entry.key.clone()).unwrap_or_default();
                notes.write(table.name, identity, &Reached::Key(last))?;
            }
            told(copied);
            (group, group_bytes) = (Vec::new(), 0);
        }
        let Some(entry) = entry else { break };
        group_bytes += entry.bytes();
        group.push(entry);
    }
    notes.write(table.name, identity, &Reached::End)?;
    Ok(copied)
}

/// Compares a table of two stores, a source and its copy, entry by entry; the values are looked at,
/// times to live are not. Entries whose time is over meanwhile are no difference, and neither is
/// one whose time is over so soon that one of the two may take it for over already.
///
/// # Errors
/// [`StoreError::Corruption`] with the first key that differs; what one of the stores fails with.
pub fn compare(
    from: &dyn Store,
    to: &dyn Store,
    table: CopiedTable<'_>,
    told: &mut dyn FnMut(Copied),
) -> Result<Copied> {
    let mut one = scan(from, find(from, table)?, b"")?;
    let mut other = scan(to, find(to, table)?, b"")?;
    let differs = |key: &[u8], how: &str| {
        let (key, name) = (String::from_utf8_lossy(key), table.name);
        Err(StoreError::Corruption(format!("the two tables {name} differ: the key {key:?} {how}")))
    };
    let mut compared = Copied::default();
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

/// The next entry whose time is not over.
fn next(scan: &mut Option<Box<dyn Scan>>) -> Result<Option<Entry>> {
    let Some(scan) = scan else { return Ok(None) };
    loop {
        let Some((key, object)) = scan.next()? else { return Ok(None) };
        let (key, value) = (key.to_vec(), object.value.to_vec());
        let entry = Entry { key, value, expires_at_ms: scan.expires_at_ms() };
        if !entry.is_over_within(0) {
            return Ok(Some(entry));
        }
    }
}

/// Writes a group: as one batch where it is of one part, else one by one, all on their way at once.
fn write(to: &dyn Store, table: Table, group: &[Entry], is_one_part: bool) -> Result<()> {
    // A store of this process syncs all that it holds when it is closed; nodes elsewhere do not.
    let durable = match to.local() {
        Some(_) => Acknowledgement::Os,
        None => Acknowledgement::Disk,
    };
    let mut timeline = Timeline::off();
    if is_one_part {
        let operations: Vec<_> = group.iter().map(Entry::operation).collect();
        to.write(table, &operations, durable, &mut timeline).wait()?;
        return Ok(());
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    for entry in group {
        match to.write(table, &[entry.operation()], durable, &mut timeline) {
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
