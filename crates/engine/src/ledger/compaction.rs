//! Compaction: merges tables of a level into the next deeper one, so that a key is in few tables,
//! and drops entries that no reader can see any more.

use std::sync::Arc;

use pellucid_thread::start_job;

use super::options::LEVELS;
use super::outputs::MergeJob;
use super::parallel_merge::{COMPACTION, write_merge};
use super::picker::{MergePlan, is_due};
use super::state::LedgerState;
use super::table::table_folder;
use super::version::Levels;
use super::version_set::VersionEdit;
use crate::error::{Error, Result};
use crate::figures::Figure;
use crate::jobs;
use crate::stats::JobFigures;

/// Does the most urgent merge; returns true if one was due. Called under the job lock.
pub(super) fn compact_one(state: &LedgerState) -> Result<bool> {
    let version = state.versions.load_full();
    let plan = MergePlan::pick(&state.options, &version.levels)
        .or_else(|| pick_stale(state, &version.levels));
    plan.map_or(Ok(false), |plan| compact(state, &plan).map(|()| true))
}

/// Does a merge for which there is room; returns true if more may follow, false if everything is
/// merged or nothing fits. Called under the job lock.
pub(super) fn compact_for_room(state: &LedgerState) -> Result<bool> {
    let levels = state.versions.load().levels.clone();
    let plan = MergePlan::for_room(&levels, state.link.now_ms(), state.files.free_bytes());
    let Some(plan) = plan else { return Ok(false) };
    compact(state, &plan)?;
    Ok(plan.tables().count() < levels.all().count())
}

/// True if a merge is due.
pub(super) fn is_merge_due(state: &LedgerState) -> bool {
    let version = state.versions.load();
    (0..LEVELS - 1).any(|level| is_due(&state.options, &version.levels, level))
        || pick_stale(state, &version.levels).is_some()
}

fn pick_stale(state: &LedgerState, levels: &Levels) -> Option<MergePlan> {
    let oldest_snapshot = state.snapshots.view().snapshots.first().copied();
    MergePlan::of_stale(levels, state.link.now_ms(), oldest_snapshot)
}

/// Does a merge. Called under the job lock.
pub(super) fn compact(state: &LedgerState, plan: &MergePlan) -> Result<()> {
    let _job = start_job(&COMPACTION);
    let (clock, from) = (state.options.clock, plan.from() as u8);
    let began = clock.stopwatch();
    let noted = state.options.activity.begin(jobs::compaction(from), clock);
    let mut stats = JobFigures { runs: 1, ..JobFigures::default() };
    let levels = state.versions.load().levels.clone();
    let outcome = if plan.is_move(&state.options, &levels) {
        stats.moves = 1;
        move_tables(state, plan)
    } else {
        check_room(state, plan).and_then(|()| merge_tables(state, plan, &levels, &mut stats))
    };
    drop(noted);
    outcome?;
    stats.duration_ns = began.elapsed_ns();
    state.counters.add_merge(from, &stats);
    Ok(())
}

/// Refuses a merge that may not fit on the disk: until it failed, nothing else would have room.
fn check_room(state: &LedgerState, plan: &MergePlan) -> Result<()> {
    match plan.size_bytes() <= state.files.free_bytes() {
        true => Ok(()),
        false => Err(Error::full(&table_folder(state.files.directory()))),
    }
}

fn move_tables(state: &LedgerState, plan: &MergePlan) -> Result<()> {
    state.commit(&VersionEdit {
        removed: plan.tables().map(|table| table.facts().number).collect(),
        added: plan.tables().map(|table| (plan.to(), Arc::clone(table))).collect(),
        ..VersionEdit::default()
    })
}

fn merge_tables(
    state: &LedgerState,
    plan: &MergePlan,
    levels: &Levels,
    stats: &mut JobFigures,
) -> Result<()> {
    let merged = write_merge(MergeJob { state, plan, levels })?;
    let numbers = merged.numbers();
    // An entry in an unreadable block would be lost with the old tables, so check all of them
    // first.
    let tables = plan
        .tables()
        .try_for_each(|table| table.blocks().check_all())
        .and_then(|()| state.files.open(merged.tables))
        .inspect_err(|_| state.files.remove(numbers))?;
    stats.add(&merged.stats);
    stats.bytes_in = plan.size_bytes();
    stats.bytes_out = tables.iter().map(|table| table.facts().size_bytes).sum();
    stats.tables_out = tables.len() as u64;
    let begun = state.options.clock.stopwatch();
    state.commit(&VersionEdit {
        removed: plan.tables().map(|table| table.facts().number).collect(),
        added: tables.into_iter().map(|table| (plan.to(), table)).collect(),
        flushed_sequence: None,
        dropped: merged.dropped,
    })?;
    stats.commit_ns = begun.elapsed_ns();
    Ok(())
}
