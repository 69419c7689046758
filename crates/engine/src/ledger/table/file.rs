//! The parts of a table's file that an opening reads: header, filter, index and closing.
//!
//! The system reads around a page of a map that is not in memory, as far as it is told to read
//! ahead, and that may be all of the table. So these bytes alone are asked for, and in many files
//! before the first of them is waited for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pellucid_io::{File, FileSystem};

use super::closing::filter_begin;
use super::{CLOSING_SIZE_BYTES, TableFacts, table_path};
use crate::codec::FILE_HEADER_LENGTH;
use crate::error::{Error, Result};

/// The bytes asked for in front of the filter: the last block, as a rule, which says up to which
/// number tables are taken.
const LAST_BLOCK_BYTES: u64 = 4 << 10;

/// The file of a table, whose ends were asked for.
pub(crate) struct TableFile {
    pub(super) facts: TableFacts,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
}

impl TableFile {
    /// Opens the file of the table that the manifest names with `facts`, and asks for its header
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

    /// Asks for filter and index. Whether they are sound is seen later.
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
