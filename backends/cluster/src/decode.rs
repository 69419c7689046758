//! Decoding of frames of the peer protocol. The bytes come from other nodes and are not trusted.

use pellucid_account::PARTS_MAX;
use pellucid_store::{Acknowledgement, KEY_LENGTH_MAX};

use crate::frame::{
    ANSWER, ANSWER_BYTES, ASK_BYTES, Answer, AnswerStatus, Ask, AskKind, AskTable, AskTrace, Frame,
    FrameError, HAS_LIFETIME, HAS_TABLE, HAS_TRACE, HAS_TRACE_STATE, OwnerTimes, PONG,
    PREFIX_BYTES, REPLY_NS_AT, TRACE_STATE_BYTES_MAX,
};
use crate::numbers::{condition_of, u32_at, u64_at};

/// The frame at the beginning of `bytes` and its length in bytes; `None` if it is incomplete.
///
/// # Errors
/// If the frame is longer than `frame_bytes_max` or invalid.
pub fn decode(
    bytes: &[u8],
    frame_bytes_max: usize,
) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    if bytes.len() < PREFIX_BYTES {
        return Ok(None);
    }
    let length = PREFIX_BYTES + u32_at(bytes, 0) as usize;
    if length > frame_bytes_max {
        let (bytes, max) = (length as u64, frame_bytes_max as u64);
        return Err(FrameError::TooLong { bytes, max });
    }
    if bytes.len() < length {
        return Ok(None);
    }
    let body = &bytes[PREFIX_BYTES..length];
    if crc32c::crc32c(body) != u32_at(bytes, 4) {
        return Err(FrameError::Checksum);
    }
    if body.len() < 12 {
        return Err(FrameError::Malformed("length"));
    }
    let frame = match body[8] {
        ANSWER => Frame::Answer(decode_answer(&bytes[..length])?),
        PONG => Frame::Pong(u64_at(bytes, 8)),
        _ => Frame::Ask(decode_ask(&bytes[..length])?),
    };
    Ok(Some((frame, length)))
}

fn decode_ask(bytes: &[u8]) -> Result<Ask<'_>, FrameError> {
    use AskKind::*;
    use FrameError::Malformed;
    if bytes.len() < ASK_BYTES {
        return Err(Malformed("length"));
    }
    let kind = AskKind::ALL.get(usize::from(bytes[16]).wrapping_sub(1));
    let kind = *kind.ok_or(Malformed("kind"))?;
    let acknowledgement = match bytes[17] {
        0 => Acknowledgement::Memory,
        1 => Acknowledgement::Os,
        2 => Acknowledgement::Disk,
        _ => return Err(Malformed("acknowledgement")),
    };
    let condition = condition_of(bytes[18], u64_at(bytes, 24)).ok_or(Malformed("condition"))?;
    let flags = bytes[19];
    if flags & !(HAS_LIFETIME | HAS_TRACE | HAS_TABLE | HAS_TRACE_STATE) != 0 {
        return Err(Malformed("flags"));
    }
    let (key_length, value_length) = (u32_at(bytes, 64) as usize, u32_at(bytes, 68) as usize);
    let is_keyed = match kind {
        Get | Head | Put | Delete => Some(true),
        Batch | Write | Ping => Some(false),
        // A range from the beginning of the table has no key.
        Range => None,
    };
    if key_length > KEY_LENGTH_MAX || is_keyed.is_some_and(|is| is != (key_length > 0)) {
        return Err(Malformed("key"));
    }
    let content = &bytes[ASK_BYTES..];
    let (table, content) =
        if flags & HAS_TABLE == 0 { (None, content) } else { decode_table(content)? };
    let (state, content) =
        if flags & HAS_TRACE_STATE == 0 { ("", content) } else { decode_trace_state(content)? };
    let trace = u128::from(u64_at(bytes, 40)) | u128::from(u64_at(bytes, 48)) << 64;
    let trace = AskTrace { trace, span: u64_at(bytes, 56), state };
    if key_length as u64 + value_length as u64 != content.len() as u64 {
        return Err(Malformed("length"));
    }
    let (key, value) = content.split_at(key_length);
    Ok(Ask {
        id: u64_at(bytes, 8),
        kind,
        acknowledgement,
        condition,
        lifetime_ms: (flags & HAS_LIFETIME != 0).then(|| u64_at(bytes, 32)),
        wait_ms: u32_at(bytes, 20),
        trace: (flags & HAS_TRACE != 0 && trace.trace != 0 && trace.span != 0).then_some(trace),
        table,
        key,
        value,
    })
}

/// The table at the beginning of an ask's variable part, and the bytes behind it.
fn decode_table(bytes: &[u8]) -> Result<(Option<AskTable<'_>>, &[u8]), FrameError> {
    let wrong = FrameError::Malformed("table");
    let (head, rest) = bytes.split_first_chunk::<3>().ok_or(wrong.clone())?;
    let part_length = u16::from_le_bytes([head[0], head[1]]);
    let (name, rest) = rest.split_at_checked(usize::from(head[2])).ok_or(wrong.clone())?;
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty()).ok_or(wrong)?;
    Ok((Some(AskTable { name, part_length }), rest))
}

/// The trace's state at the beginning of `bytes`, and the bytes behind it.
fn decode_trace_state(bytes: &[u8]) -> Result<(&str, &[u8]), FrameError> {
    let wrong = FrameError::Malformed("trace state");
    let (length, rest) = bytes.split_first_chunk::<2>().ok_or(wrong.clone())?;
    let length = usize::from(u16::from_le_bytes(*length));
    let (state, rest) = rest.split_at_checked(length).ok_or(wrong.clone())?;
    let is_sound = (1..=TRACE_STATE_BYTES_MAX).contains(&length)
        && state.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let state = std::str::from_utf8(state).ok().filter(|_| is_sound).ok_or(wrong)?;
    Ok((state, rest))
}

fn decode_answer(bytes: &[u8]) -> Result<Answer<'_>, FrameError> {
    use AnswerStatus::*;
    if bytes.len() < ANSWER_BYTES {
        return Err(FrameError::Malformed("length"));
    }
    const ALL: [AnswerStatus; 13] = [
        Found, Missing, Written, ConditionFailed, Unacceptable, Full, Corruption, ReadOnly, Busy,
        Failed, NotOwner, Late, Page,
    ];
    let status = *ALL.get(usize::from(bytes[17])).ok_or(FrameError::Malformed("status"))?;
    let payload = &bytes[ANSWER_BYTES..];
    let value_length = u64_at(bytes, 40);
    let mut parts_ns = [0; PARTS_MAX];
    for (slot, part) in parts_ns.iter_mut().enumerate() {
        *part = u32_at(bytes, 64 + 4 * slot);
    }
    Ok(Answer {
        id: u64_at(bytes, 8),
        status,
        detail: u32_at(bytes, 20),
        sequence: u64_at(bytes, 24),
        written_at_ms: u64_at(bytes, 32),
        value_length,
        times: OwnerTimes {
            receive_ns: u32_at(bytes, 48),
            queue_ns: u32_at(bytes, 52),
            execute_ns: u32_at(bytes, 56),
            reply_ns: u32_at(bytes, REPLY_NS_AT),
            parts_ns,
        },
        payload,
    })
}
