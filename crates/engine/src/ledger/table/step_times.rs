//! A look-up in a table with timing of its steps, for samples. It gives the same answers as
//! [`Table::get`], and is separate so that other look-ups do not pay for the timing.

use pellucid_account::EngineCounts;
use pellucid_clock::Ticks;
use pellucid_io::any_unreadable;

use super::directories::count_absent;
use super::reader::Table;
use crate::counter_set::ThreadCounters;
use crate::error::{Error, Result};
use crate::figures::Sampled;
use crate::ledger::{FoundEntry, LookupRequest};
use crate::read_mode::ReadMode;
use crate::stats::Steps;

/// The times of the steps of one look-up in one table.
pub(crate) struct StepTimes<'a> {
    counting: &'a ThreadCounters<'a>,
    steps: &'a Steps,
    began: Ticks,
}

impl<'a> StepTimes<'a> {
    /// Begins the first step. The times are added to `steps`.
    pub(crate) fn begin(counting: &'a ThreadCounters<'a>, steps: &'a Steps) -> StepTimes<'a> {
        StepTimes { counting, steps, began: counting.now() }
    }

    /// Adds the time since the last step to `step`, and begins the next step.
    fn end(&mut self, step: fn(&Steps) -> &Sampled) {
        self.began = self.counting.add_sample(step(self.steps), self.began);
    }

    /// Restarts the current step: the time since the last one does not count.
    fn begin_anew(&mut self) {
        self.began = self.counting.now();
    }
}

/// Looks up as [`Table::get`] does, and records the times of the steps.
#[cold]
pub(crate) fn get_by_steps(
    table: &Table,
    sought: &LookupRequest<'_>,
    counts: &mut EngineCounts,
    steps: &mut StepTimes<'_>,
) -> Result<Option<FoundEntry>> {
    let found = find_by_steps(table, sought, counts, steps);
    if any_unreadable() {
        table.check_way_to(sought.key)?;
    }
    found
}

fn find_by_steps(
    table: &Table,
    sought: &LookupRequest<'_>,
    counts: &mut EngineCounts,
    steps: &mut StepTimes<'_>,
) -> Result<Option<FoundEntry>> {
    steps.begin_anew();
    if let Some(directory) = table.directories().keys() {
        let blocks_before = counts.blocks;
        let found = directory.find(sought.hash, |place, _| {
            steps.end(|of| &of.directory);
            let found = fetch(table, place.block, sought.mode, steps)
                .and_then(|()| table.get_at(place, sought, counts));
            steps.end(|of| &of.search);
            found.transpose()
        });
        if found.is_none() {
            if counts.blocks == blocks_before {
                steps.end(|of| &of.directory);
            }
            count_absent(blocks_before, counts);
        }
        return found.transpose().map(Option::flatten);
    }
    let passes = table.passes_filter(sought.hash);
    steps.end(|of| &of.filter);
    if !passes {
        counts.filters_excluded = counts.filters_excluded.saturating_add(1);
        return Ok(None);
    }
    let block = table.blocks().find(sought.key);
    steps.end(|of| &of.index);
    if block < table.blocks().count() {
        fetch(table, block, sought.mode, steps)?;
    }
    let found = table.search_from(block, sought, counts);
    steps.end(|of| &of.search);
    found
}

/// Waits until a block is completely in memory.
fn fetch(table: &Table, block: usize, mode: ReadMode, steps: &mut StepTimes<'_>) -> Result<()> {
    let blocks = table.blocks();
    let is_resident = blocks.is_resident(block);
    if mode == ReadMode::InMemory && !is_resident {
        return Err(Error::NotInMemory);
    }
    steps.begin_anew();
    std::hint::black_box(blocks.open(block, mode)?);
    // A block may end in another page than it begins in.
    std::hint::black_box(blocks.last_byte(block));
    steps.end(if is_resident { |of| &of.fetch_cached } else { |of| &of.fetch_disk });
    Ok(())
}
