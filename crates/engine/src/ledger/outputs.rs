//! The output of a merge: new tables with the entries that may still be needed, and a list of the
//! entries that were dropped.

use super::job_sampler::JobSampler;
use super::merge::Merge;
use super::picker::MergePlan;
use super::snapshots::Retention;
use super::state::{ENTRIES_A_SLICE, LedgerState};
use super::table::{TableWriter, WriterTimes};
use super::table_files::WrittenTable;
use super::version::Levels;
use super::{Direction, DroppedEntry, DroppedList, Entry, KeyRange, Verdict};
use crate::error::Result;
use crate::figures::Figure;
use crate::stats::JobFigures;

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

/// The tables that are being written.
struct Outputs<'a> {
    state: &'a LedgerState,
    writer: Option<TableWriter>,
    finished: Vec<WrittenTable>,
    numbers: Vec<u64>,
    /// The times of the writers of finished tables.
    times: WriterTimes,
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
            self.times.add(times);
            self.finished.push(written);
        }
        Ok(())
    }

    /// The time of all writers so far, in nanoseconds.
    fn writers_ns(&self) -> u64 {
        let current = self.writer.as_ref().map_or(0, |writer| writer.times().sum_ns());
        self.times.sum_ns() + current
    }
}

/// Merges the entries of `plan` in `range`, and calls `go_on` after each slice of entries. If the
/// merge fails, the tables written so far are removed.
pub(super) fn write_merged(
    state: &LedgerState,
    plan: &MergePlan,
    levels: &Levels,
    range: &KeyRange<'_>,
    go_on: impl FnMut() -> Result<()>,
) -> Result<MergeResult> {
    let (finished, numbers) = (Vec::new(), Vec::new());
    let times = WriterTimes::default();
    let mut outputs = Outputs { state, writer: None, finished, numbers, times };
    let mut dropped = state.files.dropped_list();
    let mut stats = JobFigures::default();
    let mut job = MergeJob { plan, levels, range, stats: &mut stats };
    let written = job.run(&mut outputs, &mut dropped, go_on);
    written.inspect_err(|_| state.files.remove(outputs.numbers.iter().copied()))?;
    stats.add_writer(outputs.times);
    stats.entries_dropped = dropped.count();
    Ok(MergeResult { tables: outputs.finished, dropped, stats })
}

/// A merge of a range of keys while it runs.
struct MergeJob<'a> {
    plan: &'a MergePlan,
    levels: &'a Levels,
    range: &'a KeyRange<'a>,
    stats: &'a mut JobFigures,
}

impl MergeJob<'_> {
    fn run(
        &mut self,
        outputs: &mut Outputs<'_>,
        dropped: &mut DroppedList,
        mut go_on: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let state = outputs.state;
        let mut merge = Merge::new(self.plan.sources(), self.range, Direction::Forward)?;
        let mut retention: Retention = state.snapshots.retention(state.link.now_ms());
        let mut stages = JobSampler::new(state.options.clock);
        while let Some(entry) = merge.entry().filter(|entry| self.range.ends_behind(entry.key)) {
            let sample = stages.begin(|| outputs.writers_ns());
            if !retention.is_followed_by(&entry) {
                return Err(merge.out_of_order());
            }
            let is_deepest = || !self.levels.may_hold_below(self.plan.to(), entry.key);
            match retention.judge(&entry, is_deepest) {
                Verdict::Kept => outputs.add(&entry)?,
                verdict => dropped.push(&DroppedEntry::of(&entry, verdict))?,
            }
            let sample =
                sample.map(|sample| stages.built(sample, outputs.writers_ns(), self.stats));
            merge.advance()?;
            if let Some(sample) = sample {
                stages.merged(sample, self.stats);
            }
            self.stats.entries_in += 1;
            if self.stats.entries_in.is_multiple_of(ENTRIES_A_SLICE) {
                go_on()?;
            }
        }
        dropped.close()?;
        outputs.finish()
    }
}
