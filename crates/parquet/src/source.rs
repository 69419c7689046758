//! Positional reads of a file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that does not change while it is read.
pub(crate) struct Source {
    file: File,
    length: u64,
    read: AtomicU64,
}

impl Source {
    pub(crate) fn open(file: File) -> Result<Source, String> {
        let facts = file.metadata().map_err(unreadable)?;
        if !facts.is_file() {
            return Err("it is no file: Parquet is read from its end".to_owned());
        }
        Ok(Source { file, length: facts.len(), read: AtomicU64::new(0) })
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The number of bytes that are processed.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Reads `length` bytes at the offset `at`. A range beyond the end of the file is refused
    /// before memory is allocated.
    pub(crate) fn bytes(&self, at: u64, length: usize) -> Result<Vec<u8>, String> {
        if at.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(format!("the file is cut: it ends at {} bytes", self.length));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at).map_err(unreadable)?;
        Ok(bytes)
    }

    /// Notes that `bytes` more bytes are processed.
    pub(crate) fn note_read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }
}

fn unreadable(error: std::io::Error) -> String {
    format!("it cannot be read: {error}")
}
