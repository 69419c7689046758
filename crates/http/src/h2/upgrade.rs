//! `Upgrade: h2c`: the way to HTTP/2 that begins with a request in HTTP/1.1 (RFC 7540, section
//! 3.2). Newer clients know beforehand, but some still ask.
//!
//! The request becomes the first stream: it is put, as the frame that it would have been, behind
//! the client's SETTINGS, which are its first frame after the answer `101`. Those are the ones that
//! count, so the copy of them in the request is not looked at.

use crate::h1::parse::Head;

/// The beginning of a client that knows of HTTP/2 (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The answer after which both sides speak HTTP/2.
pub(crate) const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";

/// Bytes that a frame may have which the client was not asked to take larger ones of.
pub(super) const FRAME_BYTES_MAX: usize = 16 * 1024;
/// The type of the frame of a farewell, and its error.
const GOAWAY: u8 = 7;
const PROTOCOL_ERROR: u32 = 1;
/// The type of the frame, and its flags: it ends the headers and the stream.
const HEADERS: u8 = 1;
const END_STREAM_AND_HEADERS: u8 = 0x5;

/// The headers that belong to the connection that is left, or that HTTP/2 says otherwise.
const LEFT_BEHIND: [&str; 8] = [
    "connection",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The request's frame, for stream 1; nothing if it does not fit into one.
pub(crate) fn synthetic_headers(head: &Head<'_, '_>) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    let target = match head.query {
        Some(query) => format!("{}?{query}", head.path),
        None => head.path.to_owned(),
    };
    literal(&mut block, ":method", head.method.as_bytes());
    literal(&mut block, ":scheme", b"http");
    literal(&mut block, ":path", target.as_bytes());
    if let Some(host) = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"))
    {
        literal(&mut block, ":authority", host.value);
    }
    for header in head.headers {
        let name = header.name.to_ascii_lowercase();
        if !LEFT_BEHIND.contains(&name.as_str()) {
            literal(&mut block, &name, header.value);
        }
    }
    if block.len() > FRAME_BYTES_MAX {
        return None;
    }
    let length = (block.len() as u32).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([HEADERS, END_STREAM_AND_HEADERS]);
    frame.extend(1_u32.to_be_bytes());
    frame.extend(block);
    Some(frame)
}

/// Appends the frame that ends a connection which did not begin as HTTP/2 does: GOAWAY, before any
/// stream, with the text as its data for people to read (RFC 9113, section 6.8).
pub(crate) fn write_farewell(out: &mut Vec<u8>, text: &str) {
    let length = (8 + text.len() as u32).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend([GOAWAY, 0]);
    out.extend([0_u32, 0, PROTOCOL_ERROR].iter().flat_map(|word| word.to_be_bytes()));
    out.extend_from_slice(text.as_bytes());
}

/// A header that is not to be remembered, uncompressed (RFC 7541, section 6.2.2).
fn literal(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    block.push(0);
    for text in [name.as_bytes(), value] {
        length(block, text.len());
        block.extend_from_slice(text);
    }
}

/// A number with a prefix of seven bits (RFC 7541, section 5.1).
fn length(block: &mut Vec<u8>, value: usize) {
    const PREFIX_MAX: usize = 127;
    if value < PREFIX_MAX {
        block.push(value as u8);
        return;
    }
    block.push(PREFIX_MAX as u8);
    let mut rest = value - PREFIX_MAX;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn lengths_as_the_specification_writes_them() {
        let encoded = |value| {
            let mut block = Vec::new();
            length(&mut block, value);
            block
        };
        assert_eq!(encoded(10), [10]);
        assert_eq!(encoded(127), [127, 0]);
        assert_eq!(encoded(1_337), [127, 0b1011_1010, 9]);
    }
}
