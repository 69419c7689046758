//! The framing of a chunked body (RFC 9112, section 7.1).

use super::Malformed;
use super::head::find_line_feed;

/// The longest line of framing: a size with its extensions, or a trailer field.
const MAX_LINE_BYTES: u32 = 8 * 1024;
/// The longest trailer section.
const MAX_TRAILER_LINES: u32 = 256;

/// The place of the next byte in the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunked {
    /// In the line that gives the size: what is read of it, and how many digits it had.
    Size { size: u64, digits: u32 },
    /// In the rest of that line.
    Extension { size: u64, length: u32 },
    /// In the data.
    Data { remaining: u64 },
    /// In the line end after the data; true once its carriage return is read.
    DataEnd { carriage_return: bool },
    /// In the lines after the last chunk: bytes of this line other than its end, and lines so far.
    Trailer { length: u32, lines: u32 },
}

impl Default for Chunked {
    fn default() -> Chunked {
        Chunked::Size { size: 0, digits: 0 }
    }
}

/// The bytes that one step took from the input: first data, then framing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) data: usize,
    pub(super) framing: usize,
    pub(super) last: bool,
}

impl Step {
    fn framing(framing: usize) -> Step {
        Step { framing, ..Step::default() }
    }
}

impl Chunked {
    /// Takes what it can of `input`, which is not empty, and at least one byte.
    pub(super) fn step(&mut self, input: &[u8]) -> Result<Step, Malformed> {
        match *self {
            Chunked::Size { size, digits } => self.take_size(input[0], size, digits),
            Chunked::Extension { size, length } => self.take_extension(input, size, length),
            Chunked::Data { remaining } => {
                let here = usize::try_from(remaining).unwrap_or(usize::MAX).min(input.len());
                let remaining = remaining - here as u64;
                *self = match remaining {
                    0 => Chunked::DataEnd { carriage_return: false },
                    remaining => Chunked::Data { remaining },
                };
                Ok(Step { data: here, ..Step::default() })
            }
            Chunked::DataEnd { carriage_return } => {
                match (input[0], carriage_return) {
                    (b'\r', false) => *self = Chunked::DataEnd { carriage_return: true },
                    (b'\n', _) => *self = Chunked::default(),
                    _ => return Err(Malformed::Chunk),
                }
                Ok(Step::framing(1))
            }
            Chunked::Trailer { length, lines } => self.take_trailer(input, length, lines),
        }
    }

    fn take_size(&mut self, byte: u8, size: u64, digits: u32) -> Result<Step, Malformed> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if size >> 60 != 0 || digits >= MAX_LINE_BYTES {
                return Err(Malformed::Chunk);
            }
            *self = Chunked::Size { size: size << 4 | u64::from(digit), digits: digits + 1 };
            return Ok(Step::framing(1));
        }
        if digits == 0 || !matches!(byte, b'\r' | b'\n' | b';' | b' ' | b'\t') {
            return Err(Malformed::Chunk);
        }
        // The byte is left for the rest of the line, which ends with a line feed.
        *self = Chunked::Extension { size, length: 0 };
        Ok(Step::default())
    }

    fn take_extension(&mut self, input: &[u8], size: u64, length: u32) -> Result<Step, Malformed> {
        let Some(end) = find_line_feed(input) else {
            *self = Chunked::Extension { size, length: limited(length, input.len())? };
            return Ok(Step::framing(input.len()));
        };
        limited(length, end)?;
        *self = match size {
            0 => Chunked::Trailer { length: 0, lines: 0 },
            remaining => Chunked::Data { remaining },
        };
        Ok(Step::framing(end + 1))
    }

    fn take_trailer(&mut self, input: &[u8], length: u32, lines: u32) -> Result<Step, Malformed> {
        let (text, taken) = match find_line_feed(input) {
            Some(end) => (&input[..end], end + 1),
            None => (input, input.len()),
        };
        let visible = text.iter().filter(|byte| **byte != b'\r').count();
        let length = limited(length, visible)?;
        if taken == text.len() {
            *self = Chunked::Trailer { length, lines };
            return Ok(Step::framing(taken));
        }
        if length == 0 {
            return Ok(Step { framing: taken, last: true, ..Step::default() });
        }
        if lines >= MAX_TRAILER_LINES {
            return Err(Malformed::Chunk);
        }
        *self = Chunked::Trailer { length: 0, lines: lines + 1 };
        Ok(Step::framing(taken))
    }
}

fn limited(length: u32, more: usize) -> Result<u32, Malformed> {
    let sum = u64::from(length) + more as u64;
    u32::try_from(sum).ok().filter(|sum| *sum <= MAX_LINE_BYTES).ok_or(Malformed::Chunk)
}
