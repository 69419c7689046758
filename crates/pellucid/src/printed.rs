//! The text that a command prints on standard output: a full disk behind it, or a pipe that nobody
//! reads, is work that failed, and no panic as with `println!`.

use std::io::{Error, ErrorKind, Write, stdout};
use std::sync::OnceLock;

use crate::Failure;

/// Prints a text as it is.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| failed(&error))
}

/// Prints a document of JSON in a line.
#[cfg(feature = "laboratory")]
pub(crate) fn print_document(document: &serde_json::Value) -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "{document}").and_then(|()| out.flush()).map_err(|error| failed(&error))
}

/// Prints a line, as `println!`. Where it cannot be printed, the command goes on without, and the
/// program ends with [`failure`].
macro_rules! print_line {
    ($($text:tt)*) => {
        $crate::printed::print_if_possible(&format!("{}\n", format_args!($($text)*)))
    };
}

/// As `print_line`, without the line's end.
macro_rules! print_part {
    ($($text:tt)*) => {
        $crate::printed::print_if_possible(&format!($($text)*))
    };
}

/// The first error of standard output.
static ERROR: OnceLock<Error> = OnceLock::new();

pub(crate) fn print_if_possible(text: &str) {
    if ERROR.get().is_some() {
        return;
    }
    let mut out = stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        let _ = ERROR.set(error);
    }
}

/// The failure of what could not be printed. A reader that has enough is none.
pub(crate) fn failure() -> Result<(), Failure> {
    match ERROR.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(failed(error)),
        _ => Ok(()),
    }
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::work(format!("cannot write to standard output: {error}"))
}
