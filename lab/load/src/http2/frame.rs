//! Frames of HTTP/2 (RFC 9113, sections 4 and 6), as far as a client needs them.

use crate::response::Malformed;

/// What every frame begins with.
pub(super) const HEAD_BYTES: usize = 9;
/// The largest payload that a client accepts which says nothing (section 4.2).
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// Settings by their numbers.
pub(super) const ENABLE_PUSH: u16 = 2;
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const MAX_FRAME_SIZE: u16 = 5;

/// A frame that has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'bytes> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'bytes [u8],
}

/// The frame at the beginning of `bytes`; nothing if it is not whole.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Frame<'_>>, Malformed> {
    let Some(head) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    if length > PAYLOAD_BYTES_MAX {
        return Err(Malformed::Frame);
    }
    let Some(payload) = bytes.get(HEAD_BYTES..HEAD_BYTES + length) else { return Ok(None) };
    let stream = number(&head[5..9]) & 0x7fff_ffff;
    Ok(Some(Frame { kind: head[3], flags: head[4], stream, payload }))
}

/// Four bytes, the highest first.
pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

impl<'bytes> Frame<'bytes> {
    /// The payload without padding and priority.
    pub(super) fn content(&self) -> Result<&'bytes [u8], Malformed> {
        let mut content = self.payload;
        if self.flags & PADDED != 0 {
            let (padding, rest) = content.split_first().ok_or(Malformed::Frame)?;
            let length = rest.len().checked_sub(usize::from(*padding)).ok_or(Malformed::Frame)?;
            content = &rest[..length];
        }
        if self.kind == HEADERS && self.flags & PRIORITY != 0 {
            content = content.get(5..).ok_or(Malformed::Frame)?;
        }
        Ok(content)
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the head of a frame.
pub(super) fn write_head(length: usize, kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&[(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags]);
    write_number(stream, out);
}

/// Appends a frame whose payload is one number.
pub(super) fn write_numbered(kind: u8, stream: u32, value: u32, out: &mut Vec<u8>) {
    write_head(4, kind, 0, stream, out);
    write_number(value, out);
}

/// Appends four bytes, the highest first, as everything on the network is.
pub(super) fn write_number(value: u32, out: &mut Vec<u8>) {
    out.extend([24, 16, 8, 0].map(|shift| (value >> shift) as u8));
}
