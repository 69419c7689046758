//! The new segment that garbage collection writes to replace a run of segments.
//!
//! Records keep their sequence numbers and their bytes, so no reference to them changes.

use std::path::PathBuf;
use std::sync::Arc;

use pellucid_io::{File, MapMode};

use super::files::SegmentFiles;
use super::footer::{decode_footer, encode_collected_footer};
use super::garbage::SegmentRun;
use super::held_file::HeldFile;
use super::segment::{Segment, SegmentFile, segment_path};
use crate::codec::{FileHeader, FileKind};
use crate::error::{Error, Result};
use crate::header_form::RECORD_ALIGNMENT;

/// Records are written to the new file in pieces of this size, in bytes, aligned to it: the page
/// cache can then use large pages, and a GET needs fewer page-table look-ups.
const WRITE_LENGTH: usize = 2 << 20;

/// Writes a collected segment. If it is dropped before it is finished, it removes its file.
pub(crate) struct SegmentRewriter<'a> {
    files: &'a SegmentFiles,
    run: &'a SegmentRun,
    number: u64,
    path: PathBuf,
    new_path: PathBuf,
    file: Arc<dyn File>,
    /// Records that are not written yet.
    buffer: Vec<u8>,
    /// The offset in the file at which the buffer will be written.
    offset: u64,
    pairs: Vec<(u32, u32)>,
    is_finished: bool,
}

impl<'a> SegmentRewriter<'a> {
    /// Creates the segment that will replace `run`.
    pub(crate) fn create(files: &'a SegmentFiles, run: &'a SegmentRun) -> Result<Self> {
        let number = files.next_number();
        let path = segment_path(files.directory(), number);
        let new_path = path.with_extension("journal.new");
        let file = files.file_system().create(&new_path);
        let file = file.map_err(|error| Error::io("create", &new_path, error))?;
        let header = FileHeader {
            first_sequence: run.first_sequence,
            ..FileHeader::new(FileKind::Journal, files.store_identity(), number)
        };
        Ok(SegmentRewriter {
            files,
            run,
            number,
            path,
            new_path,
            file,
            buffer: header.encode().to_vec(),
            offset: 0,
            pairs: Vec::new(),
            is_finished: false,
        })
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io("write", &self.new_path, error)
    }

    fn end(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Adds the record with `sequence`; `bytes` include its padding.
    pub(crate) fn add(&mut self, sequence: u64, bytes: &[u8]) -> Result<()> {
        let distance = u32::try_from(sequence - self.run.first_sequence);
        let offset = u32::try_from(self.end() / RECORD_ALIGNMENT);
        let (Ok(distance), Ok(offset)) = (distance, offset) else {
            let error = std::io::Error::other("the segments span too much to become one");
            return Err(self.failed(error));
        };
        self.pairs.push((distance, offset));
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= WRITE_LENGTH {
            self.write_out(WRITE_LENGTH)?;
        }
        Ok(())
    }

    /// Writes the first `length` bytes of the buffer.
    fn write_out(&mut self, length: usize) -> Result<()> {
        let written = self.file.write_all_at(&self.buffer[..length], self.offset);
        written.map_err(|error| self.failed(error))?;
        self.offset += length as u64;
        self.buffer.drain(..length);
        Ok(())
    }

    /// Makes the segment durable under its name, and opens it.
    pub(crate) fn finish(mut self, clean_sequence: u64) -> Result<Arc<Segment>> {
        let SegmentRun { first_sequence: first, last_sequence: last, .. } = *self.run;
        let (identity, end, number) = (self.files.store_identity(), self.end(), self.number);
        let sequences = (last, clean_sequence);
        let footer = encode_collected_footer(identity, number, first, sequences, end, &self.pairs);
        self.buffer.extend_from_slice(&footer);
        self.write_out(self.buffer.len())?;
        let settle = || {
            self.file.sync()?;
            self.files.file_system().rename(&self.new_path, &self.path)?;
            self.files.file_system().sync_directory(&self.files.folder())?;
            self.file.map(self.offset, MapMode::ReadRandom)
        };
        let map = settle().map_err(|error| Error::io("write", &self.path, error))?;
        let footer = decode_footer(map.bytes(), identity, number, first)
            .map_err(|_| Error::corruption(&self.path, end, "the footer reads back wrong"))?;
        self.is_finished = true;
        let (path, seed) = (self.path.clone(), self.files.store_seed());
        let shared = SegmentFile::new(number, path, HeldFile::closed(), map, seed);
        Ok(Arc::new(Segment::sealed(Arc::new(shared), first, footer)))
    }
}

impl Drop for SegmentRewriter<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.files.remove(&self.new_path);
            self.files.remove(&self.path);
        }
    }
}
