//! Parses the head of a request, and finds the framing of its body (RFC 9112).

use std::mem::MaybeUninit;

use pellucid_client::http::parse_decimal;

use super::host::{BAD_HOST, OTHER_HOST, is_host};
use crate::compression::{AcceptedCodings, Coding};
use crate::refusal::Refusal;
use crate::request::{Header, list_has};

/// The rule that tells where a request's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The body has this many bytes; zero for requests without a body.
    Length(usize),
    /// The body is chunked, and ends after the last chunk and its trailers.
    Chunked,
}

impl Framing {
    /// The length of the body; none if it is chunked.
    pub(crate) fn length(self) -> Option<usize> {
        match self {
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        }
    }
}

/// Storage for the headers of one request, uninitialised where unused. Its length is the limit of
/// header lines.
pub type HeaderSpace<'a> = [MaybeUninit<Header<'a>>];

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct Head<'h, 'b> {
    /// The method.
    pub method: &'b str,
    /// The path of the target.
    pub path: &'b str,
    /// The query of the target.
    pub query: Option<&'b str>,
    /// The headers.
    pub headers: &'h [Header<'b>],
    /// Bytes of the head, the empty line included.
    pub head_bytes: usize,
    /// The framing of the body.
    pub framing: Framing,
    /// True if the connection stays open after the response.
    pub keep_alive: bool,
    /// True if the client speaks HTTP/1.0, which knows no chunks.
    pub is_old: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// True if the client asks to upgrade this connection to HTTP/2.
    pub wants_http2: bool,
    /// The coding that the client prefers for the body of its response.
    pub(crate) coding: Option<Coding>,
}

/// Parses a head from the beginning of `bytes`. Returns none if it is incomplete.
///
/// # Errors
/// The refusal to answer with, if the head is malformed or exceeds a limit. Then the bytes behind
/// it must not be parsed, because the beginning of the next request is unknown.
pub fn parse<'h, 'b>(
    bytes: &'b [u8],
    space: &'h mut HeaderSpace<'b>,
    head_bytes_max: usize,
) -> Result<Option<Head<'h, 'b>>, Refusal> {
    let mut parsed = httparse::Request::new(&mut []);
    let headers_max = space.len();
    let status = parsed.parse_with_uninit_headers(bytes, space).map_err(|error| {
        let within = &bytes[..bytes.len().min(head_bytes_max)];
        if within.len() < bytes.len() && !within.contains(&b'\n') {
            return Refusal::TargetTooLong;
        }
        match error {
            httparse::Error::TooManyHeaders => Refusal::TooManyHeaders(headers_max),
            httparse::Error::Version => refusal_of_version(bytes),
            httparse::Error::HeaderName => Refusal::Malformed("a header's name is malformed"),
            httparse::Error::HeaderValue => Refusal::Malformed("a header's value is malformed"),
            httparse::Error::NewLine => Refusal::Malformed("a line end is malformed"),
            _ => Refusal::Malformed("the request line is malformed"),
        }
    })?;
    let httparse::Status::Complete(head_bytes) = status else {
        return if bytes.len() > head_bytes_max { Err(too_large(bytes)) } else { Ok(None) };
    };
    if head_bytes > head_bytes_max {
        return Err(too_large(&bytes[..head_bytes_max]));
    }
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(Refusal::Malformed("the request line is malformed"));
    };
    let (authority, path, query) = split_target(target)?;
    let fields = Fields::of(parsed.headers)?;
    fields.check(version)?;
    if authority.is_some_and(|authority| !is_host_of(parsed.headers, authority)) {
        return Err(Refusal::Malformed(OTHER_HOST));
    }
    Ok(Some(Head {
        method,
        path,
        query,
        headers: parsed.headers,
        head_bytes,
        framing: if fields.chunked {
            Framing::Chunked
        } else {
            Framing::Length(fields.content_length.unwrap_or(0))
        },
        keep_alive: !fields.close && (version == 1 || fields.keep_alive),
        is_old: version == 0,
        expects_continue: fields.expects_continue && version == 1,
        coding: fields.accepted.preferred(),
        wants_http2: fields.upgrades && fields.names_http2 && fields.has_settings && version == 1,
    }))
}

/// The refusal of a request line that does not end with a known version.
#[cold]
fn refusal_of_version(bytes: &[u8]) -> Refusal {
    let (_, line) = request_line(bytes);
    let mut parts = line.trim_ascii_end().split(|byte| *byte == b' ').skip(2);
    let version = parts.next().unwrap_or_default();
    if parts.next().is_some() {
        return Refusal::Malformed("the request target has a space: encode it as %20");
    }
    match version {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Refusal::UnknownVersion
        }
        version if !version.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"HTTP")) => {
            Refusal::UnknownProtocol
        }
        _ => Refusal::Malformed("the request line does not end with a version, as HTTP/1.1"),
    }
}

/// The position of the minor digit of a version HTTP/1.2 to HTTP/1.9; none for other versions. Such
/// a request is treated as one of HTTP/1.1 (RFC 9110, section 2.5).
#[cold]
pub(crate) fn later_minor_version(bytes: &[u8]) -> Option<usize> {
    let (at, line) = request_line(bytes);
    let line = line.trim_ascii_end();
    let is_one = line.split(|byte| *byte == b' ').count() == 3;
    let is_later = is_one
        && line.split_last_chunk().is_some_and(|(_, version): (_, &[u8; 9])| {
            version.starts_with(b" HTTP/1.") && matches!(version[8], b'2'..=b'9')
        });
    is_later.then(|| at + line.len() - 1)
}

/// The request line, possibly incomplete, and its position behind line ends before it.
fn request_line(bytes: &[u8]) -> (usize, &[u8]) {
    let is_end = |byte: &u8| matches!(*byte, b'\r' | b'\n');
    let begin = bytes.iter().position(|byte| !is_end(byte)).unwrap_or(bytes.len());
    let line = &bytes[begin..];
    (begin, &line[..line.iter().position(is_end).unwrap_or(line.len())])
}

fn too_large(bytes: &[u8]) -> Refusal {
    if bytes.contains(&b'\n') { Refusal::HeadTooLarge } else { Refusal::TargetTooLong }
}

/// True if the value is the only expectation that is known.
pub(crate) fn is_continue(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"100-continue")
}

/// True if the header `Host` has this value, or is missing, as HTTP/1.0 allows.
#[cold]
fn is_host_of(headers: &[Header<'_>], authority: &str) -> bool {
    let host = headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
    host.is_none_or(|host| host.value.eq_ignore_ascii_case(authority.as_bytes()))
}

/// Splits a request target, in origin, absolute or asterisk form, into authority, path and query.
fn split_target(target: &str) -> Result<(Option<&str>, &str, Option<&str>), Refusal> {
    let malformed = Refusal::Malformed("the request target is neither a path nor a URL");
    let (authority, local) = if target.starts_with('/') || target == "*" {
        (None, target)
    } else {
        let after_scheme = target.split_once("://").ok_or(malformed)?.1;
        let path_at = after_scheme.find(['/', '?']).unwrap_or(after_scheme.len());
        let (authority, local) = after_scheme.split_at(path_at);
        (Some(authority), if local.is_empty() { "/" } else { local })
    };
    // A byte-wise search: targets are short, and the start of a vectorised search costs as much as
    // this whole loop.
    let (path, query) = match local.bytes().position(|byte| byte == b'?') {
        Some(0) => ("/", Some(&local[1..])),
        Some(at) => (&local[..at], Some(&local[at + 1..])),
        None => (local, None),
    };
    Ok((authority, path, query))
}

/// The values of the headers about the connection and the body.
#[derive(Default)]
struct Fields {
    content_length: Option<usize>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    /// The header `Connection` lists `upgrade`.
    upgrades: bool,
    names_http2: bool,
    has_settings: bool,
    accepted: AcceptedCodings,
    hosts: usize,
    has_bad_host: bool,
}

impl Fields {
    fn of(headers: &[Header<'_>]) -> Result<Fields, Refusal> {
        let mut fields = Fields::default();
        for header in headers {
            // Most names differ in length, so that few need a comparison of bytes.
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            match header.name.len() {
                4 if is("host") => {
                    fields.hosts += 1;
                    fields.has_bad_host |= !is_host(header.value);
                }
                6 if is("expect") => fields.expect(header.value)?,
                7 if is("upgrade") => fields.names_http2 |= list_has(header.value, "h2c"),
                14 if is("http2-settings") => fields.has_settings = true,
                10 if is("connection") => {
                    fields.upgrades |= list_has(header.value, "upgrade");
                    fields.close |= list_has(header.value, "close");
                    fields.keep_alive |= list_has(header.value, "keep-alive");
                }
                15 if is("accept-encoding") => fields.accepted.add(header.value),
                14 if is("content-length") => fields.length(header.value)?,
                17 if is("transfer-encoding") => fields.transfer_coding(header.value)?,
                _ => {}
            }
        }
        Ok(fields)
    }

    fn expect(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if !is_continue(value) {
            return Err(Refusal::UnknownExpectation);
        }
        self.expects_continue = true;
        Ok(())
    }

    /// Parses `Content-Length`. A list of equal lengths is valid (RFC 9112, section 6.3). Anything
    /// else is an attack or a bug, and the beginning of the next request is unknown.
    fn length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.content_length.is_none()
            && let Some(length) = length_of(value)
        {
            self.content_length = Some(length);
            return Ok(());
        }
        for item in value.split(|byte| *byte == b',') {
            let length = length_of(item.trim_ascii())
                .ok_or(Refusal::Malformed("Content-Length is not a number"))?;
            if self.content_length.is_some_and(|other| other != length) {
                return Err(Refusal::Malformed("two Content-Lengths contradict each other"));
            }
            self.content_length = Some(length);
        }
        Ok(())
    }

    fn transfer_coding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Refusal::UnknownCoding);
        }
        self.chunked = true;
        Ok(())
    }

    fn check(&self, version: u8) -> Result<(), Refusal> {
        if self.chunked && self.content_length.is_some() {
            let what = "Content-Length and Transfer-Encoding contradict each other";
            return Err(Refusal::Malformed(what));
        }
        if self.chunked && version == 0 {
            return Err(Refusal::Malformed("HTTP/1.0 does not support Transfer-Encoding"));
        }
        if self.hosts > 1 || version == 1 && self.hosts == 0 {
            return Err(Refusal::Malformed("there must be exactly one Host header"));
        }
        if self.has_bad_host {
            return Err(Refusal::Malformed(BAD_HOST));
        }
        Ok(())
    }
}

fn length_of(digits: &[u8]) -> Option<usize> {
    parse_decimal(digits).and_then(|length| usize::try_from(length).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HEADERS_MAX;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn with_head<T>(
        text: &str,
        look: impl FnOnce(Result<Option<Head<'_, '_>>, Refusal>) -> T,
    ) -> T {
        let mut space = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        look(parse(text.as_bytes(), &mut space, 1_024))
    }

    fn refusal(text: &str) -> Refusal {
        with_head(text, |head| head.unwrap_err())
    }

    fn framing(headers: &str) -> Result<Framing, Refusal> {
        let text = format!("PUT /v0/entity?id=1 HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        with_head(&text, |head| head.map(|head| head.expect("the head is complete").framing))
    }

    #[test]
    fn a_plain_request_is_parsed() {
        with_head("GET /v0/entity?id=7&x HTTP/1.1\r\nHost: a\r\n\r\nnext", |head| {
            let head = head.unwrap().unwrap();
            assert_eq!((head.method, head.path, head.query), ("GET", "/v0/entity", Some("id=7&x")));
            assert_eq!((head.head_bytes, head.framing), (43, Framing::Length(0)));
            assert!(head.keep_alive && !head.expects_continue);
        });
    }

    #[test]
    fn lengths_and_codings_that_contradict_are_refused() {
        assert_eq!(framing("Content-Length: 5\r\n"), Ok(Framing::Length(5)));
        assert_eq!(framing("content-length: 5, 5\r\n"), Ok(Framing::Length(5)));
        assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
        for headers in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 6\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Host: b\r\n",
        ] {
            assert_eq!(framing(headers).unwrap_err().status(), 400, "{headers:?}");
        }
        for headers in ["Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: gzip\r\n"] {
            assert_eq!(framing(headers).unwrap_err().status(), 501, "{headers:?}");
        }
        assert_eq!(framing("Expect: miracles\r\n").unwrap_err().status(), 417);
    }

    #[test]
    fn all_headers_about_codings_count() {
        let accepts = ["deflate;q=0.5", "gzip"].map(|of| format!("Accept-Encoding: {of}\r\n"));
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", accepts.concat());
        let coding = with_head(&text, |head| head.unwrap().unwrap().coding);
        assert_eq!(coding, Some(Coding::Gzip));
    }

    #[test]
    fn malformed_heads_are_refused() {
        assert_eq!(refusal("GET / HTTP/1.1\r\n\r\n").status(), 400, "no Host");
        assert_eq!(refusal("GET /\r\n\r\n").status(), 400, "HTTP/0.9");
        assert_eq!(refusal("GET / HTTP/3.0\r\n\r\n").status(), 505);
        assert_eq!(refusal("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status(), 505);
        assert_eq!(refusal("INVALID CONNECTION PREFACE\r\n\r\n"), Refusal::UnknownProtocol);
        assert_eq!(refusal("GET / HTTPS/1.1\r\nHost: a\r\n\r\n").status(), 400);
        assert_eq!(refusal("GET / HTTP/1.1\r\nHost: a b\r\n\r\n").status(), 400);
        assert_eq!(refusal("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n").status(), 400);
        let space = refusal("GET /x?id=a b HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(space.status() == 400 && space.to_string().contains("space"), "{space}");
        assert_eq!(refusal("GET nowhere HTTP/1.1\r\nHost: a\r\n\r\n").status(), 400);
        assert_eq!(refusal("GET / HTTP/1.1\r\nHo st: a\r\n\r\n").status(), 400);
        assert_eq!(refusal("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n").status(), 400);
        assert_eq!(refusal("\u{1}\u{2}\u{3}\r\n\r\n").status(), 400);
        assert_eq!(refusal(&format!("GET /{}", "a".repeat(2_000))), Refusal::TargetTooLong);
        let long_header = format!("GET / HTTP/1.1\r\nHost: {}", "a".repeat(2_000));
        assert_eq!(refusal(&long_header), Refusal::HeadTooLarge);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(refusal(&many), Refusal::TooManyHeaders(HEADERS_MAX));
    }

    #[test]
    fn absolute_and_asterisk_targets_are_split() {
        assert_eq!(split_target("http://h:1/a?b=c").unwrap(), (Some("h:1"), "/a", Some("b=c")));
        assert_eq!(split_target("http://h").unwrap(), (Some("h"), "/", None));
        assert_eq!(split_target("http://h?b").unwrap(), (Some("h"), "/", Some("b")));
        assert_eq!(split_target("*").unwrap(), (None, "*", None));
    }

    /// Regression: of HTTP/1.0, which needs no `Host`, a URL was refused.
    #[test]
    fn a_url_as_target_has_the_host_of_the_header_if_there_is_one() {
        let line = "GET http://h:1/a HTTP/1.0\r\n";
        for headers in ["", "Host: H:1\r\n"] {
            let path = with_head(&format!("{line}{headers}\r\n"), |head| {
                head.map(|head| head.expect("the head is complete").path.to_owned())
            });
            assert_eq!(path.as_deref(), Ok("/a"), "{headers:?}");
        }
        let other = refusal(&format!("{line}Host: other\r\n\r\n"));
        assert_eq!(other, Refusal::Malformed(OTHER_HOST));
        let none = refusal("GET http://h/ HTTP/1.1\r\n\r\n");
        assert_eq!(none.status(), 400, "HTTP/1.1 needs it");
    }

    #[test]
    fn version_and_connection_header_decide_keep_alive() {
        let kept = |text: &str| with_head(text, |head| head.unwrap().unwrap().keep_alive);
        assert!(kept("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(!kept("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, Close\r\n\r\n"));
        assert!(!kept("GET / HTTP/1.0\r\n\r\n"));
        assert!(kept("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_without_a_panic(bytes in vec(any::<u8>(), 0..600)) {
            let mut space = [const { MaybeUninit::uninit() }; HEADERS_MAX];
            let _ = parse(&bytes, &mut space, 512);
        }

        #[test]
        fn a_head_cut_short_is_incomplete_and_never_refused(cut in 0.0_f64..1.0) {
            let text = "POST /v0/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n";
            let cut = (cut * text.len() as f64) as usize;
            with_head(&text[..cut], |head| assert!(head.unwrap().is_none()));
        }
    }
}
