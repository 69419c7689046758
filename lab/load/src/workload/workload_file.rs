//! Positions in the file, so that a mistake can be reported with its line.

use std::ops::Range;
use std::path::Path;

/// The text of a file, and the folder to which paths in it are relative.
pub(super) struct WorkloadFile<'text> {
    pub(super) text: &'text str,
    pub(super) folder: &'text Path,
}

/// The line of a mistake, from 1, and a message about it.
pub(super) type ParseError = (usize, String);

impl WorkloadFile<'_> {
    /// The line in which a range of bytes begins.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(span.start);
        before.filter(|byte| **byte == b'\n').count() + 1
    }

    /// A mistake at a range of bytes.
    pub(super) fn mistake(&self, span: &Range<usize>, text: impl Into<String>) -> ParseError {
        (self.line(span), text.into())
    }
}
