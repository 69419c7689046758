//! The head of an HTTP request and a chunked body, in one piece and in many. The first byte is the
//! length of the pieces.

use std::mem::MaybeUninit;

use pellucid_fuzz::pieces;
use pellucid_http::{ChunkedDecoder, Framing, HEADERS_MAX, Refusal, parse};

/// The limit of the head in bytes; small, so that short inputs reach it.
const HEAD_BYTES_MAX: usize = 512;
/// The limit of the body in bytes; small, so that short inputs reach it.
const BODY_BYTES_MAX: usize = 256;

/// Facts about a head: its length, the framing of its body, and true if the connection stays open.
type HeadSummary = (usize, Framing, bool);

fn head_of(bytes: &[u8]) -> Result<Option<HeadSummary>, Refusal> {
    let mut space = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let Some(head) = parse(bytes, &mut space, HEAD_BYTES_MAX)? else { return Ok(None) };
    assert!(head.head_bytes <= HEAD_BYTES_MAX && bytes[..head.head_bytes].ends_with(b"\n"));
    assert!(head.path.starts_with('/') || head.path == "*", "{:?}", head.path);
    assert!(!head.path.contains('?') && head.headers.len() <= HEADERS_MAX);
    assert!(!(head.is_old && head.framing == Framing::Chunked));
    Ok(Some((head.head_bytes, head.framing, head.keep_alive)))
}

/// The body and the number of bytes consumed; `None` if the body is not complete.
type DecodeResult = Result<Option<(Vec<u8>, usize)>, Refusal>;

fn body_of<'a>(parts: impl Iterator<Item = &'a [u8]>) -> DecodeResult {
    let mut decoder = ChunkedDecoder::new(BODY_BYTES_MAX);
    let mut used = 0;
    for part in parts {
        let taken = decoder.feed(part)?;
        used += taken;
        assert!(decoder.body().len() <= BODY_BYTES_MAX);
        if decoder.is_complete() {
            return Ok(Some((decoder.body().to_vec(), used)));
        }
        assert_eq!(taken, part.len(), "only the end of the body leaves bytes over");
    }
    Ok(None)
}

pub(crate) fn fuzz(data: &[u8]) {
    let Some((length, stream)) = data.split_first() else { return };
    let whole = head_of(stream);
    let mut end = 0;
    let mut gradual = Ok(None);
    for piece in pieces(stream, *length) {
        end += piece.len();
        gradual = head_of(&stream[..end]);
        if gradual != Ok(None) {
            break;
        }
    }
    // The kind of the first refusal may depend on the bytes available; that there is one may not.
    match &whole {
        Ok(facts) => assert_eq!(gradual.as_ref(), Ok(facts)),
        Err(_) => assert!(gradual.is_err(), "{whole:?}, but in pieces {gradual:?}"),
    }
    let body = match whole {
        Ok(Some((head_bytes, Framing::Chunked, _))) => &stream[head_bytes..],
        _ => stream,
    };
    assert_eq!(body_of(std::iter::once(body)), body_of(pieces(body, *length)));
}
