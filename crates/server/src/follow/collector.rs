//! Posts spans to a collector: one request a batch, over a connection of its own.
//!
//! The exporters of the OpenTelemetry crates bring an asynchronous runtime and an HTTP client, or
//! thirty crates without them; one POST a second needs a socket and eighty lines.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The time that connecting, writing and reading may take, each.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of an answer that are looked at.
const ANSWER_BYTES: usize = 1_024;
/// The path that the protocol names for traces.
const PATH: &str = "/v1/traces";

/// The collector that spans go to.
#[derive(Clone)]
pub struct Export {
    authority: String,
    path: String,
    header: Option<(String, String)>,
}

/// The header is left out: it may hold a secret.
impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

impl Export {
    /// To the collector with this base URL, with a header `name: value` for it.
    ///
    /// # Errors
    /// If the URL is none that can be used, or the header is malformed.
    pub fn to(url: &str, header: Option<&str>) -> Result<Export, String> {
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            format!(
                "`{url}` is no collector: write it as http://127.0.0.1:4318 (without TLS: let a \
                 collector on this machine send spans on)"
            )
        })?;
        let (authority, base) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || authority.contains('@') || !is_plain(rest) {
            return Err(format!("`{url}` is no collector: write it as http://127.0.0.1:4318"));
        }
        let port =
            if authority.rsplit(']').next().unwrap_or("").contains(':') { "" } else { ":80" };
        let base = base.trim_end_matches('/');
        let path = match base {
            "" => PATH.to_owned(),
            _ if format!("/{base}").ends_with(PATH) => format!("/{base}"),
            _ => format!("/{base}{PATH}"),
        };
        let header = header.map(parse_header).transpose()?;
        Ok(Export { authority: format!("{authority}{port}"), path, header })
    }

    /// Posts a document.
    pub(crate) fn post(&self, body: &[u8]) -> io::Result<()> {
        let mut addresses = self.authority.to_socket_addrs()?;
        let address = addresses.next().ok_or_else(|| io::Error::other("it has no address"))?;
        let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        let header = self.header.as_ref();
        let header = header.map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n{header}\r\n",
            self.path,
            self.authority,
            body.len()
        );
        socket.write_all(&[head.as_bytes(), body].concat())?;
        let mut answer = Vec::new();
        socket.take(ANSWER_BYTES as u64).read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split_whitespace().nth(1).and_then(|text| text.parse::<u16>().ok());
        match status {
            Some(200..300) => Ok(()),
            Some(status) => Err(io::Error::other(format!("it answers {status}"))),
            None => Err(io::Error::other("it does not answer as an HTTP server does")),
        }
    }
}

fn parse_header(header: &str) -> Result<(String, String), String> {
    // The text is not shown: it may hold a secret.
    let malformed = || "a header for the collector is written as `name: value`".to_owned();
    let (name, value) = header.split_once(':').ok_or_else(malformed)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_header = !name.is_empty()
        && name.bytes().all(is_name)
        && value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if is_header { Ok((name.to_owned(), value.trim().to_owned())) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_by_its_base() {
        for (url, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector/", "http://collector:80/v1/traces"),
            ("http://[::1]:4318/otlp", "http://[::1]:4318/otlp/v1/traces"),
            ("http://[::1]/v1/traces", "http://[::1]:80/v1/traces"),
        ] {
            assert_eq!(format!("{:?}", Export::to(url, None).unwrap()), expected);
        }
        for url in
            ["", "collector:4318", "https://collector", "http://", "http://a b", "http://u@h"]
        {
            assert!(Export::to(url, None).unwrap_err().contains("http://127.0.0.1:4318"), "{url}");
        }
    }

    #[test]
    fn its_header_is_checked_and_not_shown() {
        let export = Export::to("http://c", Some("x-key: hunter2")).unwrap();
        assert!(!format!("{export:?}").contains("hunter2"));
        for header in ["hunter2", ": hunter2", "x key: hunter2", "x: hunter2\r\ny: z"] {
            let refused = Export::to("http://c", Some(header)).unwrap_err();
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}
