//! HTTP/2 requests, made from HTTP/1.1 requests.
//!
//! Scripts and descriptions of work make HTTP/1.1 bytes for both protocols. Only headers about the
//! connection do not exist in HTTP/2 (RFC 9113, section 8.2.2).

use http::header::{HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri};

use crate::error::LoadError;

/// Headers that are about the connection.
const OF_THE_CONNECTION: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "upgrade", "http2-settings", "te"];
/// The largest number of headers of a request.
const HEADERS_MAX: usize = 256;

/// Parses an HTTP/1.1 request, and returns it with the offset of its body. `tls` selects the
/// scheme.
pub(crate) fn parse(bytes: &[u8], tls: bool) -> Result<(Request<()>, usize), LoadError> {
    parse_as_text(bytes, tls)
        .map_err(|reason| LoadError::Script(format!("a request that is not HTTP: {reason}")))
}

fn parse_as_text(bytes: &[u8], tls: bool) -> Result<(Request<()>, usize), String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let body_at = match head.parse(bytes).map_err(|error| error.to_string())? {
        httparse::Status::Complete(body_at) => body_at,
        httparse::Status::Partial => return Err("its head has no end".to_owned()),
    };
    let wrong = |error: &dyn std::fmt::Display| format!("HTTP/2 cannot carry it: {error}");
    let mut uri = http::uri::Parts::default();
    let path = head.path.unwrap_or_default();
    uri.path_and_query = Some(PathAndQuery::try_from(path).map_err(|error| wrong(&error))?);
    uri.scheme = Some(if tls { Scheme::HTTPS } else { Scheme::HTTP });
    let mut request = Request::new(());
    for header in head.headers {
        let name = HeaderName::try_from(header.name).map_err(|error| wrong(&error))?;
        if name == http::header::HOST {
            let authority = Authority::try_from(header.value).map_err(|error| wrong(&error))?;
            uri.authority = Some(authority);
        } else if name == http::header::TRANSFER_ENCODING {
            let text = "a Transfer-Encoding has no place in HTTP/2; use Content-Length";
            return Err(text.to_owned());
        } else if !OF_THE_CONNECTION.contains(&name.as_str()) {
            let value = HeaderValue::from_bytes(header.value).map_err(|error| wrong(&error))?;
            request.headers_mut().append(name, value);
        }
    }
    *request.uri_mut() = Uri::from_parts(uri).map_err(|error| wrong(&error))?;
    let method = head.method.unwrap_or_default();
    *request.method_mut() = Method::try_from(method).map_err(|error| wrong(&error))?;
    Ok((request, body_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_about_the_connection_are_left_out() {
        let bytes = b"PUT /a?b=1 HTTP/1.1\r\nX-A: 1\r\nConnection: close\r\nHost: h:1\r\n\
            Content-Length: 2\r\n\r\nok";
        let (request, body_at) = parse(bytes, false).unwrap();
        assert_eq!(&bytes[body_at..], b"ok");
        assert_eq!(
            (request.method(), request.uri()),
            (&Method::PUT, &"http://h:1/a?b=1".parse().unwrap())
        );
        let names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-a", "content-length"]);
    }

    #[test]
    fn invalid_requests_are_refused() {
        for (bytes, word) in [
            (&b"GET"[..], "no end"),
            (b"GET\r\n\r\n", "invalid"),
            (b"GET / HTTP/1.1\r\nA: b\r\n", "no end"),
            (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "Content-Length"),
            (b"GET / HTTP/1.1\r\n\r\n", "cannot carry"),
        ] {
            let error = parse(bytes, true).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
