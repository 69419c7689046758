//! The encoding of the peer protocol: fixed test vectors, and invalid bytes.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use pellucid_cluster::{
    Answer, AnswerStatus, Ask, AskKind, AskTable, AskTrace, Frame, FrameError, OwnerTimes, decode,
    encode_pong,
};
use pellucid_store::{Acknowledgement, Condition};
use proptest::prelude::*;

const MAX: usize = 1 << 20;

fn put() -> Ask<'static> {
    Ask {
        id: 0x0102_0304_0506_0708,
        kind: AskKind::Put,
        acknowledgement: Acknowledgement::Disk,
        condition: Condition::Sequence(0x1122),
        lifetime_ms: Some(1_500),
        wait_ms: 1_000,
        trace: Some(AskTrace { trace: 0xaabb, span: 0xcc, state: "" }),
        table: None,
        key: b"key",
        value: b"value",
    }
}

fn found() -> Answer<'static> {
    let mut times = OwnerTimes {
        receive_ns: 1,
        queue_ns: 2,
        execute_ns: 3,
        reply_ns: 4,
        ..OwnerTimes::default()
    };
    times.parts_ns[7] = 5;
    Answer {
        id: 9,
        status: AnswerStatus::Found,
        detail: 0,
        sequence: 77,
        written_at_ms: 1_700_000_000_000,
        value_length: 5,
        times,
        payload: b"value",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_encoding_has_not_changed() {
    let mut bytes = Vec::new();
    put().encode(&mut bytes);
    assert_eq!(
        hex(&bytes),
        concat!(
            "4800000098e92490080706050403020103020303e80300002211000000000000dc0500",
            "0000000000bbaa0000000000000000000000000000cc00000000000000030000000500",
            "00006b657976616c7565"
        )
    );
    assert_eq!(decode(&bytes, MAX), Ok(Some((Frame::Ask(put()), bytes.len()))));
    bytes.clear();
    found().encode(&mut bytes);
    assert_eq!(
        hex(&bytes),
        concat!(
            "5d000000a95a85b8090000000000000081000000000000004d000000000000000068e5",
            "cf8b010000050000000000000001000000020000000300000004000000000000000000",
            "000000000000000000000000000000000000000000000500000076616c7565"
        )
    );
    assert_eq!(decode(&bytes, MAX), Ok(Some((Frame::Answer(found()), bytes.len()))));
    bytes.clear();
    encode_pong(3, &mut bytes);
    assert_eq!(hex(&bytes), "0c000000b3233595030000000000000082000000");
    assert_eq!(decode(&bytes, MAX), Ok(Some((Frame::Pong(3), bytes.len()))));
}

/// The state lies between table and key, and takes no bytes where there is none.
#[test]
fn a_trace_state_is_a_length_and_its_bytes() {
    let trace = put().trace.map(|trace| AskTrace { state: "a=1", ..trace });
    let (mut without, mut bytes) = (Vec::new(), Vec::new());
    put().encode(&mut without);
    let ask = Ask { trace, ..put() };
    ask.encode(&mut bytes);
    assert_eq!((bytes[19], &bytes[72..77]), (without[19] | 8, &b"\x03\0a=1"[..]));
    assert_eq!((&bytes[77..], bytes.len()), (&without[72..], without.len() + 5));
    assert_eq!(decode(&bytes, MAX), Ok(Some((Frame::Ask(ask), bytes.len()))));
}

#[test]
fn an_invalid_trace_state_is_an_error() {
    let trace = put().trace.map(|trace| AskTrace { state: "a=1", ..trace });
    let mut bytes = Vec::new();
    Ask { trace, ..put() }.encode(&mut bytes);
    let changed = |at: usize, byte: u8| {
        let mut body = bytes[8..].to_vec();
        body[at - 8] = byte;
        decode(&sealed(&body), MAX).unwrap_err()
    };
    let wrong = FrameError::Malformed("trace state");
    for (at, byte) in [(72, 0), (72, 14), (73, 2), (73, 3), (74, b'\n'), (74, 0xc3)] {
        assert_eq!(changed(at, byte), wrong, "{at}: {byte}");
    }
}

#[test]
fn an_incomplete_frame_is_no_error() {
    let mut bytes = Vec::new();
    put().encode(&mut bytes);
    for length in 0..bytes.len() {
        assert_eq!(decode(&bytes[..length], MAX), Ok(None));
    }
}

#[test]
fn every_changed_bit_is_noticed() {
    let mut bytes = Vec::new();
    put().encode(&mut bytes);
    for bit in 32..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode(&changed, MAX), Err(FrameError::Checksum), "bit {bit}");
    }
}

#[test]
fn a_length_over_the_limit_is_an_error_before_the_body_arrives() {
    let frame = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let error = decode(&frame, MAX).unwrap_err();
    assert!(matches!(error, FrameError::TooLong { .. }), "{error}");
}

/// A frame with a valid checksum around any body, so that the checks behind the checksum run.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

proptest! {
    #[test]
    fn any_ask_round_trips(
        id: u64, lifetime_ms: Option<u64>, wait_ms: u32, sequence: u64,
        key in proptest::collection::vec(any::<u8>(), 1..300),
        value in proptest::collection::vec(any::<u8>(), 0..3_000),
        condition in 0..4_u8,
        table: Option<(u16, String)>,
        state in "[ -~]{0,512}",
    ) {
        let condition = match condition {
            0 => Condition::None,
            1 => Condition::Absent,
            2 => Condition::Present,
            _ => Condition::Sequence(sequence),
        };
        let named = table.as_ref().filter(|(_, name)| (1..256).contains(&name.len()));
        let table = named.map(|(part_length, name)| AskTable { name, part_length: *part_length });
        let trace = put().trace.map(|trace| AskTrace { state: &state, ..trace });
        let (key, value) = (&key[..], &value[..]);
        let ask =
            Ask { id, lifetime_ms, wait_ms, condition, trace, table, key, value, ..put() };
        let mut bytes = Vec::new();
        ask.encode(&mut bytes);
        prop_assert_eq!(decode(&bytes, MAX), Ok(Some((Frame::Ask(ask), bytes.len()))));
    }

    #[test]
    fn any_body_is_a_frame_or_an_error(
        mut body in proptest::collection::vec(any::<u8>(), 0..200),
        kind in prop_oneof![0..10_u8, 0x80..0x84_u8],
    ) {
        if let Some(at) = body.get_mut(8) {
            *at = kind;
        }
        let bytes = sealed(&body);
        if let Ok(Some((frame, length))) = decode(&bytes, MAX) {
            prop_assert_eq!(length, bytes.len());
            if let Frame::Ask(ask) = frame {
                let mut again = Vec::new();
                ask.encode(&mut again);
                let (frame, _) = decode(&again, MAX).unwrap().unwrap();
                prop_assert_eq!(frame, Frame::Ask(ask));
            }
        }
        let _ = decode(&body, MAX);
    }
}
