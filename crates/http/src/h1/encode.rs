//! Encodes responses as text (RFC 9112): status lines, headers, chunks.

use http::StatusCode;

use crate::body_source::FillResult;

/// The interim response on which a client sends the body that it holds back.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Room for a chunk's size: eight hexadecimal digits and the line end.
const CHUNK_HEAD: &[u8; 10] = b"00000000\r\n";

/// Appends the status line.
pub(crate) fn write_status_line(out: &mut Vec<u8>, status: u16) {
    let line: &[u8] = match status {
        200 => b"HTTP/1.1 200 OK\r\n",
        201 => b"HTTP/1.1 201 Created\r\n",
        202 => b"HTTP/1.1 202 Accepted\r\n",
        304 => b"HTTP/1.1 304 Not Modified\r\n",
        404 => b"HTTP/1.1 404 Not Found\r\n",
        // The `http` crate has the reason of an older standard.
        413 => b"HTTP/1.1 413 Content Too Large\r\n",
        _ => return write_rare_status_line(out, status),
    };
    out.extend_from_slice(line);
}

fn write_rare_status_line(out: &mut Vec<u8>, status: u16) {
    let reason = StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason());
    out.extend_from_slice(b"HTTP/1.1 ");
    write_decimal(out, status.into());
    out.push(b' ');
    out.extend_from_slice(reason.unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a header whose value `write` appends to the buffer that it is given.
#[inline]
pub(crate) fn write_header(out: &mut Vec<u8>, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    write(out);
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of the headers, with a `Connection` header if the connection closes, or if it
/// stays open and the client speaks HTTP/1.0.
#[inline]
pub(crate) fn end_headers(out: &mut Vec<u8>, keep_alive: bool, is_old: bool) {
    if !keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if is_old {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the bytes that `fill` produces as one chunk, and behind the last piece the last chunk.
pub(crate) fn write_chunk(
    out: &mut Vec<u8>,
    fill: impl FnOnce(&mut Vec<u8>) -> FillResult,
) -> FillResult {
    let begin = out.len();
    out.extend_from_slice(CHUNK_HEAD);
    let filled = fill(out);
    let size_bytes = out.len() - begin - CHUNK_HEAD.len();
    if size_bytes == 0 {
        // A chunk of size zero would end the body.
        out.truncate(begin);
    } else {
        let digits = format!("{size_bytes:08X}");
        assert_eq!(digits.len(), 8, "a piece is far below 4 GiB");
        out[begin..begin + 8].copy_from_slice(digits.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if filled == FillResult::Last {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    filled
}

/// Appends `value` in decimal digits.
pub fn write_decimal(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_chunks_and_empty_ones_are_left_out() {
        let mut out = Vec::new();
        let mut piece = |bytes: &[u8], filled| {
            write_chunk(&mut out, |out| {
                out.extend_from_slice(bytes);
                filled
            })
        };
        assert_eq!(piece(b"0123456789ab", FillResult::More), FillResult::More);
        piece(b"", FillResult::Waiting);
        piece(b"x", FillResult::Last);
        assert_eq!(out, b"0000000C\r\n0123456789ab\r\n00000001\r\nx\r\n0\r\n\r\n");
    }
}
