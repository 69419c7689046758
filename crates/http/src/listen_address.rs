//! Addresses of listeners, as operators write them.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use pellucid_client::http::Address;

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP address and port; port 0 stands for any free port.
    Tcp(SocketAddr),
    /// The path of the file of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The TCP address and port; none for a Unix socket.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// True if only this machine can connect.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> ListenAddress {
        ListenAddress::Tcp(address)
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    /// Parses the address as clients do ([`Address`]), so that they accept each address of a
    /// server.
    fn from_str(text: &str) -> Result<ListenAddress, String> {
        Ok(match text.parse()? {
            Address::Tcp(address) => ListenAddress::Tcp(address),
            Address::Unix(path) => ListenAddress::Unix(path.to_path_buf()),
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(path) => Address::Unix(path.as_path().into()).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limit of the path of a Unix socket in bytes, set by the system.
    const PATH_BYTES_MAX: usize = 107;

    #[test]
    fn addresses_round_trip() {
        let longest = format!("unix:/{}", "x".repeat(PATH_BYTES_MAX - 1));
        for (text, is_local) in [
            ("127.0.0.1:8080", true),
            ("[::1]:80", true),
            ("0.0.0.0:0", false),
            ("unix:/run/pellucid/a b.sock", true),
            ("unix:beside.sock", true),
            (&longest[..], true),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!((&*address.to_string(), address.is_local()), (text, is_local));
            assert_eq!(address.tcp().is_none(), text.starts_with("unix:"));
        }
    }

    #[test]
    fn errors_of_invalid_addresses_name_the_remedy() {
        let long = format!("unix:/{}", "x".repeat(PATH_BYTES_MAX));
        for (text, part) in [
            ("here", "127.0.0.1:8080"),
            ("localhost:80", "127.0.0.1:8080"),
            ("/run/pellucid.sock", "unix:/run/"),
            ("unix:", "names no file"),
            ("unix:\0abstract", "names no file"),
            (&long[..], "has 108: choose a shorter one"),
        ] {
            let problem = text.parse::<ListenAddress>().unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
