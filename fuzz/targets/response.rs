//! The client's parser of HTTP responses, in one piece and in many. The first byte is the length of
//! the pieces. The second chooses whether the response is kept, and whether it answers a HEAD.

use pellucid_client::http::{ParseOutcome, Response, ResponseError, ResponseParser};
use pellucid_fuzz::pieces;

/// Responses with the bytes kept of each, and the end of the stream.
#[derive(Debug, PartialEq)]
struct Outcome {
    responses: Vec<(Response, Vec<u8>, Vec<u8>)>,
    end: Result<Option<Response>, ResponseError>,
}

fn read<'a>(parts: impl Iterator<Item = &'a [u8]>, flags: u8) -> Outcome {
    let mut parser = ResponseParser::new(flags & 1 != 0);
    let mut responses = Vec::new();
    for mut part in parts {
        while !part.is_empty() {
            match parser.parse(part, flags & 2 != 0) {
                Ok(ParseOutcome::More) => break,
                Ok(ParseOutcome::Complete { consumed, response }) => {
                    assert!(consumed <= part.len());
                    part = &part[consumed..];
                    let kept = parser.captured().map(|kept| (kept.head.clone(), kept.body.clone()));
                    let (head, body) = kept.unwrap_or_default();
                    responses.push((response, head, body));
                }
                Err(malformed) => return Outcome { responses, end: Err(malformed) },
            }
        }
    }
    Outcome { responses, end: parser.end() }
}

pub(crate) fn fuzz(data: &[u8]) {
    let [length, flags, stream @ ..] = data else { return };
    assert_eq!(read(std::iter::once(stream), *flags), read(pieces(stream, *length), *flags));
}
