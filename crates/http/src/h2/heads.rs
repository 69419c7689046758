//! The heads of streams, in the terms that HTTP/1.1 has for them: services know no other.

use http::request::Parts;

use crate::compression::Coding;
use crate::h1::parse::{Framing, Head};
use crate::limits::HEADERS_MAX;
use crate::refusal::Refusal;
use crate::request::Header;

/// The length that the client announced; a request need not have one.
pub(super) fn body_length(parts: &Parts) -> Option<usize> {
    let value = parts.headers.get(http::header::CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

/// The coding that the client prefers for the body of its response.
fn coding_of(parts: &Parts) -> Option<Coding> {
    let mut values = parts.headers.get_all(http::header::ACCEPT_ENCODING).iter();
    values.find_map(|value| Coding::preferred(value.as_bytes()))
}

/// The head in the terms that HTTP/1.1 has for it.
pub(super) fn head_of<'h, 'b>(
    parts: &'b Parts,
    space: &'h mut [Header<'b>; HEADERS_MAX],
    length: usize,
) -> Result<Head<'h, 'b>, Refusal> {
    let path = parts.uri.path();
    // `CONNECT` has no path at all, and services know no other targets than HTTP/1.1 has.
    if !path.starts_with('/') && path != "*" {
        return Err(Refusal::Malformed("the request target is neither a path nor a URL"));
    }
    let mut count = 0;
    let authority = parts.uri.authority().filter(|_| !parts.headers.contains_key("host"));
    let host = authority.map(|authority| ("host", authority.as_str().as_bytes()));
    let fields = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    for (name, value) in fields.chain(host) {
        let Some(header) = space.get_mut(count) else { return Err(Refusal::HeadTooLarge) };
        (*header, count) = (Header { name, value }, count + 1);
    }
    Ok(Head {
        method: parts.method.as_str(),
        path,
        query: parts.uri.query(),
        headers: &space[..count],
        head_bytes: 0,
        framing: Framing::Length(length),
        keep_alive: true,
        is_old: false,
        expects_continue: false,
        coding: coding_of(parts),
        wants_http2: false,
    })
}
