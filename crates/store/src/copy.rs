//! Copying a table from one store to another, of whatever kinds: in key order, with a note in the
//! target of how far it is, so that a copy that was cut short goes on where it was, and with a
//! comparison in the end.

use pellucid_account::Timeline;
use pellucid_clock::WallTime;

use crate::answer::Answer;
use crate::error::{Result, StoreError};
use crate::model::{Acknowledgement, Condition, Operation, PartOf, Table};
use crate::store::{Range, Scan, Store};

/// The table of the target that says how far each copy is.
const PROGRESS_TABLE: &str = "pellucid copies";
/// Entries that are written together, or are on their way at once.
const GROUP_ENTRIES_MAX: usize = 64;
/// Bytes of keys and values of such a group; one entry may be larger.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// Groups between two notes of how far it is.
const GROUPS_PER_NOTE: u64 = 64;

/// Which table is copied.
#[derive(Clone, Copy, Debug)]
pub struct CopiedTable<'a> {
    /// Its name, in both stores.
    pub name: &'a str,
    /// What [`Store::table_in_parts`] is to be told, if the table is in parts.
    pub part_of: Option<PartOf>,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Entries that were copied, or compared.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Whether it went on where an earlier copy was cut short.
    pub resumed: bool,
}

/// An entry on its way.
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    lifetime_ms: Option<u64>,
}

impl Entry {
    fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }

    fn operation(&self) -> Operation<'_> {
        Operation {
            key: &self.key,
            value: Some(&self.value),
            condition: Condition::None,
            lifetime_ms: self.lifetime_ms,
        }
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

/// Copies a table. `told` hears of it after each group. Entries that the target has beside those of
/// the source stay, and [`compare`] names them.
///
/// # Errors
/// What one of the stores fails with; called again, it goes on from there.
pub fn copy(
    from: &dyn Store,
    to: &dyn Store,
    table: CopiedTable<'_>,
    told: &mut dyn FnMut(Copied),
) -> Result<Copied> {
    let (source, target) = (open(from, table)?, open(to, table)?);
    let progress = to.table(PROGRESS_TABLE)?;
    let name = table.name.as_bytes();
    let reached = to.get(progress, name, &mut Timeline::off()).wait()?;
    let start = reached.map(|object| object.value.to_vec());
    let mut copied = Copied { resumed: start.is_some(), ..Copied::default() };
    let start = start.unwrap_or_default();
    let mut scan = from.scan(source, all(&start))?;
    let mut group: Vec<Entry> = Vec::new();
    let (mut group_bytes, mut groups) = (0, 0_u64);
    loop {
        let entry = next(&mut *scan)?;
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
                note(to, progress, name, Some(&last))?;
            }
            told(copied);
            (group, group_bytes) = (Vec::new(), 0);
        }
        let Some(entry) = entry else { break };
        group_bytes += entry.bytes();
        group.push(entry);
    }
    note(to, progress, name, None)?;
    Ok(copied)
}

/// Compares a table of two stores entry by entry; the values are looked at, times to live are not.
///
/// # Errors
/// [`StoreError::Corruption`] with the first key that differs; what one of the stores fails with.
pub fn compare(
    from: &dyn Store,
    to: &dyn Store,
    table: CopiedTable<'_>,
    told: &mut dyn FnMut(Copied),
) -> Result<Copied> {
    let (source, target) = (open(from, table)?, open(to, table)?);
    let mut one = from.scan(source, all(b""))?;
    let mut other = to.scan(target, all(b""))?;
    let mut compared = Copied::default();
    loop {
        let (left, right) = (next(&mut *one)?, next(&mut *other)?);
        let same = match (&left, &right) {
            (None, None) => return Ok(compared),
            (Some(left), Some(right)) => left.key == right.key && left.value == right.value,
            _ => false,
        };
        let key = left.as_ref().or(right.as_ref()).map(|entry| entry.key.clone());
        if !same {
            let key = String::from_utf8_lossy(&key.unwrap_or_default()).into_owned();
            return Err(StoreError::Corruption(format!(
                "the two tables {} differ at or before the key {key:?}",
                table.name
            )));
        }
        compared.entries += 1;
        compared.bytes += left.map_or(0, |entry| entry.bytes());
        if compared.entries.is_multiple_of(GROUP_ENTRIES_MAX as u64) {
            told(compared);
        }
    }
}

/// The next entry whose time is not over.
fn next(scan: &mut dyn Scan) -> Result<Option<Entry>> {
    loop {
        let Some((key, object)) = scan.next()? else { return Ok(None) };
        let (key, value) = (key.to_vec(), object.value.to_vec());
        let Some(expires_at_ms) = scan.expires_at_ms() else {
            return Ok(Some(Entry { key, value, lifetime_ms: None }));
        };
        let left_ms = expires_at_ms.saturating_sub(WallTime::now().unix_ms());
        if left_ms > 0 {
            return Ok(Some(Entry { key, value, lifetime_ms: Some(left_ms) }));
        }
    }
}

/// Writes a group: as one batch where it is of one part, else one by one, all on their way at once.
fn write(to: &dyn Store, table: Table, group: &[Entry], is_one_part: bool) -> Result<()> {
    let (durable, mut timeline) = (Acknowledgement::Os, Timeline::off());
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

/// Notes how far the copy is, or that it is over.
fn note(to: &dyn Store, progress: Table, name: &[u8], reached: Option<&[u8]>) -> Result<()> {
    let condition = Condition::None;
    let operation = Operation { key: name, value: reached, condition, lifetime_ms: None };
    to.write(progress, &[operation], Acknowledgement::Os, &mut Timeline::off()).wait()?;
    Ok(())
}
