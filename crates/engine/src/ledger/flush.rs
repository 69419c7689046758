//! Flush: writes a sealed memtable to a table of level 0.

use std::sync::atomic::Ordering;

use pellucid_thread::{Job, give_way, start_job};

use super::job_sampler::JobSampler;
use super::memtable::MemtableCursor;
use super::state::{ENTRIES_A_SLICE, LedgerState};
use super::table_files::WrittenTable;
use super::version::SealedMemtable;
use super::version_set::VersionEdit;
use super::{DroppedEntry, DroppedList, Verdict};
use crate::error::Result;
use crate::figures::Figure;
use crate::jobs;
use crate::stats::JobFigures;

/// The label of a flush in profiles.
static FLUSH: Job = Job::new("flush");

/// Flushes the oldest sealed memtable; returns true if there was one. Called under the job lock.
pub(super) fn flush_oldest(state: &LedgerState) -> Result<bool> {
    let oldest = state.versions.load().sealed.last().cloned();
    let Some(sealed) = oldest else { return Ok(false) };
    let _job = start_job(&FLUSH);
    let noted = state.options.activity.begin(jobs::FLUSH, state.options.clock);
    let outcome = flush(state, &sealed);
    drop(noted);
    state.has_flush_failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
    outcome.map(|()| true)
}

/// Flushes the memtables that are sealed now. Not those that are sealed meanwhile: a writer that is
/// as fast as the flushes would keep the job from ending. Called under the job lock.
pub(super) fn flush_all(state: &LedgerState) -> Result<()> {
    let memtables = state.versions.load().sealed.len();
    (0..memtables).try_for_each(|_| flush_oldest(state).map(|_| ()))
}

fn flush(state: &LedgerState, sealed: &SealedMemtable) -> Result<()> {
    let (clock, files) = (state.options.clock, &state.files);
    let began = clock.stopwatch();
    let mut edit = VersionEdit {
        flushed_sequence: Some(sealed.last_sequence),
        dropped: files.dropped_list(),
        ..VersionEdit::default()
    };
    let mut stats = JobFigures { runs: 1, ..JobFigures::default() };
    if sealed.memtable.entries() > 0 {
        let number = files.take_number();
        let new = write(state, sealed, number, &mut edit.dropped, &mut stats);
        let written = new.and_then(|(new, times)| {
            stats.add(&times);
            let begun = clock.stopwatch();
            // After a crash, a table must not name records that are missing in the journal.
            state.link.make_durable(sealed.last_sequence)?;
            stats.journal_sync_ns = begun.elapsed_ns();
            files.open(vec![new])
        });
        let tables = written.inspect_err(|_| files.remove([number]))?;
        stats.tables_out = 1;
        stats.bytes_out = tables.iter().map(|table| table.facts().size_bytes).sum();
        edit.added = tables.into_iter().map(|table| (0, table)).collect();
    }
    let begun = clock.stopwatch();
    state.commit(&edit)?;
    stats.commit_ns = begun.elapsed_ns();
    stats.entries_in = sealed.memtable.entries();
    stats.entries_dropped = edit.dropped.count();
    stats.bytes_in = sealed.memtable.size_bytes();
    stats.duration_ns = began.elapsed_ns();
    state.counters.add_flush(&stats);
    Ok(())
}

fn write(
    state: &LedgerState,
    sealed: &SealedMemtable,
    number: u64,
    dropped: &mut DroppedList,
    stats: &mut JobFigures,
) -> Result<(WrittenTable, JobFigures)> {
    let clock = state.options.clock;
    let mut writer = state.files.create(number)?;
    let mut retention = state.snapshots.retention(state.link.now_ms());
    let begun = clock.stopwatch();
    let mut cursor = MemtableCursor::over_all(&sealed.memtable);
    stats.order_ns = begun.elapsed_ns();
    let mut stages = JobSampler::new(clock);
    let mut entries = 0_u64;
    cursor.seek_first();
    while let Some(entry) = cursor.entry() {
        let sample = stages.begin(|| writer.times().writers_ns());
        // Tombstones stay: the entries that they hide are in other tables, or in an older memtable.
        match retention.judge(&entry, || false) {
            Verdict::Kept => writer.add(&entry)?,
            verdict => dropped.push(&DroppedEntry::of(&entry, verdict))?,
        }
        let sample = sample.map(|sample| stages.built(sample, writer.times().writers_ns(), stats));
        cursor.next();
        if let Some(sample) = sample {
            stages.merged(sample, stats);
        }
        entries += 1;
        if entries.is_multiple_of(ENTRIES_A_SLICE) {
            give_way();
        }
    }
    dropped.close()?;
    state.files.finish(writer)
}
