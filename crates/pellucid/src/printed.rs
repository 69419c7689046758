//! The text that a command prints on standard output: a full disk behind it, or a pipe that nobody
//! reads, is work that failed, and no panic as with `println!`.

use std::io::{ErrorKind, Write, stdout};

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

/// Prints a line, as `println!`. Where it cannot be printed, the program ends: with success if
/// nobody reads on, otherwise with the error.
macro_rules! print_line {
    ($($text:tt)*) => {
        $crate::printed::print_or_end(&format!("{}\n", format_args!($($text)*)))
    };
}

/// As `print_line`, without the line's end.
macro_rules! print_part {
    ($($text:tt)*) => {
        $crate::printed::print_or_end(&format!($($text)*))
    };
}

pub(crate) fn print_or_end(text: &str) {
    let mut out = stdout().lock();
    let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    let failure = failed(&error);
    eprintln!("pellucid: {}", failure.text);
    std::process::exit(failure.code().into());
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::work(format!("cannot write to standard output: {error}"))
}
