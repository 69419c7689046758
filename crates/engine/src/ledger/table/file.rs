//! The parts of a table's file that an opening reads: header, filter, index and footer.
//!
//! A page fault in a map makes the system read ahead around the page, possibly the whole table. So
//! just these bytes are requested, for many files before the first is waited for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pellucid_io::{File, FileSystem};

use super::footer::filter_begin;
use super::{FOOTER_SIZE_BYTES, TableMetadata, table_path};
use crate::codec::FILE_HEADER_LENGTH;
use crate::error::{Error, Result};

/// The bytes in front of the filter that are also requested: usually the last block, which tells
/// the highest table number in use.
const LAST_BLOCK_BYTES: u64 = 4 << 10;

/// The file of a table whose ends were requested.
pub(crate) struct TableFile {
    pub(super) facts: TableMetadata,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
}

impl TableFile {
    /// Opens the file of the table that the manifest names with `facts`, and requests its header
    /// and its footer.
    pub(crate) fn open(
        fs: &dyn FileSystem,
        directory: &Path,
        facts: TableMetadata,
    ) -> Result<TableFile> {
        let path = table_path(directory, facts.number);
        let file = fs.open(&path, false).map_err(|error| Error::io("open", &path, error))?;
        let length = file.length().map_err(|error| Error::io("measure", &path, error))?;
        if length != facts.size_bytes {
            let what = format!("the file has {length} bytes, not {}", facts.size_bytes);
            return Err(Error::corruption(&path, length.min(facts.size_bytes), what));
        }
        file.will_need(0, FILE_HEADER_LENGTH);
        let footer_offset = length.saturating_sub(FOOTER_SIZE_BYTES as u64);
        file.will_need(footer_offset, FOOTER_SIZE_BYTES);
        Ok(TableFile { facts, path, file })
    }

    /// Requests the filter and the index. They are validated later.
    pub(crate) fn expect_parts(&self) -> Result<()> {
        let length = self.facts.size_bytes;
        let Some(footer_offset) = length.checked_sub(FOOTER_SIZE_BYTES as u64) else {
            return Ok(());
        };
        let mut footer = [0; FOOTER_SIZE_BYTES];
        let read = self.file.read_exact_at(&mut footer, footer_offset);
        read.map_err(|error| Error::io("read", &self.path, error))?;
        if let Some(begin) = filter_begin(&footer).filter(|begin| *begin < length) {
            let begin = begin.saturating_sub(LAST_BLOCK_BYTES);
            self.file.will_need(begin, (length - begin) as usize);
        }
        Ok(())
    }
}
