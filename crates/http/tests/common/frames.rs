//! Hand-made HTTP/2 frames, for input that a correct client would not send.

use std::io::Read;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames (RFC 9113, section 6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
/// Flags of HEADERS; `END_STREAM` is one of DATA as well.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The header block of a `GET` of a path; all but the path is from the static table.
pub(crate) fn headers(path: &str) -> Vec<u8> {
    block(0x82, path)
}

/// The header block of a `POST` of a path.
pub(crate) fn post(path: &str) -> Vec<u8> {
    block(0x83, path)
}

fn block(method: u8, path: &str) -> Vec<u8> {
    let mut block = vec![method, 0x86, 0x04, path.len() as u8];
    block.extend(path.as_bytes());
    block
}

/// A literal header without indexing and with a new name (RFC 7541, sections 5.1 and 6.2.2).
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut header = vec![0];
    for text in [name, value] {
        let mut rest = text.len();
        if rest >= 0x7f {
            header.push(0x7f);
            rest -= 0x7f;
            while rest >= 0x80 {
                header.push((rest % 0x80) as u8 | 0x80);
                rest /= 0x80;
            }
        }
        header.push(rest as u8);
        header.extend(text.as_bytes());
    }
    header
}

pub(crate) fn greeting() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// The next frame: kind, stream, payload; none at the end of the connection.
pub(crate) fn read_frame(socket: &mut impl Read) -> Option<(u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    socket.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    socket.read_exact(&mut payload).ok()?;
    Some((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
}
