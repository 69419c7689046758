//! Converts the heads of HTTP/2 streams to the form of HTTP/1.1, the only one that services know.

use http::HeaderValue;
use http::request::Parts;

use crate::compression::{AcceptedCodings, Coding};
use crate::h1::host::{BAD_HOST, OTHER_HOST, is_host};
use crate::h1::parse::{Framing, Head, is_continue};
use crate::refusal::Refusal;
use crate::request::Header;

/// The `Content-Length` that the client declared; a request need not have one.
pub(super) fn body_length(parts: &Parts) -> Option<usize> {
    let value = parts.headers.get(http::header::CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

/// The coding that the client prefers for the body of its response.
fn coding_of(parts: &Parts) -> Option<Coding> {
    let mut accepted = AcceptedCodings::default();
    let values = parts.headers.get_all(http::header::ACCEPT_ENCODING).iter();
    values.for_each(|value| accepted.add(value.as_bytes()));
    accepted.preferred()
}

/// The `:authority`, if the head has no `host`; where it has both, they must be the same.
fn added_host(parts: &Parts) -> Result<Option<&[u8]>, Refusal> {
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let all = || parts.headers.get_all(http::header::HOST).iter().map(HeaderValue::as_bytes);
    // Most requests have none, and one look-up says so.
    let is_named = parts.headers.contains_key(http::header::HOST);
    let mut hosts = authority.into_iter().chain(is_named.then(all).into_iter().flatten());
    let Some(host) = hosts.next() else { return Ok(None) };
    if !is_host(host) {
        return Err(Refusal::Malformed(BAD_HOST));
    }
    if hosts.any(|other| !other.eq_ignore_ascii_case(host)) {
        return Err(Refusal::Malformed(OTHER_HOST));
    }
    Ok(authority.filter(|_| !is_named))
}

/// The head in the form of HTTP/1.1, with `length` as the length of its body. Its headers go to
/// `space`, which is empty.
pub(super) fn head_of<'h, 'b>(
    parts: &'b Parts,
    space: &'h mut Vec<Header<'b>>,
    length: usize,
    headers_max: usize,
) -> Result<Head<'h, 'b>, Refusal> {
    let path = parts.uri.path();
    // `CONNECT` has no path at all; services know only paths and the asterisk.
    if !path.starts_with('/') && path != "*" {
        return Err(Refusal::Malformed("the request target is neither a path nor a URL"));
    }
    let expects_continue = parts.headers.contains_key(http::header::EXPECT);
    let mut expectations = expects_continue
        .then(|| parts.headers.get_all(http::header::EXPECT).iter())
        .into_iter()
        .flatten();
    if expectations.any(|value| !is_continue(value.as_bytes())) {
        return Err(Refusal::UnknownExpectation);
    }
    let host = added_host(parts)?.map(|authority| ("host", authority));
    let count = parts.headers.len() + usize::from(host.is_some());
    if count > headers_max {
        return Err(Refusal::TooManyHeaders(headers_max));
    }
    let fields = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    space.reserve_exact(count);
    space.extend(fields.chain(host).map(|(name, value)| Header { name, value }));
    Ok(Head {
        method: parts.method.as_str(),
        path,
        query: parts.uri.query(),
        headers: space,
        head_bytes: 0,
        framing: Framing::Length(length),
        keep_alive: true,
        is_old: false,
        expects_continue,
        coding: coding_of(parts),
        wants_http2: false,
    })
}
