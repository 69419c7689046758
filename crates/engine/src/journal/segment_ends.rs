//! The parts of a segment's file that an opening reads: the header and the footer, about a
//! hundredth of the file.
//!
//! A page fault in a map makes the system read ahead around the page: megabytes per segment, none
//! of which an opening needs. So just these bytes are requested, for many files before the first is
//! waited for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pellucid_io::{File, FileSystem};

use super::footer::{FOOTER_FIXED_LENGTH, footer_offset};
use super::segment::segment_path;
use crate::codec::FILE_HEADER_LENGTH;
use crate::error::{Error, Result};

/// The number of files that are requested together.
pub(super) const ASKED_TOGETHER: usize = 64;

/// The file of a segment whose ends were requested.
pub(super) struct SegmentEnds {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
    pub(super) length: u64,
}

impl SegmentEnds {
    /// Opens segment `number` of the store in `directory`, and requests its header and the fixed
    /// part of its footer.
    pub(super) fn open(
        files: &dyn FileSystem,
        directory: &Path,
        number: u64,
        writes: bool,
    ) -> Result<SegmentEnds> {
        let path = segment_path(directory, number);
        let open = || {
            let file = files.open(&path, writes)?;
            let length = file.length()?;
            file.will_need(0, FILE_HEADER_LENGTH);
            let fixed_offset = length.saturating_sub(FOOTER_FIXED_LENGTH);
            file.will_need(fixed_offset, FOOTER_FIXED_LENGTH as usize);
            Ok((file, length))
        };
        let opened = open().map_err(|error| Error::io("open", &path, error));
        opened.map(|(file, length)| SegmentEnds { number, path, file, length })
    }

    /// Requests the rest of the footer, if there is one. It is validated later.
    pub(super) fn expect_footer(&self) -> Result<()> {
        let Some(fixed_offset) = self.length.checked_sub(FOOTER_FIXED_LENGTH) else {
            return Ok(());
        };
        let mut fixed = [0; FOOTER_FIXED_LENGTH as usize];
        let read = self.file.read_exact_at(&mut fixed, fixed_offset);
        read.map_err(|error| Error::io("open", &self.path, error))?;
        if let Some(offset) = footer_offset(&fixed, self.length) {
            self.file.will_need(offset, (self.length - offset) as usize);
        }
        Ok(())
    }
}
