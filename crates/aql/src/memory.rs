//! The accounting of a query's memory.

use pellucid_budget::Share;

use crate::{KillSwitch, Result};

/// The bytes at which a batch of rows ends, if the query's memory does not make it end earlier.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// The number of batches, one for each loop, that have to fit in the memory of a query.
const BATCHES_USUAL: usize = 16;

/// The memory that a query takes.
pub(crate) struct QueryMemory {
    share: Share,
    kill: KillSwitch,
    /// The part of the share that is freed only at the end of the query.
    lasting_bytes: usize,
    /// The part of the share for the current batch of rows.
    batch_bytes: usize,
    /// The bytes at which a batch is full.
    batch_bytes_max: usize,
    peak_bytes: usize,
}

impl QueryMemory {
    /// Makes the account of this share. The peak is reported by `kill`.
    pub(crate) fn new(share: Share, kill: KillSwitch) -> Self {
        let batch_bytes_max = (share.bytes_max() / BATCHES_USUAL).min(BATCH_BYTES_MAX);
        Self { share, kill, lasting_bytes: 0, batch_bytes: 0, batch_bytes_max, peak_bytes: 0 }
    }

    pub(crate) fn into_share(self) -> Share {
        self.share
    }

    /// Takes memory. It is called before the memory is allocated.
    ///
    /// # Errors
    /// 32 if there is not enough.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        self.share.take(bytes)?;
        let peak_bytes = self.share.peak_bytes();
        if peak_bytes > self.peak_bytes {
            self.peak_bytes = peak_bytes;
            self.kill.note_peak_memory(peak_bytes);
        }
        Ok(())
    }

    /// As [`Self::take`], for memory that is kept until the query ends.
    pub(crate) fn take_lasting(&mut self, bytes: usize) -> Result<()> {
        self.take(bytes)?;
        self.lasting_bytes += bytes;
        Ok(())
    }

    /// Begins a batch of rows of a node. Returns the bytes of the enclosing batch.
    pub(crate) fn begin_batch(&mut self) -> usize {
        std::mem::take(&mut self.batch_bytes)
    }

    /// Ends a batch and continues the enclosing one. Returns the bytes of the batch that ended,
    /// which count until they are freed.
    pub(crate) fn end_batch(&mut self, outer_bytes: usize) -> usize {
        std::mem::replace(&mut self.batch_bytes, outer_bytes)
    }

    /// As [`Self::take`], for a row of the batch.
    pub(crate) fn take_for_batch(&mut self, bytes: usize) -> Result<()> {
        self.take(bytes)?;
        self.batch_bytes += bytes;
        Ok(())
    }

    /// Frees a row that was removed from the batch.
    pub(crate) fn free_of_batch(&mut self, bytes: usize) {
        self.batch_bytes = self.batch_bytes.saturating_sub(bytes);
        self.free(bytes);
    }

    /// True if the batch is full, so that batches of large rows have fewer rows.
    pub(crate) fn is_batch_full(&self) -> bool {
        self.batch_bytes >= self.batch_bytes_max
    }

    /// The bytes that are taken at present.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.share.held_bytes()
    }

    /// The bytes that are taken at present and can be freed before the query ends.
    pub(crate) fn passing_bytes(&self) -> usize {
        self.share.held_bytes() - self.lasting_bytes
    }

    /// The most bytes that were taken at once.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// Frees all memory that was taken since [`Self::passing_bytes`] returned `bytes`.
    pub(crate) fn free_down_to(&mut self, bytes: usize) {
        self.share.give_back(self.passing_bytes().saturating_sub(bytes));
    }

    /// Frees memory.
    pub(crate) fn free(&mut self, bytes: usize) {
        self.share.give_back(bytes.min(self.passing_bytes()));
    }
}
