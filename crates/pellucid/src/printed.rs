//! The text that a command prints on standard output: a full disk behind it, or a pipe that nobody
//! reads, is work that failed, and no panic as with `println!`.

use std::io::{Write, stdout};

use serde_json::Value;

use crate::Failure;

/// Prints a text as it is.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| failed(&error))
}

/// Prints a document of JSON in a line.
pub(crate) fn print_document(document: &Value) -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "{document}").and_then(|()| out.flush()).map_err(|error| failed(&error))
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::work(format!("cannot write to standard output: {error}"))
}
