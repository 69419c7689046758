//! A look-up in a table, step by step, for the samples that tell where its time goes. It answers as
//! [`Table::get`] does, and is kept apart from it, so that others pay nothing for it.

use pellucid_account::EngineCounts;
use pellucid_clock::{Clock, Ticks};
use pellucid_io::any_unreadable;

use super::directories::count_absent;
use super::reader::Table;
use crate::error::{Error, Result};
use crate::ledger::{FoundEntry, Sought};
use crate::read_mode::ReadMode;

/// A step of a look-up in a table. One with a directory has `Directory` in place of `Filter` and
/// `Index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The directory says where the key is, or that it is not.
    Directory,
    /// The filter says whether the key may be there.
    Filter,
    /// The index says in which block.
    Index,
    /// The block, which was in the page cache, is there; its checksum is checked the first time.
    FetchCached,
    /// The same, and it was not in the page cache.
    FetchDisk,
    /// The entry is found within the block.
    Search,
}

/// Number of steps.
pub(crate) const STEPS: usize = 6;

impl Step {
    /// All of them.
    pub(crate) const ALL: [Step; STEPS] = [
        Step::Directory,
        Step::Filter,
        Step::Index,
        Step::FetchCached,
        Step::FetchDisk,
        Step::Search,
    ];
}

/// The times of the steps of one look-up in one table.
pub(crate) struct StepTimes {
    clock: Clock,
    began: Ticks,
    /// The number of times each step was taken, and its ticks.
    pub(crate) taken: [(u64, u64); STEPS],
}

impl StepTimes {
    /// Begins the first step.
    pub(crate) fn begin(clock: Clock) -> StepTimes {
        StepTimes { clock, began: clock.now(), taken: [(0, 0); STEPS] }
    }

    /// Gives the time since the last step to `step`, and begins the next one.
    fn end(&mut self, step: Step) {
        let now = self.clock.now();
        let (count, ticks) = &mut self.taken[step as usize];
        (*count, *ticks) = (*count + 1, *ticks + now.since(self.began));
        self.began = now;
    }

    /// Begins the next step anew: what was done since the last one is no part of it.
    fn begin_anew(&mut self) {
        self.began = self.clock.now();
    }
}

/// As [`Table::get`], with the times of its steps.
#[cold]
pub(crate) fn get_by_steps(
    table: &Table,
    sought: &Sought<'_>,
    counts: &mut EngineCounts,
    steps: &mut StepTimes,
) -> Result<Option<FoundEntry>> {
    let found = find_by_steps(table, sought, counts, steps);
    if any_unreadable() {
        table.check_way_to(sought.key)?;
    }
    found
}

fn find_by_steps(
    table: &Table,
    sought: &Sought<'_>,
    counts: &mut EngineCounts,
    steps: &mut StepTimes,
) -> Result<Option<FoundEntry>> {
    steps.begin_anew();
    if let Some(directory) = table.directories().keys() {
        let blocks_before = counts.blocks;
        let found = directory.find(sought.hash, |place, _| {
            steps.end(Step::Directory);
            let found = fetch(table, place.block, sought.mode, steps)
                .and_then(|()| table.get_at(place, sought, counts));
            steps.end(Step::Search);
            found.transpose()
        });
        if found.is_none() {
            if counts.blocks == blocks_before {
                steps.end(Step::Directory);
            }
            count_absent(blocks_before, counts);
        }
        return found.transpose().map(Option::flatten);
    }
    let passes = table.passes_filter(sought.hash);
    steps.end(Step::Filter);
    if !passes {
        counts.filters_excluded = counts.filters_excluded.saturating_add(1);
        return Ok(None);
    }
    let block = table.blocks().find(sought.key);
    steps.end(Step::Index);
    if block < table.blocks().count() {
        fetch(table, block, sought.mode, steps)?;
    }
    let found = table.search_from(block, sought, counts);
    steps.end(Step::Search);
    found
}

/// Waits until all of a block is there.
fn fetch(table: &Table, block: usize, mode: ReadMode, steps: &mut StepTimes) -> Result<()> {
    let blocks = table.blocks();
    let step = match blocks.is_resident(block) {
        true => Step::FetchCached,
        false if mode == ReadMode::InMemory => return Err(Error::NotInMemory),
        false => Step::FetchDisk,
    };
    steps.begin_anew();
    std::hint::black_box(blocks.open(block, mode)?);
    // A block may end in another page than it begins in.
    std::hint::black_box(blocks.last_byte(block));
    steps.end(step);
    Ok(())
}
