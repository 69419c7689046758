//! URLs of nodes.

use std::fmt;

/// Limit of a node's URL in bytes, in canonical form.
pub const URL_BYTES_MAX: usize = 200;

/// The scheme of all URLs of nodes.
const SCHEME: &str = "http://";

/// The URL of a node, `http://host:port`, in canonical form: letters in lower case, the port
/// written out, nothing behind it. Nodes are compared by these texts: different texts are different
/// nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeUrl(String);

/// An error in a list of nodes; the text says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError(String);

impl TopologyError {
    pub(crate) fn new(what: impl Into<String>) -> TopologyError {
        TopologyError(what.into())
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TopologyError {}

impl NodeUrl {
    /// Parses a URL of a node, and brings it into canonical form.
    ///
    /// # Errors
    /// If it is not of the form `http://host:port`, or longer than [`URL_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<NodeUrl, TopologyError> {
        let wrong = |what: &str| {
            Err(TopologyError::new(format!(
                "`{text}` {what}: a node of a cluster is named as http://host:port"
            )))
        };
        let lower = text.to_ascii_lowercase();
        let Some(rest) = lower.strip_prefix(SCHEME) else {
            return wrong(match lower.starts_with("https://") {
                true => "asks for TLS, which nodes do not speak among themselves yet",
                false => "does not begin with http://",
            });
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (authority, "80"),
        };
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match in_brackets {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.bytes().all(is_of_host),
        };
        if !is_host {
            return wrong("has no host that can be read");
        }
        // The comparison with the text refuses `+80` and `080`.
        let is_port = |number: u16| number > 0 && number.to_string() == port;
        if !port.parse().is_ok_and(is_port) {
            return wrong("has no port that can be read");
        }
        let canonical = format!("{SCHEME}{host}:{port}");
        if canonical.len() > URL_BYTES_MAX {
            return wrong(&format!("has more than {URL_BYTES_MAX} bytes with its port"));
        }
        Ok(NodeUrl(canonical))
    }

    /// The URL in canonical form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host and the port, in the form `host:port` for name lookup.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.0[SCHEME.len()..]
    }
}

fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_brought_into_canonical_form() {
        for (given, canonical) in [
            ("http://a:1", "http://a:1"),
            ("HTTP://Node-1.Example:8081/", "http://node-1.example:8081"),
            ("http://10.0.0.1", "http://10.0.0.1:80"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://[fe80::1]", "http://[fe80::1]:80"),
        ] {
            let url = NodeUrl::parse(given).unwrap();
            assert_eq!(url.as_str(), canonical);
            assert_eq!(NodeUrl::parse(canonical).unwrap(), url);
            assert_eq!(format!("http://{}", url.authority()), canonical);
        }
    }

    /// Regression: the length was checked before the port was added, so a stored list with such a
    /// URL could not be read at the next start.
    #[test]
    fn the_longest_url_without_a_port_is_valid_in_canonical_form() {
        let without_port = |bytes: usize| format!("http://{}", "a".repeat(bytes - SCHEME.len()));
        let longest = NodeUrl::parse(&without_port(URL_BYTES_MAX - ":80".len())).unwrap();
        assert_eq!(longest.as_str().len(), URL_BYTES_MAX);
        assert_eq!(NodeUrl::parse(longest.as_str()).unwrap(), longest);
        assert_eq!(NodeUrl::parse(&format!("{longest}/")).unwrap(), longest);
        for bytes in URL_BYTES_MAX - 2..=URL_BYTES_MAX {
            let error = NodeUrl::parse(&without_port(bytes)).unwrap_err().to_string();
            assert!(error.contains("more than 200 bytes with its port"), "{bytes}: {error}");
        }
    }

    #[test]
    fn invalid_urls_are_refused_with_the_expected_form() {
        let long = format!("http://{}:1", "a".repeat(URL_BYTES_MAX));
        for given in [
            "", "a:1", "ftp://a:1", "https://a:1", "http://", "http://:1", "http://a:0",
            "http://a:+1", "http://a:01", "http://a:65536", "http://a:1/path", "http://u@a:1",
            "http://a b:1", "http://[::1:1", "http://[zz]:1", "http://a,b:1", &long,
        ] {
            let error = NodeUrl::parse(given).unwrap_err().to_string();
            assert!(error.contains("http://host:port"), "{given}: {error}");
        }
    }
}
