//! The output file of a table that is being written: a write buffer, and checksums of the parts.

use std::path::PathBuf;
use std::sync::Arc;

use pellucid_clock::Clock;
use pellucid_io::File;

use super::part_seed;
use crate::codec::{FileHeader, FileKind, checksum, checksum_seed};
use crate::error::{Error, Result};
use crate::stats::JobFigures;

/// The size of the pieces in which the file is written, in bytes; each is written at a multiple of
/// it. The page cache takes a piece as one large page, and a kernel without preemption runs nothing
/// else meanwhile. Pieces of 2 MiB held up requests for 5 ms if the host had to find the memory
/// first, and look-ups are as fast with this size (docs/lab/2026-11-24-request-path.md).
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// The file of a table that is being written.
pub(super) struct TableOutput {
    file: Arc<dyn File>,
    path: PathBuf,
    store_identity: u64,
    number: u64,
    clock: Clock,
    /// The bytes that are not written to the file yet.
    pub(super) buffer: Vec<u8>,
    written_bytes: u64,
    /// The times of building filter and index, writing and syncing.
    pub(super) times: JobFigures,
}

impl TableOutput {
    /// The output for the empty file of table `number`, with the file header in the buffer.
    pub(super) fn new(
        file: Arc<dyn File>,
        path: PathBuf,
        (store_identity, number): (u64, u64),
        clock: Clock,
        block_size_bytes: usize,
    ) -> TableOutput {
        let mut buffer = Vec::with_capacity(WRITE_BUFFER_BYTES + block_size_bytes);
        let header = FileHeader::new(FileKind::Table, store_identity, number);
        buffer.extend_from_slice(&header.encode());
        let times = JobFigures::default();
        TableOutput { file, path, store_identity, number, clock, buffer, written_bytes: 0, times }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The file offset of the end of the buffer.
    pub(super) fn offset(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    /// The initial CRC of the footer.
    pub(super) fn closing_seed(&self) -> u32 {
        checksum_seed(&[self.store_identity, self.number])
    }

    /// Pads the buffer with zeros up to the next multiple of `alignment` in the file.
    pub(super) fn align(&mut self, alignment: u64) {
        let missing = self.offset().next_multiple_of(alignment) - self.offset();
        self.buffer.resize(self.buffer.len() + missing as usize, 0);
    }

    /// Sets the checksum of the part that begins at `begin` in the buffer and ends at its end.
    pub(super) fn seal(&mut self, begin: usize) {
        let offset = self.written_bytes + begin as u64;
        let seed = part_seed(self.store_identity, self.number, offset);
        let sum = checksum(seed, &self.buffer[begin + 4..]);
        self.buffer[begin..begin + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Writes all complete pieces of the buffer.
    pub(super) fn write_pieces(&mut self) -> Result<()> {
        if self.buffer.len() < WRITE_BUFFER_BYTES {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let whole = buffer.len() - buffer.len() % WRITE_BUFFER_BYTES;
        for piece in buffer[..whole].chunks(WRITE_BUFFER_BYTES) {
            self.write_piece(piece)?;
        }
        buffer.drain(..whole);
        self.buffer = buffer;
        Ok(())
    }

    fn write_piece(&mut self, piece: &[u8]) -> Result<()> {
        let begun = self.clock.stopwatch();
        self.file
            .write_all_at(piece, self.written_bytes)
            .map_err(|error| Error::io("write", &self.path, error))?;
        self.times.write_ns += begun.elapsed_ns();
        self.written_bytes += piece.len() as u64;
        Ok(())
    }

    /// Writes the rest of the buffer, syncs the file, and returns its size.
    pub(super) fn finish(&mut self) -> Result<u64> {
        let rest = std::mem::take(&mut self.buffer);
        for piece in rest.chunks(WRITE_BUFFER_BYTES) {
            self.write_piece(piece)?;
        }
        let begun = self.clock.stopwatch();
        self.file.sync().map_err(|error| Error::io("sync", &self.path, error))?;
        self.times.sync_ns += begun.elapsed_ns();
        Ok(self.written_bytes)
    }
}
