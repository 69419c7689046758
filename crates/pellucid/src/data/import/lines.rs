//! Reads lines of a file or of standard input, with their numbers.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, stdin};
use std::path::Path;

use super::super::entities::unreadable;
use crate::Failure;

/// The longest line in bytes: enough for a value of 384 MiB in base64.
const LINE_BYTES_MAX: u64 = 512 << 20;
/// The size of the read buffer in bytes.
const READ_BYTES: usize = 256 << 10;
/// The name of standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// A reader of lines.
pub(super) struct Lines {
    input: Box<dyn BufRead>,
    name: String,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl Lines {
    /// The lines of a file, or of standard input for `-`.
    pub(super) fn open(file: &Path) -> Result<Lines, Failure> {
        if file == Path::new(STANDARD_INPUT) {
            return Ok(Lines::new("standard input".to_owned(), Box::new(stdin().lock())));
        }
        let name = file.display().to_string();
        let opened = File::open(file).map_err(|error| unreadable(&name, &error))?;
        Ok(Lines::new(name, Box::new(BufReader::with_capacity(READ_BYTES, opened))))
    }

    pub(super) fn new(name: String, input: Box<dyn BufRead>) -> Lines {
        Lines { input, name, line: Vec::new(), number: 0, bytes: 0 }
    }

    /// The name of the input, for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next line; returns false at the end of the input. A line of CSV may end with `\r`
    /// alone.
    pub(super) fn advance(&mut self, is_csv: bool) -> Result<bool, String> {
        self.line.clear();
        let mut bounded = Read::by_ref(&mut self.input).take(LINE_BYTES_MAX + 1);
        let read = match is_csv {
            true => read_line_of_csv(&mut bounded, &mut self.line),
            false => bounded.read_until(b'\n', &mut self.line),
        };
        let read = read.map_err(|error| unreadable(&self.name, &error).text)? as u64;
        if read > LINE_BYTES_MAX {
            let number = self.number + 1;
            return Err(format!("line {number} is longer than {LINE_BYTES_MAX} bytes"));
        }
        self.bytes += read;
        self.number += u64::from(read > 0);
        Ok(read > 0)
    }

    /// The current line, with its line end if it has one.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// The number of the current line; the first is 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The number of bytes of all lines so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Appends a line, which ends with `\n`, `\r\n` or `\r`; returns the number of its bytes.
fn read_line_of_csv(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        let bytes = match input.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        let follows_return = line.last() == Some(&b'\r');
        if bytes.is_empty() || follows_return && bytes[0] != b'\n' {
            return Ok(line.len());
        }
        let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let taken = end.map_or(bytes.len(), |end| end + 1);
        line.extend_from_slice(&bytes[..taken]);
        input.consume(taken);
        if line.last() == Some(&b'\n') {
            return Ok(line.len());
        }
    }
}
