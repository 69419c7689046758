//! The journal's files: their numbers, and how they are made and removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_io::{FileSystem, MapMode};
use pellucid_thread::Job;

use super::held_file::HeldFile;
use super::segment::{JOURNAL_FOLDER, SegmentFile, segment_path};
use crate::codec::{FileHeader, FileKind, checksum_seed};
use crate::error::{Error, Result};

/// The job of the threads that prepare and seal segments.
pub(super) static SEGMENTS: Job = Job::new("segments");

/// The files of one store's journal.
pub(crate) struct SegmentFiles {
    file_system: Arc<dyn FileSystem>,
    directory: PathBuf,
    store_identity: u64,
    store_seed: u32,
    mount_identity: [u8; 16],
    next_number: AtomicU64,
}

impl SegmentFiles {
    /// The files of the journal in the store's directory; `next_number` is the number of the next
    /// new segment.
    pub(crate) fn new(
        file_system: Arc<dyn FileSystem>,
        directory: PathBuf,
        store_identity: u64,
        next_number: u64,
    ) -> SegmentFiles {
        SegmentFiles {
            mount_identity: file_system.mount_identity(&directory),
            file_system,
            directory,
            store_identity,
            store_seed: checksum_seed(&[store_identity]),
            next_number: AtomicU64::new(next_number),
        }
    }

    pub(super) fn file_system(&self) -> &dyn FileSystem {
        &*self.file_system
    }

    /// The directory of the store.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The folder of the segments.
    pub(super) fn folder(&self) -> PathBuf {
        self.directory.join(JOURNAL_FOLDER)
    }

    pub(crate) fn store_identity(&self) -> u64 {
        self.store_identity
    }

    /// The seed of the records' checksums.
    pub(super) fn store_seed(&self) -> u32 {
        self.store_seed
    }

    /// A segment number that was never used before.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The header of a segment; `first_sequence` is 0 if the segment has no records yet.
    pub(super) fn header(&self, number: u64, first_sequence: u64) -> FileHeader {
        FileHeader {
            first_sequence,
            mount_identity: self.mount_identity,
            ..FileHeader::new(FileKind::Journal, self.store_identity, number)
        }
    }

    /// Creates a segment's file, whose header says that it has no records yet. Its name and its
    /// space are durable on return.
    pub(super) fn make(&self, size_bytes: u64) -> Result<Arc<SegmentFile>> {
        let number = self.next_number();
        let path = segment_path(&self.directory, number);
        let new_path = path.with_extension("journal.new");
        let make = || {
            let file = self.file_system.create(&new_path)?;
            file.allocate(size_bytes)?;
            file.write_all_at(&self.header(number, 0).encode(), 0)?;
            file.sync()?;
            // Renamed only now, so that no loss of power leaves a segment's name on a file without
            // a header.
            self.file_system.rename(&new_path, &path)?;
            self.file_system.sync_directory(&self.folder())?;
            let map = file.map(size_bytes, MapMode::Write)?;
            Ok((HeldFile::open(file), map))
        };
        match make() {
            Ok((file, map)) => {
                Ok(Arc::new(SegmentFile::new(number, path, file, map, self.store_seed)))
            }
            Err(error) => {
                self.remove(&new_path);
                self.remove(&path);
                Err(Error::io("make a segment", &path, error))
            }
        }
    }

    /// Removes a file that is no longer needed. If that fails, the next opening removes it.
    pub(super) fn remove(&self, path: &Path) {
        let _ = self.file_system.remove(path);
    }

    /// The error for a record that is missing although it must exist.
    pub(super) fn missing(&self, sequence: u64) -> Error {
        let what = format!("no segment holds sequence {sequence}");
        Error::corruption(&self.folder(), 0, what)
    }
}
