//! The output of an export while it is written, with a progress display.

use std::path::Path;

use crate::Failure;
use crate::output_stream::OutputStream;
use crate::progress::Progress;

/// The output of an export: a file or standard output.
pub(super) struct ExportOutput {
    out: OutputStream,
    progress: Progress,
    /// Bytes that the next [`ExportOutput::flush`] writes.
    pub(super) text: Vec<u8>,
    items: u64,
    bytes: u64,
}

impl ExportOutput {
    /// Creates the file, or uses standard output if `output` is `None`.
    pub(super) fn begin(output: Option<&Path>) -> Result<ExportOutput, Failure> {
        let out = output.map_or_else(|| Ok(OutputStream::standard()), OutputStream::file)?;
        let progress = Progress::on_terminal("exported".to_owned(), output.is_none());
        Ok(ExportOutput { out, progress, text: Vec::new(), items: 0, bytes: 0 })
    }

    /// Counts an item of `bytes` bytes for the progress display.
    pub(super) fn count(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes as u64;
    }

    /// Writes `text` and clears it; returns false if the reader of the output is gone.
    pub(super) fn flush(&mut self) -> Result<bool, String> {
        self.progress.show(self.items, self.bytes);
        let is_read = self.out.write(&self.text);
        self.text.clear();
        is_read
    }

    /// Writes the rest of `text` and ends the file. The rest may be all there is: the column names
    /// of a table without rows.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.out.write(&self.text)?;
        drop(self.progress);
        self.out.end()
    }
}
