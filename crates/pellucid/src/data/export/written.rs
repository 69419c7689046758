//! The file of an export while it is written, and how far that is.

use std::path::Path;

use crate::Failure;
use crate::out::Out;
use crate::progress::Progress;

/// See the module.
pub(super) struct Written {
    out: Out,
    progress: Progress,
    /// Bytes that go out with the next piece.
    pub(super) text: Vec<u8>,
    items: u64,
    bytes: u64,
}

impl Written {
    /// Begins a file, or with standard output.
    pub(super) fn begin(output: Option<&Path>) -> Result<Written, Failure> {
        let out = output.map_or_else(|| Ok(Out::standard()), Out::file)?;
        let progress = Progress::on_terminal("exported".to_owned(), output.is_none());
        Ok(Written { out, progress, text: Vec::new(), items: 0, bytes: 0 })
    }

    /// Counts an item, which has so many bytes at the server.
    pub(super) fn count(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes as u64;
    }

    /// Writes the text; false if nobody reads any more.
    pub(super) fn flush(&mut self) -> Result<bool, String> {
        self.progress.show(self.items, self.bytes);
        let is_read = self.out.write(&self.text);
        self.text.clear();
        is_read
    }

    /// Ends the file with the text: a table has its names even if it has no rows.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.out.write(&self.text)?;
        drop(self.progress);
        self.out.end()
    }
}
