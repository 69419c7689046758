//! The memory of a query.

use pellucid_budget::Share;

use crate::{KillSwitch, Result};

/// From how many bytes on a batch of rows is not added to: this, or a share of the query's memory.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// The number of batches, one for each loop, that should fit into the memory of a query.
const BATCHES_USUAL: usize = 16;

/// The memory that a query takes.
pub(crate) struct QueryMemory {
    share: Share,
    kill: KillSwitch,
    /// The part of the share that goes back only when the query ends.
    lasting_bytes: usize,
    /// The part of the share for the rows that a node is about to give.
    batch_bytes: usize,
    /// From how many of them on no row is added.
    batch_bytes_max: usize,
    peak_bytes: usize,
}

impl QueryMemory {
    /// Memory of this share, of which `kill` tells others.
    pub(crate) fn new(share: Share, kill: KillSwitch) -> Self {
        let batch_bytes_max = (share.bytes_max() / BATCHES_USUAL).min(BATCH_BYTES_MAX);
        Self { share, kill, lasting_bytes: 0, batch_bytes: 0, batch_bytes_max, peak_bytes: 0 }
    }

    pub(crate) fn into_share(self) -> Share {
        self.share
    }

    /// Takes memory, before it is allocated.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        self.share.take(bytes)?;
        let peak_bytes = self.share.peak_bytes();
        if peak_bytes > self.peak_bytes {
            self.peak_bytes = peak_bytes;
            self.kill.note_peak_memory(peak_bytes);
        }
        Ok(())
    }

    /// As [`Self::take`], for what stays until the query ends.
    pub(crate) fn take_lasting(&mut self, bytes: usize) -> Result<()> {
        self.take(bytes)?;
        self.lasting_bytes += bytes;
        Ok(())
    }

    /// Begins a batch of rows of a node; gives the bytes of the one around it.
    pub(crate) fn begin_batch(&mut self) -> usize {
        std::mem::take(&mut self.batch_bytes)
    }

    /// Ends a batch, goes on with the one around it, and gives the bytes of the one that ended:
    /// they count until they are freed.
    pub(crate) fn end_batch(&mut self, outer_bytes: usize) -> usize {
        std::mem::replace(&mut self.batch_bytes, outer_bytes)
    }

    /// As [`Self::take`], for a row of the batch.
    pub(crate) fn take_for_batch(&mut self, bytes: usize) -> Result<()> {
        self.take(bytes)?;
        self.batch_bytes += bytes;
        Ok(())
    }

    /// Takes note of a row that is not given after all.
    pub(crate) fn free_of_batch(&mut self, bytes: usize) {
        self.batch_bytes = self.batch_bytes.saturating_sub(bytes);
        self.free(bytes);
    }

    /// True if the batch should not be added to: large rows come in smaller batches.
    pub(crate) fn is_batch_full(&self) -> bool {
        self.batch_bytes >= self.batch_bytes_max
    }

    /// Bytes that are taken now.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.share.held_bytes()
    }

    /// Bytes that are taken now and may be free again before the query ends.
    pub(crate) fn passing_bytes(&self) -> usize {
        self.share.held_bytes() - self.lasting_bytes
    }

    /// The most bytes that were taken at once.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// Takes note that all is free again that was taken since there were so many passing bytes.
    pub(crate) fn free_down_to(&mut self, bytes: usize) {
        self.share.give_back(self.passing_bytes().saturating_sub(bytes));
    }

    /// Takes note of memory that is free again.
    pub(crate) fn free(&mut self, bytes: usize) {
        self.share.give_back(bytes.min(self.passing_bytes()));
    }
}
