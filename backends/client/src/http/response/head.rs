//! Parsing of a response's head: the status line, and the headers that the parser needs.

use memchr::memchr;

use super::{ResponseError, ServerTiming};

/// The transfer encoding of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferEncoding {
    None,
    Chunked,
    /// An encoding without a visible end: the body lasts until the end of the connection.
    Other,
}

/// The parsed head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) keep_alive: bool,
    /// True if a header `Connection` has `close`, which outweighs `keep-alive` (RFC 9112, 9.3).
    closes: bool,
    pub(super) content_length: Option<u64>,
    pub(super) transfer_encoding: TransferEncoding,
    /// True if the head has the server's account of its own time.
    pub(super) has_timing: bool,
    /// Length of the head in bytes, with the empty line.
    pub(super) length: usize,
}

/// Length in bytes of the shortest status line, such as `HTTP/1.1 200`.
pub(super) const STATUS_LINE_BYTES: usize = 12;

/// Parses the head at the beginning of `bytes`; `None` if its end has not arrived.
pub(super) fn scan_head(bytes: &[u8]) -> Result<Option<Head>, ResponseError> {
    let Some(mut head) = scan_status_line(bytes)? else { return Ok(None) };
    let Some(end) = memchr(b'\n', bytes) else { return Ok(None) };
    let mut at = end + 1;
    loop {
        let Some(first) = bytes.get(at) else { return Ok(None) };
        let Some(length) = memchr(b'\n', &bytes[at..]) else { return Ok(None) };
        match first {
            b'\n' => break,
            b'\r' if length == 1 => break,
            // The first letter, and the hyphen of `server-timing`, exclude most headers.
            b'c' | b'C' | b't' | b'T' => head.take_header(&bytes[at..at + length])?,
            b's' | b'S' if length > ServerTiming::TIMING.len() && bytes[at + 6] == b'-' => {
                head.has_timing |=
                    value_of(&bytes[at..at + length], ServerTiming::TIMING.as_bytes()).is_some();
            }
            _ => {}
        }
        at += length + 1;
    }
    let empty_line = if bytes[at] == b'\r' { 2 } else { 1 };
    head.length = at + empty_line;
    head.keep_alive &= !head.closes;
    Ok(Some(head))
}

/// Parses the status line; `None` if its first bytes have not arrived. The fields of headers are
/// empty.
fn scan_status_line(bytes: &[u8]) -> Result<Option<Head>, ResponseError> {
    const BEGIN: &[u8] = b"HTTP/1.";
    let known = bytes.len().min(BEGIN.len());
    if bytes[..known] != BEGIN[..known] {
        return Err(ResponseError::StatusLine);
    }
    let Some(line) = bytes.get(..STATUS_LINE_BYTES) else { return Ok(None) };
    let digits = [line[7], line[9], line[10], line[11]];
    let follows = bytes.get(STATUS_LINE_BYTES);
    let well_formed = line[8] == b' '
        && digits.iter().all(u8::is_ascii_digit)
        && line[9] != b'0'
        && follows.is_none_or(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    if !well_formed {
        return Err(ResponseError::StatusLine);
    }
    let status = digits[1..].iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    Ok(Some(Head {
        status,
        keep_alive: line[7] != b'0',
        closes: false,
        content_length: None,
        transfer_encoding: TransferEncoding::None,
        has_timing: false,
        length: 0,
    }))
}

impl Head {
    fn take_header(&mut self, line: &[u8]) -> Result<(), ResponseError> {
        if let Some(value) = value_of(line, b"content-length") {
            let length = parse_decimal(value).ok_or(ResponseError::ContentLength)?;
            if self.content_length.is_some_and(|known| known != length) {
                return Err(ResponseError::ContentLength);
            }
            self.content_length = Some(length);
        } else if let Some(value) = value_of(line, b"connection") {
            for token in value.split(|byte| *byte == b',') {
                if token.trim_ascii().eq_ignore_ascii_case(b"close") {
                    self.closes = true;
                } else if token.trim_ascii().eq_ignore_ascii_case(b"keep-alive") {
                    self.keep_alive = true;
                }
            }
        } else if let Some(value) = value_of(line, b"transfer-encoding") {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            let chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
            self.transfer_encoding =
                if chunked { TransferEncoding::Chunked } else { TransferEncoding::Other };
        }
        Ok(())
    }
}

/// Copies the values of all headers in which the server accounts for its own time.
#[cold]
pub(super) fn copy_timing(head: &[u8], timing: &mut ServerTiming) {
    for line in head.split(|byte| *byte == b'\n') {
        for name in [ServerTiming::TIMING, ServerTiming::CLOCK] {
            if let Some(value) = value_of(line, name.as_bytes()) {
                timing.take_header(name, value);
            }
        }
    }
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (begin, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    begin.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// Parses a decimal number; `None` if there is no digit, any other byte, or an overflow.
#[must_use]
pub fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}
