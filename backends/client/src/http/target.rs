//! The URL of a server: parsing, its addresses, and the request for it.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::address::{Address, UNIX_PREFIX, socket_path};
use super::error::HttpError;

const DEFAULT_HTTP_PORT: u16 = 80;
const DEFAULT_HTTPS_PORT: u16 = 443;
/// The `Host` of requests to a server at a Unix socket.
const UNIX_HOST: &str = "localhost";
/// The error for a URL that cannot be in the first line of a request.
const NOT_OF_REQUEST: &str = "it contains a space or a control character";

/// A URL, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: String,
    tls: bool,
    host: String,
    port: Option<u16>,
    path: String,
    /// The path of a Unix socket, which is used in place of host and port.
    socket: Option<Arc<Path>>,
}

impl Target {
    /// Parses a URL such as `http://localhost:8080/path?query`. `unix:/run/pellucid.sock` is a
    /// server at a Unix socket, `unix:/run/pellucid.sock:/path?query` a path of it.
    ///
    /// # Errors
    /// [`HttpError::Url`] with the reason.
    pub fn parse(url: &str) -> Result<Target, HttpError> {
        if let Some(place) = url.strip_prefix(UNIX_PREFIX) {
            return Target::parse_unix(url, place);
        }
        let url = without_user(url);
        let wrong = |reason: &str| HttpError::Url { url: shown(&url), reason: reason.into() };
        if !is_of_request(&url) {
            return Err(wrong(NOT_OF_REQUEST));
        }
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| wrong("it must begin with http://, https:// or unix:"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(wrong("only http://, https:// and unix: can be asked")),
        };
        let path_begin = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path_begin);
        let (host, port) = split_authority(authority).ok_or_else(|| wrong("bad host or port"))?;
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Target { tls, host: host.into(), port, path, socket: None, url })
    }

    /// Parses the part of a URL behind `unix:`.
    fn parse_unix(url: &str, place: &str) -> Result<Target, HttpError> {
        let wrong = |reason: String| HttpError::Url { url: url.into(), reason };
        let (socket, path) = place.split_once(":/").unwrap_or((place, ""));
        if !is_of_request(path) {
            return Err(wrong(NOT_OF_REQUEST.to_owned()));
        }
        let socket = socket_path(socket).map_err(wrong)?;
        Ok(Target {
            url: url.into(),
            tls: false,
            host: UNIX_HOST.into(),
            port: None,
            path: format!("/{}", path.split('#').next().unwrap_or_default()),
            socket: Some(socket),
        })
    }

    /// The URL as it was given, without a user, which is not sent and may have a password.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The path of the Unix socket; `None` for a server at TCP.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// The host, without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// True if the scheme is `https`.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The port, or the default port of the scheme if the URL has none.
    #[must_use]
    pub fn effective_port(&self) -> u16 {
        self.port.unwrap_or(if self.tls { DEFAULT_HTTPS_PORT } else { DEFAULT_HTTP_PORT })
    }

    /// The port, if the URL has one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The path and the query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value of the `Host` header: the host, and the port if the URL has one.
    #[must_use]
    pub fn host_header(&self) -> String {
        let host = bracketed(&self.host);
        self.port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
    }

    /// The host and the port, or the Unix socket, for messages.
    #[must_use]
    pub fn address(&self) -> String {
        match &self.socket {
            Some(path) => format!("{UNIX_PREFIX}{}", path.display()),
            None => format!("{}:{}", bracketed(&self.host), self.effective_port()),
        }
    }

    fn addresses(&self) -> Result<Vec<Address>, HttpError> {
        if let Some(path) = &self.socket {
            return Ok(vec![Address::Unix(Arc::clone(path))]);
        }
        let resolved = (self.host.as_str(), self.effective_port()).to_socket_addrs();
        let resolved =
            resolved.map_err(|reason| HttpError::Resolve { address: self.address(), reason })?;
        Ok(resolved.map(Address::Tcp).collect())
    }

    /// Connects to the first address of the server that accepts a connection within `timeout`.
    /// Returns the address and the connection.
    ///
    /// # Errors
    /// [`HttpError::Resolve`] or [`HttpError::Connect`].
    pub fn reach(&self, timeout: Duration) -> Result<(Address, TcpStream), HttpError> {
        let mut refusal = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in self.addresses()? {
            match address.connect(timeout) {
                Ok(socket) => return Ok((address, socket)),
                Err(error) => refusal = error,
            }
        }
        Err(HttpError::Connect { address: self.address(), reason: refusal })
    }

    /// A GET request for the URL, with these headers.
    #[must_use]
    pub fn plain_request(&self, headers: &[Header], keep_alive: bool) -> Vec<u8> {
        let mut request = format!("GET {} HTTP/1.1\r\n", self.path);
        if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("host")) {
            request.push_str(&format!("Host: {}\r\n", self.host_header()));
        }
        for Header { name, value } in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !keep_alive {
            request.push_str("Connection: close\r\n");
        }
        request.push_str("\r\n");
        request.into_bytes()
    }
}

/// The URL for an error, without all that may be a password: one with a `/` seems to end the
/// authority.
fn shown(url: &str) -> String {
    let (scheme, rest) = split_scheme(url);
    [scheme, rest.rsplit('@').next().unwrap_or_default()].concat()
}

/// The scheme with `://`, and the rest.
fn split_scheme(url: &str) -> (&str, &str) {
    let end = url.find("://").map_or(0, |at| at + "://".len());
    let is_scheme = url[..end].trim_end_matches("://").bytes().all(|b| b.is_ascii_alphanumeric());
    url.split_at(if is_scheme { end } else { 0 })
}

/// The URL without the user before its host, which is not sent and may have a password.
fn without_user(url: &str) -> String {
    let (scheme, rest) = split_scheme(url);
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let user_length = authority.rfind('@').map_or(0, |at| at + 1);
    [scheme, &rest[user_length..]].concat()
}

/// True if the text can be in the first line of a request.
fn is_of_request(text: &str) -> bool {
    text.bytes().all(|byte| byte > b' ' && byte != 0x7f)
}

/// Percent-encodes all bytes that have a meaning in a URL.
#[must_use]
pub fn encoded(bytes: impl AsRef<[u8]>) -> String {
    let encode = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(*byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    bytes.as_ref().iter().map(encode).collect()
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        Some(digits) => Some(digits.parse().ok().filter(|port| *port != 0)?),
        None => None,
    };
    (!host.is_empty()).then_some((host, port))
}

/// A header for requests, as given with `-H`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Header {
    /// Parses `Name: value`.
    ///
    /// # Errors
    /// If there is no colon, or the text has a line break; the error shows the text.
    pub fn parse(text: &str) -> Result<Header, HttpError> {
        let wrong = || HttpError::Header(format!("'{text}' is not a header such as 'Name: value'"));
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        let (name, value) = (name.trim(), value.trim());
        let broken = name.is_empty()
            || name.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
            || value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        if broken { Err(wrong()) } else { Ok(Header { name: name.into(), value: value.into() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::address::SOCKET_PATH_BYTES_MAX;

    #[test]
    fn urls_are_parsed() {
        for (url, host, path) in [
            ("http://localhost", "localhost", "/"),
            ("http://localhost:8080", "localhost:8080", "/"),
            ("HTTP://localhost:8080/a/b?id=1#part", "localhost:8080", "/a/b?id=1"),
            ("http://localhost?id=1", "localhost", "/?id=1"),
            ("http://user:secret@localhost:1/", "localhost:1", "/"),
            ("http://[::1]:8080/x", "[::1]:8080", "/x"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.host_header().as_str(), target.path()), (host, path), "{url}");
            assert_eq!(target.url(), url.replace("user:secret@", ""));
            assert!(!target.is_tls());
        }
        let target = Target::parse("https://localhost/a").unwrap();
        assert!(target.is_tls());
        assert_eq!((target.address().as_str(), target.port()), ("localhost:443", None));
    }

    /// Regression: a space in the path of a Unix socket was refused, although servers listen at
    /// such paths.
    #[test]
    fn the_host_of_a_unix_socket_is_localhost() {
        for (url, socket, path) in [
            ("unix:/run/x.sock", "/run/x.sock", "/"),
            ("unix:x.sock:/", "x.sock", "/"),
            ("unix:/run/a b.sock:/v0/status", "/run/a b.sock", "/v0/status"),
            ("unix:///run/a:b", "///run/a:b", "/"),
            ("unix:/run/x.sock:/v0/entity?id=1:/#part", "/run/x.sock", "/v0/entity?id=1:/"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.socket(), target.path()), (Some(Path::new(socket)), path), "{url}");
            assert_eq!((target.host_header().as_str(), target.is_tls()), ("localhost", false));
            assert_eq!((target.url(), target.address()), (url, format!("unix:{socket}")));
            let request = String::from_utf8(target.plain_request(&[], true)).unwrap();
            assert_eq!(request, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        }
    }

    #[test]
    fn errors_of_invalid_urls_have_the_reason() {
        for (url, part) in [
            ("localhost", "http://"),
            ("ftp://localhost", "only http"),
            ("http://", "host or port"),
            ("http://localhost:x", "host or port"),
            ("http://localhost:70000", "host or port"),
            ("http://user:s3cret@localhost:99999/", "URL: http://localhost:99999/: bad host"),
            ("ftp://user:s3cret@localhost", "only http"),
            ("user:s3cret@localhost", "http://"),
            ("http://user:s3cret@local host", "space"),
            ("http://user:0/s3cret@localhost:99999/", "URL: http://localhost:99999/: bad host"),
            ("http://user:x/s3cret@localhost", "bad host"),
            ("user:s3cret@localhost/?of=http://localhost", "http://"),
            ("http://local host", "space"),
            ("unix:", "names no file"),
            ("unix::/v0/status", "names no file"),
            ("unix:/run/x.sock:/a b", "space"),
            ("unix:/run/x.sock:/\r\nX: y", "space"),
            (&format!("unix:/{}", "x".repeat(SOCKET_PATH_BYTES_MAX))[..], "107 bytes"),
        ] {
            let text = Target::parse(url).unwrap_err().to_string();
            assert!(text.contains(part) && !text.contains("s3cret"), "{url}: {text}");
        }
    }

    #[test]
    fn the_plain_request_carries_the_headers() {
        let target = Target::parse("http://localhost:1/a").unwrap();
        let headers = [Header::parse("X-Id: 7").unwrap()];
        let request = String::from_utf8(target.plain_request(&headers, true)).unwrap();
        assert_eq!(request, "GET /a HTTP/1.1\r\nHost: localhost:1\r\nX-Id: 7\r\n\r\n");
        for host in ["Host: example.org", "host: example.org"] {
            let own = [Header::parse(host).unwrap()];
            let request = String::from_utf8(target.plain_request(&own, true)).unwrap();
            assert_eq!(request, format!("GET /a HTTP/1.1\r\n{host}\r\n\r\n"));
        }
    }

    #[test]
    fn headers_with_line_breaks_are_refused() {
        for text in ["no colon", ": value", "a b: c", "X: a\r\nY: b"] {
            assert!(Header::parse(text).is_err(), "{text:?}");
        }
    }
}
