//! A merge in two parts: while merges are behind, two threads share one merge, each half of the
//! keys.
//!
//! One thread merges more slowly than one writer writes, so at the end of a load a single thread
//! would still be merging while a processor is idle. Usually a merge has one thread, because a
//! second one would take processor time from requests.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pellucid_thread::{Job, schedule_for_background, start_job};

use super::KeyRange;
use super::flush::flush_oldest;
use super::outputs::{MergeJob, MergeResult, write_merged};
use super::picker::MergePlan;
use super::state::LedgerState;
use super::table::TableCursor;
use crate::error::{Error, Result};
use crate::read_mode::ReadMode;

/// The label of a merge in profiles.
pub(super) static COMPACTION: Job = Job::new("compaction");

const THREAD_NAME: &str = "pellucid-merge";
/// The share of the level 0 trigger, as a fraction, from which on merges count as behind.
const BEHIND: (usize, usize) = (3, 2);
/// The smallest merge that is done in parts, in tables of the usual size: for less, starting and
/// ending the parts is not worth it.
const TABLES_MIN: u64 = 4;
/// A merge of everything is given up once flushes have added this many times the tables that make
/// the merge of level 0 due: some minutes of writes as fast as the delay of writes allows.
const ADDED_TIMES_MAX: usize = 32;
/// The longest wait of the first part's thread, once its part is done, before it checks again for
/// the end of the second part and for flushes.
const PART_WAIT: Duration = Duration::from_millis(10);

/// The progress of the two parts of a merge.
#[derive(Default)]
struct Progress {
    /// One of them failed: the other need not go on.
    is_given_up: AtomicBool,
    /// True if the second part has ended.
    is_second_done: AtomicBool,
}

impl Progress {
    fn check(&self) -> Result<()> {
        // This error is not reported: the part that failed reports its own.
        if self.is_given_up.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }
}

/// Notes the end of the second part, whatever its outcome.
struct DoneNotice<'a> {
    state: &'a LedgerState,
    progress: &'a Progress,
}

impl Drop for DoneNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.progress.is_given_up.store(true, Ordering::Release);
        }
        self.progress.is_second_done.store(true, Ordering::Release);
        self.state.signals.wake_all_work();
    }
}

/// Writes the output of a merge, in two parts if merges are behind. Called under the job lock.
pub(super) fn write_merge(job: MergeJob<'_>) -> Result<MergeResult> {
    let state = job.state;
    let middle = match should_halve(job) {
        true => middle_key(job.plan)?,
        false => None,
    };
    let write_whole = || write_merged(job, &KeyRange::EVERYTHING, || give_way(job));
    let Some(middle) = middle else { return write_whole() };
    let progress = Progress::default();
    let second = || write_second(job, &middle, &progress);
    std::thread::scope(|scope| {
        let Ok(thread) = pellucid_thread::spawn_scoped(scope, THREAD_NAME, second) else {
            return write_whole();
        };
        let first = write_first(job, &middle, &progress);
        if first.is_err() {
            progress.is_given_up.store(true, Ordering::Release);
        }
        let second = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (first, second) {
            (Ok(first), Ok(second)) => Ok(first.and(second)),
            (Err(error), Ok(written)) | (Ok(written), Err(error)) => {
                state.files.remove(written.numbers());
                Err(error)
            }
            // A part that was given up returns `Closed`; the other part has the cause.
            (Err(Error::Closed), Err(error)) | (Err(error), Err(_)) => Err(error),
        }
    })
}

fn should_halve(MergeJob { state, plan, levels }: MergeJob<'_>) -> bool {
    let (options, (times, of)) = (&state.options, BEHIND);
    let is_behind = levels.level(0).len() >= options.level_0_trigger.max(1) * times / of;
    let bytes_min = TABLES_MIN * options.table_size_bytes;
    options.merges_in_parts && is_behind && plan.size_bytes() >= bytes_min
}

/// Runs between two slices of a merge: flushes come first, and closing does not wait for a merge.
fn give_way(job: MergeJob<'_>) -> Result<()> {
    pellucid_thread::give_way();
    flush_meanwhile(job)?;
    job.state.signals.check_open()
}

/// Writes the part below `middle`, and does flushes until the other part is done.
fn write_first(job: MergeJob<'_>, middle: &[u8], progress: &Progress) -> Result<MergeResult> {
    let state = job.state;
    let range = KeyRange { start: Bound::Unbounded, end: Bound::Excluded(middle) };
    let merged = write_merged(job, &range, || {
        progress.check()?;
        give_way(job)
    })?;
    let flushed = flush_until_second_is_done(job, progress);
    flushed.inspect_err(|_| state.files.remove(merged.numbers()))?;
    Ok(merged)
}

/// Flushes what waits. A flush that lacks room on the disk or descriptors is put off until the
/// merge, which may free some, has ended. That is not for a merge of everything, which may take
/// hours.
fn flush_meanwhile(job: MergeJob<'_>) -> Result<()> {
    match try_flush_meanwhile(job) {
        Err(error @ (Error::DiskFull { .. } | Error::Exhausted { .. })) if !job.plan.is_whole() => {
            job.state.signals.put_off_flush(error);
            Ok(())
        }
        flushed => flushed,
    }
}

/// Flushes until nothing waits, or until level 0 is crowded: otherwise a writer that is as fast as
/// the flushes would delay the merge for ever. No writer can wait for a merge of everything, so it
/// does one flush, however crowded level 0 is, or gives up so that merges of level 0 come first.
fn try_flush_meanwhile(job: MergeJob<'_>) -> Result<()> {
    let MergeJob { state, plan, levels } = job;
    if !plan.is_whole() {
        while may_flush(job) && flush_oldest(state)? {}
        return Ok(());
    }
    if state.versions.sealed() == 0 || !may_flush(job) {
        return Ok(());
    }
    let tables = state.level_0_tables().saturating_sub(levels.level(0).len());
    if tables >= ADDED_TIMES_MAX * state.options.level_0_trigger.max(1) {
        return Err(Error::MergeOvertaken { tables });
    }
    flush_oldest(state).map(|_| ())
}

fn may_flush(MergeJob { state, plan, .. }: MergeJob<'_>) -> bool {
    let has_failed = state.has_flush_failed.load(Ordering::Relaxed);
    !has_failed && (plan.is_whole() || !state.is_crowded())
}

fn flush_until_second_is_done(job: MergeJob<'_>, progress: &Progress) -> Result<()> {
    let state = job.state;
    let is_done = || progress.is_second_done.load(Ordering::Acquire);
    loop {
        flush_meanwhile(job)?;
        if is_done() {
            return Ok(());
        }
        let has_nothing_to_do = || state.versions.sealed() == 0 || !may_flush(job);
        state.signals.wait_while(PART_WAIT, || has_nothing_to_do() && !is_done());
    }
}

/// Writes the part from `middle` on, on a thread of its own.
fn write_second(job: MergeJob<'_>, middle: &[u8], progress: &Progress) -> Result<MergeResult> {
    let state = job.state;
    let _notice = DoneNotice { state, progress };
    let _job = start_job(&COMPACTION);
    // If the system refuses this, requests may have to wait for this thread to be scheduled out.
    let _ = schedule_for_background();
    let range = KeyRange { start: Bound::Included(middle), end: Bound::Unbounded };
    let merged = write_merged(job, &range, || {
        pellucid_thread::give_way();
        progress.check()?;
        state.signals.check_open()
    });
    merged.inspect_err(|_| progress.is_given_up.store(true, Ordering::Release))
}

/// A key with about half of the data before it: the median, weighted by size, of the tables' own
/// middle keys.
fn middle_key(plan: &MergePlan) -> Result<Option<Vec<u8>>> {
    let mut middles = Vec::new();
    for table in plan.tables() {
        let mut cursor = TableCursor::new(std::sync::Arc::clone(table), ReadMode::MayBlock);
        cursor.seek_middle()?;
        if let Some(entry) = cursor.entry() {
            middles.push((entry.key.to_vec(), table.facts().size_bytes));
        }
    }
    middles.sort_unstable();
    let mut rest_bytes = plan.size_bytes() / 2;
    let is_half = |(_, size_bytes): &(Vec<u8>, u64)| {
        let is_within = *size_bytes > rest_bytes;
        rest_bytes = rest_bytes.saturating_sub(*size_bytes);
        is_within
    };
    let middle = middles.iter().position(is_half);
    Ok(middle.map(|place| middles.swap_remove(place).0))
}
