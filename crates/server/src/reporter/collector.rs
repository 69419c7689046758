//! Posts spans to a collector: one HTTP request for each batch, over a connection of its own.
//!
//! The OpenTelemetry crates are not used, because their exporters need an asynchronous runtime and
//! an HTTP client, or thirty other crates.

use std::fmt;
use std::time::Duration;

use pellucid_client::http::{HttpRequest, Target, TlsOptions};

/// The longest time to wait for the collector.
const PATIENCE: Duration = Duration::from_secs(5);
/// The path for traces in the protocol (OTLP over HTTP).
const PATH: &str = "/v1/traces";

/// The collector to which spans are posted.
#[derive(Clone)]
pub struct TraceCollector {
    target: Target,
    path: String,
    header: Option<(String, String)>,
}

/// Shows the URL without the header, which may contain a secret.
impl fmt::Debug for TraceCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.target.address(), self.path)
    }
}

impl TraceCollector {
    /// Describes the collector with this base URL. Each post has the header `name: value`, if one
    /// is given.
    ///
    /// # Errors
    /// If the URL is not usable, or the header is malformed.
    pub fn to(url: &str, header: Option<&str>) -> Result<TraceCollector, String> {
        let example = "write it as http://127.0.0.1:4318";
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            format!(
                "`{url}` is no collector: {example} (without TLS: let a collector on this machine \
                 send spans on)"
            )
        })?;
        let target = Target::parse(url).ok().filter(|_| !rest.contains('@'));
        let target = target.ok_or_else(|| format!("`{url}` is no collector: {example}"))?;
        let base = rest.split_once('/').map_or("", |(_, base)| base);
        let base = base.trim_end_matches('/');
        let path = match base {
            "" => PATH.to_owned(),
            _ if format!("/{base}").ends_with(PATH) => format!("/{base}"),
            _ => format!("/{base}{PATH}"),
        };
        let header = header.map(parse_header).transpose()?;
        Ok(TraceCollector { target, path, header })
    }

    /// Posts a document of spans.
    ///
    /// # Errors
    /// If the collector cannot be reached, or answers with another status than 2xx.
    pub(crate) fn post(&self, body: &[u8]) -> Result<(), String> {
        let header = self.header.as_ref();
        let header = header.map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
        let question = HttpRequest {
            method: "POST",
            path: &self.path,
            headers: &format!("Content-Type: application/json\r\nConnection: close\r\n{header}"),
            body,
            patience: PATIENCE,
            limit: Some(PATIENCE),
        };
        let answer =
            question.ask_in_pieces(&self.target, &TlsOptions::default(), &mut |_, body| {
                body.clear();
                Ok(())
            });
        match answer? {
            (200..300, _) => Ok(()),
            (status, _) => Err(format!("it answers {status}")),
        }
    }
}

fn parse_header(header: &str) -> Result<(String, String), String> {
    // The error does not show the header, which may contain a secret.
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
    fn the_path_is_added_to_the_base_url() {
        for (url, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector/", "http://collector:80/v1/traces"),
            ("http://[::1]:4318/otlp", "http://[::1]:4318/otlp/v1/traces"),
            ("http://[::1]/v1/traces", "http://[::1]:80/v1/traces"),
        ] {
            assert_eq!(format!("{:?}", TraceCollector::to(url, None).unwrap()), expected);
        }
        for url in
            ["", "collector:4318", "https://collector", "http://", "http://a b", "http://u@h"]
        {
            assert!(
                TraceCollector::to(url, None).unwrap_err().contains("http://127.0.0.1:4318"),
                "{url}"
            );
        }
    }

    #[test]
    fn the_header_is_checked_and_not_shown() {
        let export = TraceCollector::to("http://c", Some("x-key: hunter2")).unwrap();
        assert!(!format!("{export:?}").contains("hunter2"));
        for header in ["hunter2", ": hunter2", "x key: hunter2", "x: hunter2\r\ny: z"] {
            let refused = TraceCollector::to("http://c", Some(header)).unwrap_err();
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}
