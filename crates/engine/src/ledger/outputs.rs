//! The output of a merge: new tables with the entries that may still be needed, and a list of the
//! entries that were dropped.

use super::job_sampler::JobSampler;
use super::merge::Merge;
use super::options::lies_before;
use super::picker::MergePlan;
use super::state::{ENTRIES_A_SLICE, LedgerState};
use super::table::TableWriter;
use super::table_files::WrittenTable;
use super::version::Levels;
use super::{Direction, DroppedEntry, DroppedList, Entry, KeyRange, Verdict};
use crate::error::Result;
use crate::figures::Figure;
use crate::stats::JobFigures;

/// A merge that is to be done.
#[derive(Clone, Copy)]
pub(super) struct MergeJob<'a> {
    pub(super) state: &'a LedgerState,
    pub(super) plan: &'a MergePlan,
    /// The tables at its beginning.
    pub(super) levels: &'a Levels,
}

/// The outcome of a merge, or of a part of one.
pub(super) struct MergeResult {
    /// The new tables, which no manifest names yet.
    pub(super) tables: Vec<WrittenTable>,
    /// The entries that were dropped.
    pub(super) dropped: DroppedList,
    /// The counts and times.
    pub(super) stats: JobFigures,
}

impl MergeResult {
    /// Joins two parts; `next` has the keys behind those of `self`.
    pub(super) fn and(mut self, next: MergeResult) -> MergeResult {
        self.tables.extend(next.tables);
        self.dropped.join(next.dropped);
        self.stats.add(&next.stats);
        self.stats.in_parts = 1;
        self
    }

    /// The numbers of the tables.
    pub(super) fn numbers(&self) -> Vec<u64> {
        self.tables.iter().map(|table| table.number()).collect()
    }
}

/// The output of a merge while it runs.
struct Outputs<'a> {
    state: &'a LedgerState,
    /// The numbers of all tables so far.
    numbers: Vec<u64>,
    /// The table that is being written.
    writer: Option<TableWriter>,
    result: MergeResult,
}

impl Outputs<'_> {
    fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        let state = self.state;
        // All versions of a key stay in one table, because a look-up asks only one table of a
        // level.
        let memory_max_bytes = state.files.writer_memory_max_bytes();
        let is_full = |writer: &TableWriter| {
            (writer.size_bytes() >= state.options.table_size_bytes
                || writer.memory_bytes() >= memory_max_bytes)
                && writer.last_key() != entry.key
        };
        if self.writer.as_ref().is_some_and(is_full) {
            self.finish()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let number = state.files.take_number();
                self.numbers.push(number);
                none.insert(state.files.create(number)?)
            }
        };
        writer.add(entry)
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let (written, times) = self.state.files.finish(writer)?;
            self.result.stats.add(&times);
            self.result.tables.push(written);
        }
        Ok(())
    }

    /// The time of all writers so far, in nanoseconds.
    fn writers_ns(&self) -> u64 {
        let current = self.writer.as_ref().map_or(0, |writer| writer.times().writers_ns());
        self.result.stats.writers_ns() + current
    }

    fn run(
        &mut self,
        MergeJob { state, plan, levels }: MergeJob<'_>,
        range: &KeyRange<'_>,
        mut go_on: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut merge = Merge::new(plan.sources(), range, Direction::Forward)?;
        let mut retention = state.snapshots.retention(state.link.now_ms());
        let mut stages = JobSampler::new(state.options.clock);
        while let Some(entry) = merge.entry().filter(|entry| lies_before(entry.key, range.end)) {
            let sample = stages.begin(|| self.writers_ns());
            if !retention.is_followed_by(&entry) {
                return Err(merge.out_of_order());
            }
            let is_deepest = || !levels.may_hold_below(plan.to(), entry.key);
            match retention.judge(&entry, is_deepest) {
                Verdict::Kept => self.add(&entry)?,
                verdict => self.result.dropped.push(&DroppedEntry::of(&entry, verdict))?,
            }
            let sample = sample
                .map(|sample| stages.built(sample, self.writers_ns(), &mut self.result.stats));
            merge.advance()?;
            let stats = &mut self.result.stats;
            if let Some(sample) = sample {
                stages.merged(sample, stats);
            }
            stats.entries_in += 1;
            if stats.entries_in.is_multiple_of(ENTRIES_A_SLICE) {
                go_on()?;
            }
        }
        self.result.dropped.close()?;
        self.finish()
    }
}

/// Merges the entries of `job` in `range`, and calls `go_on` after each slice of entries. If the
/// merge fails, the tables written so far are removed.
pub(super) fn write_merged(
    job: MergeJob<'_>,
    range: &KeyRange<'_>,
    go_on: impl FnMut() -> Result<()>,
) -> Result<MergeResult> {
    let state = job.state;
    let (dropped, stats) = (state.files.dropped_list(), JobFigures::default());
    let result = MergeResult { tables: Vec::new(), dropped, stats };
    let mut outputs = Outputs { state, numbers: Vec::new(), writer: None, result };
    let written = outputs.run(job, range, go_on);
    written.inspect_err(|_| state.files.remove(outputs.numbers.iter().copied()))?;
    let mut result = outputs.result;
    result.stats.entries_dropped = result.dropped.count();
    Ok(result)
}
