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
//! way. But a node that has not answered may begin its transaction later, so if no further attempt
//! succeeds, the outcome stays unknown.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pellucid_clock::Clock;
use pellucid_store::{Result, StoreError, Table, WriteOutcome};
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row};

use crate::entry::{Entry, Values};
use crate::error::FailedRequest;
use crate::partitioned_table::PartitionedTable;
use crate::parts;
use crate::plain_write::unconditional;
use crate::read::bound;
use crate::ring::{RequestTimer, Ring};
use crate::rows::{Lifetime, is_over};
use crate::schema::unexpected;
use crate::versions::{WriteVersions, drawn_us, now_us};

/// Limit of the attempts of a write whose entries others change in between.
const ATTEMPTS_MAX: u32 = 64;
/// The longest pause between two attempts.
const PAUSE_MAX_MS: u64 = 64;
/// Limit of the reads that look for the outcome of a write in doubt, and the pause in between.
const LOOKS_MAX: u32 = 4;
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// Number of keys whose versions one request reads.
const KEYS_AT_ONCE: usize = 256;
/// The largest lead of an entry's timestamp over the local clock that is waited for; a larger one
/// is an error.
const AHEAD_MAX_US: u64 = 1_000_000;

/// The reason of a refusal after too many attempts over entries that others changed.
const OVERTAKEN: &str =
    "others were faster each time: too much is written to the same part at once";

/// The state of an entry that a transaction has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryState {
    version: i64,
    /// True if the entry has expired.
    is_over: bool,
}

/// The entries that a transaction has read, by key.
type EntryStates = HashMap<Vec<u8>, EntryState>;

/// The latest timestamps of the entries that were read, in microseconds since the Unix epoch, or
/// zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LatestTimestamps {
    all_us: u64,
    /// Of the entries that a plain write may have written.
    plain_us: u64,
}

/// The outcome of an attempt of a transaction.
enum AttemptOutcome {
    Applied,
    /// It has not happened, for this reason.
    NotApplied(String),
    /// It had not happened when that was read, but a node may still execute it. The text is the
    /// error of the request.
    MayExecute(String),
}

/// A write that is made by a transaction.
pub(crate) struct ConditionalWrite {
    pub(crate) ring: Arc<Ring>,
    pub(crate) table: Table,
    pub(crate) space: Arc<PartitionedTable>,
    pub(crate) level: Consistency,
    pub(crate) entries: Vec<Entry>,
    /// Number of operations; the write has as many versions.
    pub(crate) count: usize,
}

impl LatestTimestamps {
    fn add(&mut self, version: u64, written_us: u64) {
        self.all_us = self.all_us.max(written_us);
        // A plain write's timestamp is the time of its version. That of a transaction is later,
        // unless the clock of its coordinator was behind.
        if written_us <= drawn_us(version) {
            self.plain_us = self.plain_us.max(written_us);
        }
    }
}

impl ConditionalWrite {
    /// Makes the write, in several attempts if others change its entries in between.
    pub(crate) async fn run(self, mut laps: RequestTimer) -> (Result<WriteOutcome>, RequestTimer) {
        let result = self.attempts(&mut laps).await;
        (result, laps)
    }

    async fn attempts(&self, laps: &mut RequestTimer) -> Result<WriteOutcome> {
        let (turns, wait_max) = (&self.ring.turns, self.ring.timeout);
        let begun = Clock::monotonic().stopwatch();
        let elapsed = || Duration::from_nanos(begun.elapsed_ns());
        laps.begin();
        let turn = turns.take(&self.space.name, &self.entries[0].place, wait_max).await;
        laps.end(parts::TURN_WAIT);
        let _turn = turn?;
        if self.space.is_in_parts() {
            self.list_part(laps).await?;
        }
        let mut following = None;
        let result = self.attempts_in_turn(elapsed, &mut following, laps).await;
        result.map_err(|error| match following {
            Some(text) => unknown(&text, error),
            None => error,
        })
    }

    /// As [`ConditionalWrite::attempts`], while this process makes no other transaction of the
    /// partition. `following` gets the error of an attempt that a node may still execute.
    async fn attempts_in_turn(
        &self,
        elapsed: impl Fn() -> Duration + Copy,
        following: &mut Option<String>,
        laps: &mut RequestTimer,
    ) -> Result<WriteOutcome> {
        let wait_max = self.ring.timeout;
        let slow =
            || format!("what precedes the transaction took {:?}: try again in a moment", elapsed());
        let mut why = None;
        for attempt in 0..ATTEMPTS_MAX {
            if elapsed() > wait_max {
                break;
            }
            let (state, may_lose) = self.state(laps).await?;
            self.judge(&state)?;
            if !may_write(elapsed(), wait_max) {
                why = Some(slow());
                break;
            }
            let drawn = self.ring.versions.draw(self.count);
            match self.attempt(&state, drawn, laps).await? {
                AttemptOutcome::Applied => {
                    if may_lose {
                        self.insist(&state, drawn, elapsed, laps).await?;
                    }
                    return Ok(WriteOutcome { sequence: drawn.first + self.count as u64 - 1 });
                }
                AttemptOutcome::NotApplied(reason) => why = Some(reason),
                AttemptOutcome::MayExecute(text) => *following = Some(text),
            }
            pause(attempt).await;
        }
        Err(StoreError::Busy(why.unwrap_or_else(slow)))
    }

    /// Lists the part in the ring before its first entry is written, so that ranges find it.
    async fn list_part(&self, laps: &mut RequestTimer) -> Result<()> {
        let place = &self.entries[0].place;
        let part = (self.table.number(), place.clone());
        let listed = &self.ring.listed;
        if listed.lock().contains(&part) {
            return Ok(());
        }
        let statement = bound(&self.ring.statements.note_part, &(&self.space.name, place))?;
        self.ring.answer(statement, laps).await?;
        listed.lock().insert(part);
        Ok(())
    }

    /// Reads the current versions of the watched entries, and waits until the clock has passed
    /// their times. Also returns true if a transaction may nevertheless lose to one of them.
    async fn state(&self, laps: &mut RequestTimer) -> Result<(EntryStates, bool)> {
        // All writes to a table in parts are transactions, whose timestamps rise. An entry of
        // another table may be from a plain write, so those without conditions are read as well.
        let is_in_parts = self.space.is_in_parts();
        let entries =
            if is_in_parts { watched(&self.entries) } else { self.entries.iter().collect() };
        let (state, latest) = self.read(&entries, laps).await?;
        let now_us = now_us();
        let ahead_us = ahead_us(latest.all_us, now_us);
        if ahead_us > AHEAD_MAX_US {
            return Err(StoreError::Failed(format!(
                "the last write of the key is from {ahead_us} µs in the future: set the clocks of \
                 all servers and nodes by the same time"
            )));
        }
        // The transaction's timestamp has to be later, or the earlier write would win over it.
        tokio::time::sleep(Duration::from_micros(ahead_us)).await;
        Ok((state, !is_in_parts && may_lose(latest.plain_us, now_us)))
    }

    /// Reads the current versions of some entries. Also returns the latest of their timestamps.
    async fn read(
        &self,
        entries: &[&Entry],
        laps: &mut RequestTimer,
    ) -> Result<(EntryStates, LatestTimestamps)> {
        let (mut state, mut latest) = (EntryStates::new(), LatestTimestamps::default());
        for some in entries.chunks(KEYS_AT_ONCE) {
            let keys: Vec<&[u8]> = some.iter().map(|entry| &entry.key[..]).collect();
            let place = &some[0].place;
            let values = (&self.space.name, place, keys);
            let mut statement = bound(&self.ring.statements.versions, &values)?;
            statement.set_consistency(self.level);
            let answer = self.ring.answer(statement, laps).await?;
            note(answer, &mut state, &mut latest)?;
        }
        Ok((state, latest))
    }

    /// Repeats an applied transaction over `state` for the entries that still have their old
    /// versions. The ring gives a transaction the time of the node that coordinates it. If that
    /// node's clock is behind, an earlier plain write has a later time, and wins.
    ///
    /// # Errors
    /// None of them means that nothing was done: the transaction was applied.
    async fn insist(
        &self,
        state: &EntryStates,
        drawn: WriteVersions,
        elapsed: impl Fn() -> Duration,
        laps: &mut RequestTimer,
    ) -> Result<()> {
        let entries: Vec<_> = self.entries.iter().collect();
        let mut repeated = Vec::new();
        for attempt in 0.. {
            let (now, _) = self.read(&entries, laps).await.map_err(unsettled)?;
            if is_overtaken(&repeated, state, &now, drawn) {
                let what = "another write has followed, perhaps on the same old version";
                return Err(unsettled(StoreError::Failed(what.to_owned())));
            }
            let lost = lost(&self.entries, state, &now);
            if lost.is_empty() {
                return Ok(());
            }
            repeated.clone_from(&lost);
            if !may_write(elapsed(), self.ring.timeout) {
                break;
            }
            pause(attempt).await;
            let steps = lost.into_iter();
            let steps = steps.map(|entry| conditional(&self.space.name, entry, state, drawn.first));
            match self.execute(steps.collect(), laps).await {
                // The next read shows the outcome.
                Err(failed) if !failed.is_uncertain() => return Err(unsettled(failed.into())),
                _ => {}
            }
        }
        Err(StoreError::Failed(
            "the clock of a node is behind that of a server, so an earlier write won over this \
             one: set the clocks of all servers and nodes by the same time"
                .to_owned(),
        ))
    }

    /// Checks all conditions.
    ///
    /// # Errors
    /// The first condition that does not hold.
    fn judge(&self, state: &EntryStates) -> Result<()> {
        let mut conditions: Vec<_> = self
            .entries
            .iter()
            .flat_map(|entry| entry.conditions.iter().map(move |condition| (entry, condition)))
            .collect();
        conditions.sort_by_key(|(_, (index, _))| *index);
        for (entry, (index, condition)) in conditions {
            let found = state.get(&entry.key).filter(|found| !found.is_over);
            let current = found.map(|found| found.version as u64);
            if !condition.holds(current) {
                return Err(StoreError::ConditionFailed { index: *index, current });
            }
        }
        Ok(())
    }

    /// Writes if the entries still have the versions in `state`. If the outcome is unknown, it
    /// reads the outcome.
    async fn attempt(
        &self,
        state: &EntryStates,
        drawn: WriteVersions,
        laps: &mut RequestTimer,
    ) -> Result<AttemptOutcome> {
        let mut steps = steps(&self.space, &self.entries, state, drawn.first);
        if steps.iter().all(|step| matches!(step, Values::DeleteThis(_, _, None))) {
            // The write only deletes entries that did not exist when they were read.
            return Ok(AttemptOutcome::Applied);
        }
        let (space, by) = (&self.space.name[..], self.ring.writer);
        steps.push(Values::Done(space, &self.entries[0], by, drawn.first as i64));
        let outcome = self.execute(steps, laps).await;
        // The ring gives a transaction a timestamp of its own clock.
        self.ring.versions.see();
        match outcome {
            Ok(answer) => Ok(match is_applied(answer)? {
                true => AttemptOutcome::Applied,
                false => AttemptOutcome::NotApplied(OVERTAKEN.to_owned()),
            }),
            Err(failed) if failed.is_uncertain() => self.look(drawn, failed, laps).await,
            Err(failed) => Err(failed.into()),
        }
    }

    async fn execute(
        &self,
        steps: Vec<Values<'_>>,
        laps: &mut RequestTimer,
    ) -> std::result::Result<QueryResult, FailedRequest> {
        let mut batch = Batch::new(BatchType::Unlogged);
        for step in &steps {
            batch.append_statement(step.statement(&self.ring.statements).clone());
        }
        batch.set_consistency(self.level);
        batch.set_serial_consistency(Some(SerialConsistency::Serial));
        self.ring.ask_batch(batch, steps, laps).await
    }

    /// Finds the outcome of a write without an answer.
    ///
    /// # Errors
    /// If the outcome cannot be read either.
    async fn look(
        &self,
        drawn: WriteVersions,
        failed: FailedRequest,
        laps: &mut RequestTimer,
    ) -> Result<AttemptOutcome> {
        let values = (&self.space.name, &self.entries[0].place);
        let mut statement = bound(&self.ring.statements.done, &values)?;
        statement.set_consistency(Consistency::Serial);
        let (may_execute, text) = (failed.may_still_execute(), StoreError::from(failed));
        for _ in 0..LOOKS_MAX {
            if let Ok(answer) = self.ring.ask(statement.clone(), laps).await {
                let is_done = last_of(answer, self.ring.writer)? == Some(drawn.first as i64);
                return Ok(match (is_done, may_execute) {
                    (true, _) => AttemptOutcome::Applied,
                    (false, true) => AttemptOutcome::MayExecute(text.to_string()),
                    (false, false) => {
                        AttemptOutcome::NotApplied(format!("it has not happened: {text}"))
                    }
                });
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        Err(StoreError::Unreachable(format!("it is unknown whether the write happened: {text}")))
    }
}

/// The entries whose versions have to be read: the transaction is conditional on them.
fn watched(entries: &[Entry]) -> Vec<&Entry> {
    let watched: Vec<_> = entries.iter().filter(|entry| !entry.conditions.is_empty()).collect();
    if !watched.is_empty() {
        return watched;
    }
    // Without a condition, the batch would be a plain write. So the first put gets a condition on
    // its version; without a put, the deletions do.
    match entries.iter().find(|entry| entry.value.is_some()) {
        Some(put) => vec![put],
        None => entries.iter().collect(),
    }
}

/// The steps of a transaction, one for each entry.
fn steps<'a>(
    space: &'a PartitionedTable,
    entries: &'a [Entry],
    state: &EntryStates,
    first_version: u64,
) -> Vec<Values<'a>> {
    let watched: HashSet<&[u8]> = watched(entries).iter().map(|entry| &entry.key[..]).collect();
    let step = |entry: &'a Entry| match watched.contains(&entry.key[..]) {
        true => conditional(&space.name, entry, state, first_version),
        false => unconditional(space, entry, first_version),
    };
    entries.iter().map(step).collect()
}

/// The step that writes an entry only over the version that was read, or if it is still absent.
fn conditional<'a>(
    space: &'a str,
    entry: &'a Entry,
    state: &EntryStates,
    first_version: u64,
) -> Values<'a> {
    let version = (first_version + entry.index as u64) as i64;
    let life = Lifetime::of(entry.lifetime_ms);
    let over = state.get(&entry.key).map(|found| found.version);
    match entry.value {
        Some(_) => Values::PutOver(space, entry, version, life, over),
        None => Values::DeleteThis(space, entry, over),
    }
}

/// The last transaction of a writer that a partition has a note of.
fn last_of(answer: QueryResult, writer: i64) -> Result<Option<i64>> {
    let rows = answer.into_rows_result().map_err(unexpected)?;
    type Row = (String, Vec<u8>, Option<HashMap<i64, i64>>);
    let row = rows.maybe_first_row::<Row>().map_err(unexpected)?;
    Ok(row.and_then(|(_, _, done)| done?.get(&writer).copied()))
}

/// Adds the versions in an answer to `state`, and their timestamps to `latest`.
fn note(answer: QueryResult, state: &mut EntryStates, latest: &mut LatestTimestamps) -> Result<()> {
    let rows = answer.into_rows_result().map_err(unexpected)?;
    let rows = rows.rows::<(Vec<u8>, Option<i64>, Option<i64>, Option<i64>)>();
    for row in rows.map_err(unexpected)? {
        let (key, version, expires_ms, written_us) = row.map_err(unexpected)?;
        let Some(version) = version else { continue };
        latest.add(version as u64, u64::try_from(written_us.unwrap_or(0)).unwrap_or(0));
        state.insert(key, EntryState { version, is_over: is_over(expires_ms.unwrap_or(0)) });
    }
    Ok(())
}

/// The lead of a timestamp over the local clock in microseconds: the time to wait until a later
/// one can be given.
fn ahead_us(written_us: u64, now_us: u64) -> u64 {
    if written_us < now_us { 0 } else { written_us - now_us + 1 }
}

/// True if a transaction at this time may get an earlier timestamp than `written_us`, because the
/// clock of the node that gives it may be behind.
fn may_lose(written_us: u64, now_us: u64) -> bool {
    written_us + AHEAD_MAX_US > now_us
}

/// True if a transaction may still be sent so long after the beginning of its write: all of it has
/// to be over within three time limits, because the lease of documents relies on that.
fn may_write(elapsed: Duration, wait_max: Duration) -> bool {
    elapsed <= wait_max * 2
}

/// The entries that still have the versions that they had before a transaction.
fn lost<'a>(entries: &'a [Entry], before: &EntryStates, now: &EntryStates) -> Vec<&'a Entry> {
    let version = |state: &EntryStates, entry: &Entry| state.get(&entry.key).map(|of| of.version);
    let is_lost = |entry: &&Entry| {
        let old = version(before, entry);
        old.is_some() && old == version(now, entry)
    };
    entries.iter().filter(is_lost).collect()
}

/// True if an entry of `repeated`, which was lost, has neither its old version nor the one of this
/// write. Then another write has followed. It may have replaced the old version, so this write may
/// never have been visible.
fn is_overtaken(
    repeated: &[&Entry],
    before: &EntryStates,
    now: &EntryStates,
    drawn: WriteVersions,
) -> bool {
    let version = |state: &EntryStates, entry: &Entry| state.get(&entry.key).map(|of| of.version);
    let own =
        |entry: &Entry| entry.value.as_ref().map(|_| (drawn.first + entry.index as u64) as i64);
    repeated.iter().any(|entry| {
        let found = version(now, entry);
        found != own(entry) && found != version(before, entry)
    })
}

/// The error for an applied transaction that may have lost to an earlier write.
fn unsettled(error: StoreError) -> StoreError {
    StoreError::Unreachable(format!(
        "the transaction was applied, but it is unknown whether an earlier write won over it: \
         read the entry ({error})"
    ))
}

/// The error of a write that failed behind an attempt that a node may still execute.
fn unknown(text: &str, error: StoreError) -> StoreError {
    match error {
        StoreError::Unreachable(_) => error,
        error => StoreError::Unreachable(format!(
            "it is unknown whether the write happens: {text}, and the node that was asked may \
             still make it ({error})"
        )),
    }
}

/// Waits before another attempt.
async fn pause(attempt: u32) {
    let pause_ms = (1 << attempt.min(10)).min(PAUSE_MAX_MS);
    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
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

#[cfg(test)]
mod tests {
    use pellucid_store::{Condition, Operation};

    use super::*;
    use crate::partitioned_table::PartitionScheme;
    use crate::plain_write::entries_of;

    /// The states of entries that have not expired, by their versions.
    fn states(of: &[(&str, i64)]) -> EntryStates {
        let state = |version| EntryState { version, is_over: false };
        of.iter().map(|(key, version)| (key.as_bytes().to_vec(), state(*version))).collect()
    }

    /// The steps of a write to one bucket, by name and key; `found` has the versions of the keys.
    fn steps_of(operations: &[Operation<'_>], found: &[(&str, i64)]) -> Vec<String> {
        let space = PartitionedTable { name: "t".to_owned(), placing: PartitionScheme::Buckets(1) };
        let entries = entries_of(1 << 10, &space, operations).unwrap();
        let line = |step: &Values<'_>| {
            let (name, entry, version) = match *step {
                Values::Put(_, entry, version, _) => ("put", entry, Some(version)),
                Values::PutOver(_, entry, _, _, over) => ("put over", entry, over),
                Values::Delete(_, entry) => ("delete", entry, None),
                Values::DeleteThis(_, entry, over) => ("delete this", entry, over),
                Values::Done(_, entry, _, version) => ("done", entry, Some(version)),
            };
            format!("{name} {} {version:?}", String::from_utf8_lossy(&entry.key))
        };
        steps(&space, &entries, &states(found), 100).iter().map(line).collect()
    }

    fn put(key: &str, condition: Condition) -> Operation<'_> {
        Operation { key: key.as_bytes(), value: Some(b"x"), condition, lifetime_ms: None }
    }

    fn delete(key: &str, condition: Condition) -> Operation<'_> {
        Operation { value: None, ..put(key, condition) }
    }

    /// Regression: the deletion of an absent entry was no step. Without another condition, the
    /// write was acknowledged, and its other entries were not written; with one, the transaction
    /// did not depend on the absence.
    #[test]
    fn the_deletion_of_an_absent_entry_is_a_step() {
        let (absent, none) = (Condition::Absent, Condition::None);
        let expected = ["delete this a None", "put b Some(101)"];
        assert_eq!(steps_of(&[delete("a", absent), put("b", none)], &[]), expected);
        let twice = [put("a", absent), delete("a", none), put("b", none)];
        assert_eq!(steps_of(&twice, &[]), ["delete this a None", "put b Some(102)"]);
        let beside = [delete("a", absent), put("b", Condition::Present), delete("c", none)];
        let expected = ["delete this a None", "put over b Some(7)", "delete c None"];
        assert_eq!(steps_of(&beside, &[("b", 7)]), expected);
    }

    #[test]
    fn without_conditions_the_first_put_is_conditional() {
        let none = Condition::None;
        let steps = steps_of(&[delete("a", none), put("b", none), put("c", none)], &[("c", 7)]);
        assert_eq!(steps, ["delete a None", "put over b None", "put c Some(102)"]);
        let steps = steps_of(&[delete("a", none), delete("b", none)], &[("b", 7)]);
        assert_eq!(steps, ["delete this a None", "delete this b Some(7)"]);
    }

    /// Regression: a transaction began whatever time its reads had taken, up to twenty time limits.
    #[test]
    fn a_transaction_begins_within_two_time_limits() {
        let wait_max = Duration::from_secs(11);
        assert!(may_write(wait_max * 2, wait_max));
        assert!(!may_write(wait_max * 2 + Duration::from_millis(1), wait_max));
    }

    /// Regression: an entry that was written a moment before counted as safely earlier, although
    /// the node that gives the transaction its timestamp may be behind by more. The transaction was
    /// acknowledged, and its values lost to the earlier ones.
    #[test]
    fn a_transaction_soon_after_a_write_may_lose_to_it() {
        let written_us = 10_000_000;
        for (now_us, ahead, is_soon) in [
            (written_us + 2_000, 0, true),
            (written_us - 5, 6, true),
            (written_us, 1, true),
            (written_us + AHEAD_MAX_US, 0, false),
        ] {
            assert_eq!(ahead_us(written_us, now_us), ahead);
            assert_eq!(may_lose(written_us, now_us), is_soon, "at {now_us}");
        }
    }

    #[test]
    fn entries_with_their_old_versions_are_lost() {
        let space = PartitionedTable { name: "t".to_owned(), placing: PartitionScheme::Buckets(1) };
        let none = Condition::None;
        let operations = ["a", "b", "c", "d"].map(|key| put(key, none));
        let entries = entries_of(1 << 10, &space, &operations).unwrap();
        // `a` is new, `b` was written, `c` has kept its version, and `d` was deleted since.
        let before = states(&[("b", 1), ("c", 2), ("d", 3)]);
        let now = states(&[("a", 100), ("b", 101), ("c", 2)]);
        let lost = lost(&entries, &before, &now);
        assert_eq!(lost.iter().map(|entry| &entry.key[..]).collect::<Vec<_>>(), [b"c"]);
    }

    /// Regression: a write that had lost, and then met the version of another write on the same
    /// old version, was acknowledged.
    #[test]
    fn a_lost_entry_has_to_show_the_version_of_its_write() {
        let space = PartitionedTable { name: "t".to_owned(), placing: PartitionScheme::Buckets(1) };
        let none = Condition::None;
        let entries = entries_of(1 << 10, &space, &[put("a", none), delete("b", none)]).unwrap();
        let drawn = WriteVersions { first: 100, time_us: 0 };
        let before = states(&[("a", 1), ("b", 2)]);
        let is_overtaken = |repeated: &[&Entry], now: &[(&str, i64)]| {
            super::is_overtaken(repeated, &before, &states(now), drawn)
        };
        let (a, b) = (&entries[0], &entries[1]);
        assert!(!is_overtaken(&[a, b], &[("a", 100)]), "the repeat has won");
        assert!(!is_overtaken(&[a, b], &[("a", 1), ("b", 2)]), "it has lost again");
        assert!(is_overtaken(&[a, b], &[("a", 50)]) && is_overtaken(&[a], &[]));
        assert!(is_overtaken(&[a, b], &[("a", 100), ("b", 50)]));
        assert!(!is_overtaken(&[b], &[("a", 50)]), "the first read has shown its version");
    }

    /// Regression: errors behind an applied transaction were returned as they were, for example as
    /// one that says that nothing was done.
    #[test]
    fn an_error_behind_an_applied_transaction_says_so() {
        let StoreError::Unreachable(what) = unsettled(StoreError::Busy("many".to_owned())) else {
            panic!("the outcome is unknown");
        };
        assert!(what.starts_with("the transaction was applied"), "{what}");
        assert!(what.contains("many"), "{what}");
    }

    /// Regression: a write was refused as one that had not happened, and a node that had not
    /// answered in time made it later.
    #[test]
    fn a_write_that_a_node_may_still_make_has_an_unknown_outcome() {
        use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
        let timeout = ExecutionError::RequestTimeout(Duration::from_secs(10));
        let answered = RequestAttemptError::DbError(DbError::Overloaded, String::new());
        let answered = ExecutionError::LastAttemptError(answered);
        for (error, may_execute) in [(timeout, true), (answered, false)] {
            let failed =
                FailedRequest { error, earlier: None, is_read: false, unconnected: Vec::new() };
            assert!(failed.is_uncertain());
            assert_eq!(failed.may_still_execute(), may_execute);
        }
        let failed = StoreError::ConditionFailed { index: 0, current: None };
        for error in [StoreError::Busy(OVERTAKEN.to_owned()), failed] {
            let StoreError::Unreachable(what) = unknown("no answer", error) else {
                panic!("the outcome is unknown");
            };
            assert!(what.contains("no answer"), "{what}");
        }
    }

    /// Regression: each transaction read its entries again if they were written within the last
    /// second, also if that was by another transaction, whose timestamps rise.
    #[test]
    fn an_entry_of_a_transaction_cannot_win_over_a_later_one() {
        let version = (7_000_000 << 8) + 255;
        let latest = |written_us| {
            let mut latest = LatestTimestamps::default();
            latest.add(version, written_us);
            (latest.all_us, latest.plain_us)
        };
        assert_eq!(latest(7_000_000), (7_000_000, 7_000_000));
        assert_eq!(latest(7_000_001), (7_000_001, 0));
    }
}
