//! The parts of a table's file that an opening reads: header, filter, index and closing.
//!
//! A page fault in a map makes the system read ahead around the page, possibly the whole table. So
//! just these bytes are requested, for many files before the first is waited for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pellucid_io::{File, FileSystem};

use super::closing::filter_begin;
use super::{CLOSING_SIZE_BYTES, TableFacts, table_path};
use crate::codec::FILE_HEADER_LENGTH;
use crate::error::{Error, Result};

/// The bytes in front of the filter that are also requested: usually the last block, which tells
/// the highest table number in use.
const LAST_BLOCK_BYTES: u64 = 4 << 10;

/// The file of a table whose ends were requested.
pub(crate) struct TableFile {
    pub(super) facts: TableFacts,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
}

impl TableFile {
    /// Opens the file of the table that the manifest names with `facts`, and requests its header
    /// and its closing.
    pub(crate) fn open(
        fs: &dyn FileSystem,
        directory: &Path,
        facts: TableFacts,
    ) -> Result<TableFile> {
        let path = table_path(directory, facts.number);
        let file = fs.open(&path, false).map_err(|error| Error::io("open", &path, error))?;
        let length = file.length().map_err(|error| Error::io("measure", &path, error))?;
        if length != facts.size_bytes {
            let what = format!("the file has {length} bytes, not {}", facts.size_bytes);
            return Err(Error::corruption(&path, length.min(facts.size_bytes), what));
        }
        file.will_need(0, FILE_HEADER_LENGTH);
        let closing_offset = length.saturating_sub(CLOSING_SIZE_BYTES as u64);
        file.will_need(closing_offset, CLOSING_SIZE_BYTES);
        Ok(TableFile { facts, path, file })
    }

    /// Requests the filter and the index. They are validated later.
    pub(crate) fn expect_parts(&self) -> Result<()> {
        let length = self.facts.size_bytes;
        let Some(closing_offset) = length.checked_sub(CLOSING_SIZE_BYTES as u64) else {
            return Ok(());
        };
        let mut closing = [0; CLOSING_SIZE_BYTES];
        let read = self.file.read_exact_at(&mut closing, closing_offset);
        read.map_err(|error| Error::io("read", &self.path, error))?;
        if let Some(begin) = filter_begin(&closing).filter(|begin| *begin < length) {
            let begin = begin.saturating_sub(LAST_BLOCK_BYTES);
            self.file.will_need(begin, (length - begin) as usize);
        }
        Ok(())
    }
}
