//! Prints text on standard output. Unlike with `println!`, a full disk or a closed pipe does not
//! cause a panic: a full disk becomes a failure of the command, and a closed pipe is ignored by the
//! macros.

use std::io::{Error, ErrorKind, Write, stdout};
use std::sync::OnceLock;

use crate::Failure;

/// Prints a text.
///
/// # Errors
/// If it cannot be written, also to a closed pipe.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| failed(&error))
}

/// Prints a line like `println!`. If that fails, the command continues without output, and the
/// program ends with [`failure`].
macro_rules! print_line {
    ($($text:tt)*) => {
        $crate::standard_output::print_if_possible(&format!("{}\n", format_args!($($text)*)))
    };
}

/// Like `print_line`, without the line end.
macro_rules! print_part {
    ($($text:tt)*) => {
        $crate::standard_output::print_if_possible(&format!($($text)*))
    };
}

/// The first error of standard output.
static ERROR: OnceLock<Error> = OnceLock::new();

/// Prints a text unless an earlier one failed; remembers the first error.
pub(crate) fn print_if_possible(text: &str) {
    if has_failed() {
        return;
    }
    let mut out = stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        let _ = ERROR.set(error);
    }
}

/// Returns true if nothing more can be printed.
pub(crate) fn has_failed() -> bool {
    ERROR.get().is_some()
}

/// Returns an error if something could not be printed. A closed pipe is no error.
pub(crate) fn failure() -> Result<(), Failure> {
    match ERROR.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(failed(error)),
        _ => Ok(()),
    }
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::work(format!("cannot write to standard output: {error}"))
}
