//! Protection against web pages of other sites (cross-site requests and DNS rebinding).
//!
//! A browser sends the requests of any page, also to `127.0.0.1` on a developer's machine. It names
//! the site of the page in `Origin` (RFC 6454) and `Sec-Fetch-Site` (W3C Fetch Metadata), and the
//! name by which it reached the server in `Host`. An attacker can bind a name of his own to this
//! server's address, so that the browser takes his page and this server for the same site: this is
//! why `Host` is checked, too. Programs other than browsers send only `Host`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pellucid_http::{ListenAddress, Request};

/// Top-level domains that do not exist in the public DNS (RFC 6761, RFC 6762, ICANN's `internal`),
/// so that no attacker can own a name in them.
const PRIVATE_DOMAINS: [&[u8]; 4] = [b"localhost", b"local", b"internal", b"test"];

/// The names of this server, and the sites whose pages may send requests to it.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// The values of `Host` for the addresses that the server listens on.
    listen: Vec<String>,
    /// The names of this server, in lower case.
    hosts: Vec<String>,
    /// The allowed origins of other sites, in lower case.
    origins: Vec<String>,
    has_tls: bool,
}

/// The reason to refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteRefusal {
    /// The name in `Host` is not a name of this server.
    Host,
    /// The request comes from a page of another site.
    Origin,
}

impl SiteRefusal {
    pub(crate) fn status(self) -> u16 {
        match self {
            SiteRefusal::Host => 421,
            SiteRefusal::Origin => 403,
        }
    }

    pub(crate) fn line(self) -> &'static str {
        match self {
            SiteRefusal::Host => {
                "this server has no accounts and does not know itself by the name in `Host`: ask \
                 it by its address, or start it with the name in --allowed-hosts"
            }
            SiteRefusal::Origin => {
                "a page of another site asks this: start the server with its origin in \
                 --allowed-origins, if it may"
            }
        }
    }
}

impl Sites {
    /// The sites of a server that listens on `listen` and has the names `own_names`. `origins` are
    /// the other sites that the operator allows.
    pub(crate) fn new(
        listen: &[ListenAddress],
        has_tls: bool,
        own_names: impl IntoIterator<Item = String>,
        origins: &[String],
    ) -> Sites {
        let hosts = own_names.into_iter().filter(|name| !name.is_empty());
        Sites {
            listen: listen.iter().map(host_at).collect(),
            hosts: hosts.map(|name| name.to_ascii_lowercase()).collect(),
            origins: origins.iter().map(|origin| origin.to_ascii_lowercase()).collect(),
            has_tls,
        }
    }

    /// Returns the reason to refuse a request, if there is one. `Host` is checked only if the
    /// server is open, that is, needs no credentials.
    #[inline]
    pub(crate) fn refuse(&self, request: &Request<'_>, is_open: bool) -> Option<SiteRefusal> {
        let (mut host, mut origin, mut site, mut mode) = (None, None, None, None);
        for header in request.headers {
            let place = match header.name.len() {
                4 if header.name.eq_ignore_ascii_case("host") => &mut host,
                6 if header.name.eq_ignore_ascii_case("origin") => &mut origin,
                14 if header.name.eq_ignore_ascii_case("sec-fetch-site") => &mut site,
                14 if header.name.eq_ignore_ascii_case("sec-fetch-mode") => &mut mode,
                _ => continue,
            };
            *place = Some(header.value);
        }
        if is_open && host.is_some_and(|host| !self.is_own(host)) {
            return Some(SiteRefusal::Host);
        }
        let is_foreign = match (origin, site) {
            (Some(origin), _) => !self.is_allowed(origin, host.unwrap_or_default()),
            (None, Some(b"cross-site" | b"same-site")) => {
                // A person who follows a link sees the answer, but the page with the link does
                // not.
                let is_reading = matches!(request.method, "GET" | "HEAD");
                !is_reading || mode != Some(b"navigate".as_slice())
            }
            (None, _) => false,
        };
        is_foreign.then_some(SiteRefusal::Origin)
    }

    /// Returns true if `host` is an IP address, a name that cannot exist in the public DNS, or a
    /// name of this server.
    fn is_own(&self, host: &[u8]) -> bool {
        if self.listen.iter().any(|own| host == own.as_bytes()) {
            return true;
        }
        let name = name_in(host);
        let last = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
        if last.len() == name.len() || PRIVATE_DOMAINS.iter().any(|d| last.eq_ignore_ascii_case(d))
        {
            return true;
        }
        let text = std::str::from_utf8(name).unwrap_or_default();
        text.parse::<Ipv4Addr>().is_ok()
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(text))
    }

    /// Returns true if `origin` is this server under the name `host`, or the operator allows it.
    fn is_allowed(&self, origin: &[u8], host: &[u8]) -> bool {
        let own = match origin.strip_prefix(b"https://") {
            Some(own) => Some(own),
            // A proxy with TLS may be in front of a server without it, but not the other way round.
            None => origin.strip_prefix(b"http://").filter(|_| !self.has_tls),
        };
        own.is_some_and(|own| !own.is_empty() && own.eq_ignore_ascii_case(host))
            || self.origins.iter().any(|known| origin.eq_ignore_ascii_case(known.as_bytes()))
    }
}

/// The name or address in a `Host`, without the port.
fn name_in(host: &[u8]) -> &[u8] {
    if host.first() == Some(&b'[') {
        // An IPv6 address counts as own, like `localhost`. Anything else in brackets is invalid,
        // and `.` is foreign.
        let inner = host[1..].split(|byte| *byte == b']').next().unwrap_or_default();
        let text = std::str::from_utf8(inner).unwrap_or_default();
        return if text.parse::<Ipv6Addr>().is_ok() { b"localhost" } else { b"." };
    }
    match host.iter().position(|byte| *byte == b':') {
        Some(colon) => &host[..colon],
        None => host,
    }
}

/// The value of `Host` for a listen address; clients of a Unix socket send `localhost`.
fn host_at(listen: &ListenAddress) -> String {
    listen.tcp().map_or_else(|| "localhost".to_owned(), |address| address.to_string())
}

/// The names of this machine.
pub(crate) fn machine_names() -> Vec<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    vec![name.trim().to_owned()]
}

/// The host in `host:port`; `authority` may also be a name or an address alone.
pub(crate) fn host_of(authority: &str) -> String {
    match authority.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => authority.rsplit_once(':').map_or(authority, |(name, _)| name).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pellucid_http::Header;

    use super::*;

    fn sites(has_tls: bool) -> Sites {
        let names = ["Box.Example.com", "", "db.example.com"].map(str::to_owned);
        let listen = ["127.0.0.1:8080", "unix:/run/pellucid.sock"].map(|at| at.parse().unwrap());
        Sites::new(&listen, has_tls, names, &["https://console.example.com".to_owned()])
    }

    fn refused(sites: &Sites, method: &str, headers: &[(&str, &str)]) -> Option<SiteRefusal> {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
        let request =
            Request { method, path: "/v0/entity", query: None, headers: &headers, body: b"" };
        sites.refuse(&request, true)
    }

    #[test]
    fn names_in_the_public_dns_are_foreign_unless_they_are_own_names() {
        let sites = sites(false);
        for own in [
            "127.0.0.1:8080", "127.0.0.1", "10.1.2.3:8080", "[::1]:8080", "[2001:db8::1]",
            "localhost", "LOCALHOST:8080", "app.localhost", "pellucid:8080", "box.local",
            "db.internal:80", "db.svc.cluster.local", "box.example.com:8080", "db.example.com", "",
        ] {
            assert_eq!(refused(&sites, "GET", &[("Host", own)]), None, "{own}");
        }
        for foreign in [
            "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.", "ai.",
            "[evil.example]", "1.2.3.4.5", "localhost.evil.ex:8080", "b\u{fc}x.example",
        ] {
            let outcome = refused(&sites, "GET", &[("Host", foreign)]);
            assert_eq!(outcome, Some(SiteRefusal::Host), "{foreign}");
        }
        assert_eq!(refused(&sites, "GET", &[]), None, "HTTP/1.0");
    }

    #[test]
    fn requests_of_pages_of_other_sites_are_refused() {
        let host = ("Host", "127.0.0.1:8080");
        for origin in [
            "https://evil.example", "null", "http://127.0.0.1:1", "http://localhost:8080",
            "http://127.0.0.1:80800", "http://127.0.0.1", "127.0.0.1:8080", "", "http://",
        ] {
            for method in ["PUT", "GET", "OPTIONS"] {
                let outcome = refused(&sites(false), method, &[host, ("Origin", origin)]);
                assert_eq!(outcome, Some(SiteRefusal::Origin), "{method} {origin}");
            }
        }
        for (has_tls, origin) in [
            (false, "http://127.0.0.1:8080"),
            (false, "https://127.0.0.1:8080"),
            (true, "https://127.0.0.1:8080"),
            (true, "https://console.example.com"),
        ] {
            let outcome = refused(&sites(has_tls), "PUT", &[("origin", origin), host]);
            assert_eq!(outcome, None, "{origin}");
        }
        let downgraded = [host, ("Origin", "http://127.0.0.1:8080")];
        assert_eq!(refused(&sites(true), "PUT", &downgraded), Some(SiteRefusal::Origin));
    }

    #[test]
    fn fetch_metadata_counts_if_there_is_no_origin() {
        let asked = |method: &str, site: &str, mode: &str| {
            let headers = [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode)];
            refused(&sites(false), method, &headers)
        };
        for site in ["none", "same-origin"] {
            assert_eq!(asked("GET", site, "no-cors"), None);
            assert_eq!(asked("POST", site, "cors"), None);
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(asked("GET", site, "navigate"), None, "a link that is followed");
            assert_eq!(asked("GET", site, "no-cors"), Some(SiteRefusal::Origin), "an image");
            assert_eq!(asked("POST", site, "navigate"), Some(SiteRefusal::Origin), "a form");
        }
    }
}
