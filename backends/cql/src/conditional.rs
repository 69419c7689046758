//! Writes with conditions, and all writes to tables in parts: lightweight transactions of one
//! partition.
//!
//! The transaction reads the entries with conditions, and checks the conditions here; an expired
//! entry counts as absent. It then writes if the entries still have the versions that were read,
//! and starts again if they do not. All writes to a table in parts are such transactions, because
//! the ring orders transactions among themselves by agreement, but plain writes by timestamp.
//!
//! A transaction without an answer may have happened. To find out, each transaction leaves a note
//! in its partition, with the writer and the write. A writer makes its transactions of a partition
//! one after another, so its last note says exactly whether the transaction in doubt happened,
//! whatever others have written since. A serial read of the note first completes transactions under
//! way.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pellucid_clock::Clock;
use pellucid_store::{Condition, Result, StoreError, Table, Written};
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row};

use crate::entry::{Entry, Values};
use crate::error::Failed;
use crate::parts;
use crate::place::Space;
use crate::plain::unconditional;
use crate::read::bound;
use crate::ring::{Laps, Ring};
use crate::rows::{Lifetime, is_over};
use crate::schema::unexpected;
use crate::versions::{Drawn, now_us};

/// Limit of the attempts of a write whose entries others change in between.
const ATTEMPTS_MAX: u32 = 64;
/// The longest pause between two attempts.
const PAUSE_MAX_MS: u64 = 64;
/// Limit of the reads that look for the outcome of a write in doubt, and the pause in between.
const LOOKS_MAX: u32 = 4;
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// The time after which a write is not attempted again, as a multiple of the request timeout.
const WAITS_MAX: u32 = 3;
/// Number of keys whose versions one request reads.
const KEYS_AT_ONCE: usize = 256;
/// The largest lead of an entry's timestamp over the local clock that is waited for; a larger one
/// is an error.
const AHEAD_MAX_US: u64 = 1_000_000;

/// The state of an entry that a transaction has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    version: i64,
    /// True if the entry has expired.
    is_over: bool,
}

/// The entries that a transaction has read, by key.
type State = HashMap<Vec<u8>, Found>;

/// A write that is made by a transaction.
pub(crate) struct Conditional {
    pub(crate) ring: Arc<Ring>,
    pub(crate) table: Table,
    pub(crate) space: Arc<Space>,
    pub(crate) level: Consistency,
    pub(crate) entries: Vec<Entry>,
    /// Number of operations; the write has as many versions.
    pub(crate) count: usize,
}

impl Conditional {
    /// Makes the write, in several attempts if others change its entries in between.
    pub(crate) async fn run(self, mut laps: Laps) -> (Result<Written>, Laps) {
        let result = self.attempts(&mut laps).await;
        (result, laps)
    }

    async fn attempts(&self, laps: &mut Laps) -> Result<Written> {
        let (turns, wait_max) = (&self.ring.turns, self.ring.timeout);
        laps.begin();
        let turn = turns.take(&self.space.name, &self.entries[0].place, wait_max).await;
        laps.end(parts::TURN_WAIT);
        let _turn = turn?;
        if self.space.is_in_parts() {
            self.list_part(laps).await?;
        }
        let begun = Clock::monotonic().stopwatch();
        let patience_ns = (wait_max * WAITS_MAX).as_nanos() as u64;
        for attempt in 0..ATTEMPTS_MAX {
            let state = self.state(laps).await?;
            self.judge(&state)?;
            let drawn = self.ring.versions.draw(self.count);
            if self.attempt(&state, drawn, laps).await? {
                return Ok(Written { sequence: drawn.first + self.count as u64 - 1 });
            }
            if begun.elapsed_ns() > patience_ns {
                break;
            }
            let pause_ms = (1 << attempt.min(10)).min(PAUSE_MAX_MS);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        let what = "others were faster each time: too much is written to the same part at once";
        Err(StoreError::Busy(what.to_owned()))
    }

    /// Lists the part in the ring before its first entry is written, so that ranges find it.
    async fn list_part(&self, laps: &mut Laps) -> Result<()> {
        let place = &self.entries[0].place;
        let part = (self.table.number(), place.clone());
        let listed = &self.ring.listed;
        if listed.lock().unwrap_or_else(PoisonError::into_inner).contains(&part) {
            return Ok(());
        }
        let statement = bound(&self.ring.statements.note_part, &(&self.space.name, place))?;
        self.ring.answer(statement, laps).await?;
        listed.lock().unwrap_or_else(PoisonError::into_inner).insert(part);
        Ok(())
    }

    /// The entries whose versions have to be read: the transaction is conditional on them.
    fn watched(&self) -> Vec<&Entry> {
        let with_conditions = self.entries.iter().filter(|entry| !entry.conditions.is_empty());
        let watched: Vec<_> = with_conditions.collect();
        if !watched.is_empty() {
            return watched;
        }
        // Without a condition, the batch would be a plain write. So the first put gets a condition
        // on its version; without a put, the deletions do.
        match self.entries.iter().find(|entry| entry.value.is_some()) {
            Some(put) => vec![put],
            None => self.entries.iter().collect(),
        }
    }

    /// Reads the current versions of the watched entries.
    async fn state(&self, laps: &mut Laps) -> Result<State> {
        let mut state = State::new();
        for some in self.watched().chunks(KEYS_AT_ONCE) {
            let keys: Vec<&[u8]> = some.iter().map(|entry| &entry.key[..]).collect();
            let place = &some[0].place;
            let values = (&self.space.name, place, keys);
            let mut statement = bound(&self.ring.statements.versions, &values)?;
            statement.set_consistency(self.level);
            let answer = self.ring.answer(statement, laps).await?;
            let ahead_us = note(answer, &mut state)?;
            if ahead_us > AHEAD_MAX_US {
                return Err(StoreError::Failed(format!(
                    "the last write of the key is from {ahead_us} µs in the future: set the clocks \
                     of all servers and nodes by the same time"
                )));
            }
            // The transaction's timestamp has to be later, or the earlier write would win over it.
            tokio::time::sleep(Duration::from_micros(ahead_us)).await;
        }
        Ok(state)
    }

    /// Checks all conditions.
    ///
    /// # Errors
    /// The first condition that does not hold.
    fn judge(&self, state: &State) -> Result<()> {
        let mut conditions: Vec<_> = self
            .entries
            .iter()
            .flat_map(|entry| entry.conditions.iter().map(move |condition| (entry, condition)))
            .collect();
        conditions.sort_by_key(|(_, (index, _, _))| *index);
        for (entry, (index, condition, written)) in conditions {
            let found = state.get(&entry.key).filter(|found| !found.is_over);
            let current = found.map(|found| found.version as u64);
            let is_there = written.unwrap_or(current.is_some());
            let holds = match condition {
                Condition::None => true,
                Condition::Absent => !is_there,
                Condition::Present => is_there,
                Condition::Sequence(sequence) => written.is_none() && current == Some(*sequence),
            };
            if !holds {
                return Err(StoreError::ConditionFailed { index: *index, current });
            }
        }
        Ok(())
    }

    /// Writes if the entries still have the versions in `state`. Returns false if they do not. If
    /// the outcome is unknown, it reads the outcome.
    async fn attempt(&self, state: &State, drawn: Drawn, laps: &mut Laps) -> Result<bool> {
        let watched: Vec<&[u8]> = self.watched().iter().map(|entry| &entry.key[..]).collect();
        let watched: std::collections::HashSet<&[u8]> = watched.into_iter().collect();
        let mut steps: Vec<(&PreparedStatement, Values<'_>)> = Vec::new();
        let mut has_condition = false;
        for entry in &self.entries {
            if !watched.contains(&entry.key[..]) {
                steps.push(unconditional(&self.ring, &self.space, entry, drawn.first));
                continue;
            }
            if let Some(step) = self.conditional(entry, state, drawn) {
                has_condition = true;
                steps.push(step);
            }
        }
        if !has_condition {
            // The batch only deletes entries that do not exist.
            return Ok(true);
        }
        let (space, by) = (&self.space.name[..], self.ring.writer);
        let note = Values::Done(space, &self.entries[0], by, drawn.first as i64);
        steps.push((&self.ring.statements.note_done, note));
        let outcome = self.execute(steps, laps).await;
        // The ring gives a transaction a timestamp of its own clock.
        self.ring.versions.see();
        match outcome {
            Ok(answer) => is_applied(answer),
            Err(failed) if failed.is_uncertain() => self.look(drawn, failed, laps).await,
            Err(failed) => Err(failed.into()),
        }
    }

    /// The step that writes an entry only over the version that was read; `None` for the deletion
    /// of an entry that does not exist.
    fn conditional<'a>(
        &'a self,
        entry: &'a Entry,
        state: &State,
        drawn: Drawn,
    ) -> Option<(&'a PreparedStatement, Values<'a>)> {
        let (statements, space) = (&self.ring.statements, &self.space.name[..]);
        let version = (drawn.first + entry.index as u64) as i64;
        let life = Lifetime::of(entry.lifetime_ms);
        let over = state.get(&entry.key).map(|found| found.version);
        match (over, &entry.value) {
            (None, Some(_)) => {
                Some((&statements.put_new, Values::Put(space, entry, version, life)))
            }
            (None, None) => None,
            (Some(over), Some(_)) => {
                let values = Values::PutOver(space, entry, version, life, over);
                Some((&statements.put_over, values))
            }
            (Some(over), None) => {
                Some((&statements.delete_this, Values::DeleteThis(space, entry, over)))
            }
        }
    }

    async fn execute(
        &self,
        steps: Vec<(&PreparedStatement, Values<'_>)>,
        laps: &mut Laps,
    ) -> std::result::Result<QueryResult, Failed> {
        let mut batch = Batch::new(BatchType::Unlogged);
        let mut values = Vec::with_capacity(steps.len());
        for (statement, of_step) in steps {
            batch.append_statement(statement.clone());
            values.push(of_step);
        }
        batch.set_consistency(self.level);
        batch.set_serial_consistency(Some(SerialConsistency::Serial));
        self.ring.ask_batch(batch, values, laps).await
    }

    /// Finds the outcome of a write without an answer. Returns true if the write happened.
    ///
    /// # Errors
    /// If the outcome cannot be read either.
    async fn look(&self, drawn: Drawn, failed: Failed, laps: &mut Laps) -> Result<bool> {
        let values = (&self.space.name, &self.entries[0].place);
        let mut statement = bound(&self.ring.statements.done, &values)?;
        statement.set_consistency(Consistency::Serial);
        for _ in 0..LOOKS_MAX {
            if let Ok(answer) = self.ring.ask(statement.clone(), laps).await {
                return Ok(last_of(answer, self.ring.writer)? == Some(drawn.first as i64));
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        let text = StoreError::from(failed);
        Err(StoreError::Unreachable(format!("it is unknown whether the write happened: {text}")))
    }
}

/// The last transaction of a writer that a partition has a note of.
fn last_of(answer: QueryResult, writer: i64) -> Result<Option<i64>> {
    let rows = answer.into_rows_result().map_err(unexpected)?;
    type Row = (String, Vec<u8>, Option<HashMap<i64, i64>>);
    let row = rows.maybe_first_row::<Row>().map_err(unexpected)?;
    Ok(row.and_then(|(_, _, done)| done?.get(&writer).copied()))
}

/// Adds the versions in an answer to `state`. Returns the lead of the latest timestamp over the
/// local clock in microseconds, or zero.
fn note(answer: QueryResult, state: &mut State) -> Result<u64> {
    let rows = answer.into_rows_result().map_err(unexpected)?;
    let rows = rows.rows::<(Vec<u8>, Option<i64>, Option<i64>, Option<i64>)>();
    let mut latest_us = 0;
    for row in rows.map_err(unexpected)? {
        let (key, version, expires_ms, written_us) = row.map_err(unexpected)?;
        let Some(version) = version else { continue };
        latest_us = latest_us.max(written_us.unwrap_or(0));
        state.insert(key, Found { version, is_over: is_over(expires_ms.unwrap_or(0)) });
    }
    let latest_us = u64::try_from(latest_us).unwrap_or(0);
    let now_us = now_us();
    Ok(if latest_us < now_us { 0 } else { latest_us - now_us + 1 })
}

/// True if a transaction was applied; the first column of its answer says so.
fn is_applied(answer: QueryResult) -> Result<bool> {
    let rows = answer.into_rows_result().map_err(unexpected)?;
    let row = rows.first_row::<Row>().map_err(unexpected)?;
    match row.columns.first() {
        Some(Some(CqlValue::Boolean(applied))) => Ok(*applied),
        _ => Err(unexpected("a transaction says whether it was applied")),
    }
}
