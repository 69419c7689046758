//! `pellucid get`, `put`, `delete`, `scan`, `changes` and `query`: a server's data for scripts.
//!
//! Data goes to standard output and comes from standard input, and nothing else does. Beside the
//! exit codes of all commands, [`MISSING_CODE`] says that there is no such entry, and
//! [`CONDITION_CODE`] that a write's condition did not hold.

mod changes;
mod entities;
mod json;
mod query;
mod scan;
mod table;

use std::io::{self, Write, stdout};
use std::time::Duration;

pub(crate) use changes::{ChangesArguments, changes};
pub(crate) use entities::{DeleteArguments, GetArguments, PutArguments, delete, get, put};
pub(crate) use query::{QueryArguments, query};
pub(crate) use scan::{ScanArguments, scan};

use crate::Failure;

/// The exit code of a read of an entry that is not there.
const MISSING_CODE: u8 = 4;
/// The exit code of a write whose condition did not hold.
const CONDITION_CODE: u8 = 5;
/// The time that a server may be silent, unless said otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Standard output, whose reader may have enough before the end: that is no failure.
struct Out {
    out: io::StdoutLock<'static>,
    is_closed: bool,
}

impl Out {
    fn begin() -> Out {
        Out { out: stdout().lock(), is_closed: false }
    }

    /// Writes; false if nobody reads any more.
    fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let written = self.out.write_all(bytes);
        self.note(written)
    }

    /// Writes for a reader who waits for it; false if nobody reads any more.
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let written = self.out.write_all(bytes).and_then(|()| self.out.flush());
        self.note(written)
    }

    fn end(mut self) -> Result<(), Failure> {
        let flushed = self.out.flush();
        self.note(flushed).map_err(unwritable)?;
        Ok(())
    }

    fn note(&mut self, written: io::Result<()>) -> io::Result<bool> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.is_closed = true,
            other => other?,
        }
        Ok(!self.is_closed)
    }
}

fn unwritable(error: io::Error) -> Failure {
    Failure::work(format!("cannot write to standard output: {error}"))
}
