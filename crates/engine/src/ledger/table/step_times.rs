//! The times of the steps of a look-up in a table, for samples.

use pellucid_clock::Ticks;

use super::blocks::TableBlocks;
use crate::counter_set::ThreadCounters;
use crate::error::{Error, Result};
use crate::figures::Sampled;
use crate::read_mode::ReadMode;
use crate::stats::Steps;

/// A recorder of the steps of a look-up.
pub(crate) trait StepRecorder {
    /// Ends `step`, and begins the next one.
    #[inline]
    fn end(&mut self, _step: fn(&Steps) -> &Sampled) {}

    /// Waits until a block is completely in memory, if that is a step of its own.
    #[inline]
    fn fetch(&mut self, _blocks: &TableBlocks, _block: usize, _mode: ReadMode) -> Result<()> {
        Ok(())
    }
}

/// The recorder for most look-ups, which pay nothing for it.
pub(crate) struct NoStepRecorder;

impl StepRecorder for NoStepRecorder {}

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
}

impl StepRecorder for StepTimes<'_> {
    fn end(&mut self, step: fn(&Steps) -> &Sampled) {
        self.began = self.counting.add_sample(step(self.steps), self.began);
    }

    fn fetch(&mut self, blocks: &TableBlocks, block: usize, mode: ReadMode) -> Result<()> {
        let is_resident = blocks.is_resident(block);
        if mode == ReadMode::InMemory && !is_resident {
            return Err(Error::NotInMemory);
        }
        self.began = self.counting.now();
        std::hint::black_box(blocks.open(block, mode)?);
        // A block may end in another page than it begins in.
        std::hint::black_box(blocks.last_byte(block));
        self.end(if is_resident { |of| &of.fetch_cached } else { |of| &of.fetch_disk });
        Ok(())
    }
}
