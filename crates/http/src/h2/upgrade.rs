//! `Upgrade: h2c`: the upgrade to HTTP/2 that begins with a request in HTTP/1.1 (RFC 7540, section
//! 3.2). Newer clients begin with HTTP/2 at once, but some still use the upgrade.
//!
//! The request becomes the first stream: it is encoded as a HEADERS frame and inserted behind the
//! client's SETTINGS frame, the first after the answer `101`. That frame is the one that counts, so
//! the copy of the settings in the request is ignored.

use crate::h1::parse::Head;

/// The client's connection preface (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The answer after which both sides speak HTTP/2.
pub(crate) const SWITCHING: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";

/// The most bytes of a frame's payload, without a setting that allows more.
pub(super) const FRAME_BYTES_MAX: usize = 16 * 1024;
/// The frame type GOAWAY, and the error code that it carries.
const GOAWAY: u8 = 7;
const PROTOCOL_ERROR: u32 = 1;
/// The frame type HEADERS, and the flags END_STREAM and END_HEADERS.
const HEADERS: u8 = 1;
const END_STREAM_AND_HEADERS: u8 = 0x5;

/// Headers that are not copied: they concern the HTTP/1.1 connection, or HTTP/2 expresses them in
/// another way.
const LEFT_BEHIND: [&str; 8] = [
    "connection", "host", "http2-settings", "keep-alive", "proxy-connection", "te",
    "transfer-encoding", "upgrade",
];

/// The request as a HEADERS frame of stream 1; none if it does not fit into one frame.
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

/// Appends a GOAWAY frame for a connection without a valid preface: before any stream, with `text`
/// as debug data for people to read (RFC 9113, section 6.8).
pub(crate) fn write_farewell(out: &mut Vec<u8>, text: &str) {
    let length = (8 + text.len() as u32).to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend([GOAWAY, 0]);
    out.extend([0_u32, 0, PROTOCOL_ERROR].iter().flat_map(|word| word.to_be_bytes()));
    out.extend_from_slice(text.as_bytes());
}

/// Appends a literal header field without indexing, uncompressed (RFC 7541, section 6.2.2).
fn literal(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    block.push(0);
    for text in [name.as_bytes(), value] {
        length(block, text.len());
        block.extend_from_slice(text);
    }
}

/// Appends an integer with a prefix of seven bits (RFC 7541, section 5.1).
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
    fn lengths_are_encoded_as_in_the_specification() {
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
