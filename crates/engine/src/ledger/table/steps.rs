//! A look-up in a table, step by step, for the samples that tell where its time goes. It answers as
//! [`Table::get`] does, and is kept apart from it, so that others pay nothing for it.

use pellucid_account::EngineCounts;
use pellucid_clock::{Clock, Ticks};
use pellucid_io::any_unreadable;

use super::reader::{Table, count_absent};
use crate::error::{Error, Result};
use crate::ledger::FoundEntry;
use crate::resident::is_required;

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
    /// How often each step was taken, and its ticks.
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

impl Table {
    /// As [`Table::get`], with the times of its steps.
    #[cold]
    pub(crate) fn get_by_steps(
        &self,
        sought: (&[u8], u64, u64),
        counts: &mut EngineCounts,
        steps: &mut StepTimes,
    ) -> Result<Option<FoundEntry>> {
        let found = self.find_by_steps(sought, counts, steps);
        if any_unreadable() {
            self.check_way_to(sought.0)?;
        }
        found
    }

    fn find_by_steps(
        &self,
        (key, hash, at_sequence): (&[u8], u64, u64),
        counts: &mut EngineCounts,
        steps: &mut StepTimes,
    ) -> Result<Option<FoundEntry>> {
        steps.begin_anew();
        if let Some(directory) = self.directory() {
            let blocks_before = counts.blocks;
            let found = directory.find(hash, |place, _| {
                steps.end(Step::Directory);
                let found = self
                    .fetch(place.block, steps)
                    .and_then(|()| self.get_at(place, key, at_sequence, counts));
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
        let passes = self.passes_filter(hash);
        steps.end(Step::Filter);
        if !passes {
            counts.filters_excluded = counts.filters_excluded.saturating_add(1);
            return Ok(None);
        }
        let block = self.block_for(key);
        steps.end(Step::Index);
        if block < self.blocks() {
            self.fetch(block, steps)?;
        }
        let found = self.search_blocks(key, block, at_sequence, counts);
        steps.end(Step::Search);
        found
    }

    /// Waits until all of a block is there.
    fn fetch(&self, block: usize, steps: &mut StepTimes) -> Result<()> {
        let step = match self.is_block_resident(block) {
            true => Step::FetchCached,
            false if is_required() => return Err(Error::NotInMemory),
            false => Step::FetchDisk,
        };
        steps.begin_anew();
        std::hint::black_box(self.open_block(block)?);
        // A block may end in another page than it begins in.
        std::hint::black_box(self.last_byte(block));
        steps.end(step);
        Ok(())
    }
}
