//! Writes without conditions to tables without parts: plain writes, of which the one with the
//! latest timestamp wins.

use std::collections::HashMap;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Answer, Condition, Operation, Result, StoreError, WriteOutcome};
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};

use crate::entry::{Entry, Values};
use crate::partitioned_table::PartitionedTable;
use crate::read::bound;
use crate::ring::{RequestTimer, Ring};
use crate::rows::Lifetime;
use crate::versions::WriteVersions;

/// Limit of the statements in a batch: the protocol counts them in 16 bits.
const BATCH_STATEMENTS_MAX: usize = 65_535;
/// Limit in bytes of a batch within one partition. It is below the largest write that a node's
/// commit log accepts by default, with room for the other columns.
const BATCH_BYTES_MAX: usize = 12 << 20;
/// Limit in bytes of a batch over several partitions. By default, nodes refuse batches of 50 KiB,
/// other columns included.
const SPREAD_BATCH_BYTES_MAX: usize = 24 << 10;
/// Bytes that an entry takes in addition to its key and value.
const ENTRY_BYTES: usize = 96;

/// The entries of a write, one for each key.
///
/// # Errors
/// If there are no operations, too many, or too large ones.
pub(crate) fn entries_of(
    value_bytes_max: usize,
    space: &PartitionedTable,
    operations: &[Operation<'_>],
) -> Result<Vec<Entry>> {
    // A transaction has its note as a further statement.
    let is_transaction = space.is_in_parts()
        || operations.iter().any(|operation| operation.condition != Condition::None);
    let (count, max) = (operations.len(), BATCH_STATEMENTS_MAX - usize::from(is_transaction));
    if count == 0 {
        return Err(StoreError::Unacceptable("the batch is empty: it needs an entry".to_owned()));
    }
    if count > max {
        return Err(StoreError::Unacceptable(format!(
            "a batch has up to {max} entries, and this one has {count}: divide it"
        )));
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(operations.len());
    let mut by_key: HashMap<&[u8], usize> = HashMap::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        operation.check(value_bytes_max)?;
        let known = by_key.get(operation.key).copied();
        let at = known.unwrap_or(entries.len());
        if known.is_none() {
            by_key.insert(operation.key, at);
            entries.push(Entry {
                place: space.place(operation.key),
                key: operation.key.to_vec(),
                value: None,
                lifetime_ms: None,
                index,
                conditions: Vec::new(),
            });
        }
        let entry = &mut entries[at];
        if operation.condition != Condition::None {
            entry.conditions.push((index, operation.condition));
        }
        entry.value = operation.value.map(<[u8]>::to_vec);
        (entry.lifetime_ms, entry.index) = (operation.lifetime_ms, index);
    }
    check_size(&entries)?;
    Ok(entries)
}

fn check_size(entries: &[Entry]) -> Result<()> {
    let bytes_of =
        |entry: &Entry| entry.key.len() + entry.value.as_ref().map_or(0, Vec::len) + ENTRY_BYTES;
    let bytes: usize = entries.iter().map(bytes_of).sum();
    let is_spread = entries.iter().any(|entry| entry.place != entries[0].place);
    let limit = if is_spread { SPREAD_BATCH_BYTES_MAX } else { BATCH_BYTES_MAX };
    if entries.len() == 1 || bytes <= limit {
        return Ok(());
    }
    Err(StoreError::Unacceptable(format!(
        "the batch has {bytes} bytes; the ring takes up to {limit} at once{}",
        if is_spread { " for keys of different parts: divide it" } else { ": divide it" }
    )))
}

/// The values that write an entry without a condition.
pub(crate) fn unconditional<'a>(
    space: &'a PartitionedTable,
    entry: &'a Entry,
    first_version: u64,
) -> Values<'a> {
    if entry.value.is_none() {
        return Values::Delete(&space.name, entry);
    }
    let version = (first_version + entry.index as u64) as i64;
    Values::Put(&space.name, entry, version, Lifetime::of(entry.lifetime_ms))
}

/// Writes without conditions.
pub(crate) fn write(
    ring: &Arc<Ring>,
    level: Consistency,
    space: Arc<PartitionedTable>,
    entries: Vec<Entry>,
    count: usize,
    timeline: &mut Timeline,
) -> Result<Answer<WriteOutcome>> {
    let drawn = ring.versions.draw(count);
    let written = WriteOutcome { sequence: drawn.first + count as u64 - 1 };
    if let [entry] = &entries[..] {
        let values = unconditional(&space, entry, drawn.first);
        let mut statement = bound(values.statement(&ring.statements), &values)?;
        statement.set_consistency(level);
        statement.set_timestamp(Some(drawn.time_us));
        return ring.later(timeline, move |ring, mut laps| async move {
            let answer = ring.answer(statement, &mut laps).await;
            (answer.map(|_| written), laps)
        });
    }
    ring.later(timeline, move |ring, mut laps| async move {
        let result = write_batch(&ring, level, &space, &entries, drawn, &mut laps).await;
        (result.map(|()| written), laps)
    })
}

/// Writes all entries or none. A batch within one partition is atomic anyway; over several
/// partitions it is atomic by the ring's batch log.
async fn write_batch(
    ring: &Arc<Ring>,
    level: Consistency,
    space: &PartitionedTable,
    entries: &[Entry],
    drawn: WriteVersions,
    laps: &mut RequestTimer,
) -> Result<()> {
    let is_spread = entries.iter().any(|entry| entry.place != entries[0].place);
    let kind = if is_spread { BatchType::Logged } else { BatchType::Unlogged };
    let mut batch = Batch::new(kind);
    let mut values = Vec::with_capacity(entries.len());
    for entry in entries {
        let of_entry = unconditional(space, entry, drawn.first);
        batch.append_statement(of_entry.statement(&ring.statements).clone());
        values.push(of_entry);
    }
    batch.set_consistency(level);
    batch.set_timestamp(Some(drawn.time_us));
    batch.set_is_idempotent(true);
    ring.ask_batch(batch, values, laps).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partitioned_table::PartitionScheme;

    /// Regression: a transaction of the largest number of entries was accepted, and the driver
    /// refused it, because its note was one statement too many.
    #[test]
    fn the_note_of_a_transaction_counts_as_an_entry() {
        let is_taken = |placing: PartitionScheme, condition: Condition, count: usize| {
            let space = PartitionedTable { name: "t".to_owned(), placing };
            let key = |at: usize| u16::try_from(at).unwrap().to_be_bytes();
            let keys: Vec<_> = (0..count).map(key).collect();
            let operation = |(at, key)| Operation {
                condition: if at == 0 { condition } else { Condition::None },
                ..Operation::plain(key, None)
            };
            let keys = keys.iter().map(|key| &key[..]);
            let operations: Vec<_> = keys.enumerate().map(operation).collect();
            entries_of(1 << 10, &space, &operations).is_ok()
        };
        let (buckets, parts) = (PartitionScheme::Buckets(1), PartitionScheme::Parts(|_| 0));
        assert!(is_taken(buckets, Condition::None, 65_535));
        assert!(!is_taken(buckets, Condition::Absent, 65_535));
        assert!(is_taken(buckets, Condition::Absent, 65_534));
        assert!(!is_taken(parts, Condition::None, 65_535));
        assert!(is_taken(parts, Condition::None, 65_534));
    }
}
