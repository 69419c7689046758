//! Addresses of listeners, as operators write them.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The prefix of the address of a Unix socket.
const UNIX_PREFIX: &str = "unix:";

/// The most bytes of the path of a Unix socket: those of `sun_path` (unix(7)) without the final
/// NUL.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

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

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        let Some(path) = text.strip_prefix(UNIX_PREFIX) else {
            let address = text.parse().map(ListenAddress::Tcp);
            return address.map_err(|_| {
                format!(
                    "`{text}` is not an address: write it as 127.0.0.1:8080, or as \
                     unix:/run/pellucid/pellucid.sock"
                )
            });
        };
        if path.is_empty() || path.contains('\0') {
            let example = "unix:/run/pellucid/pellucid.sock";
            return Err(format!("`{text}` names no file: write the address as {example}"));
        }
        if path.len() > SOCKET_PATH_BYTES_MAX {
            return Err(format!(
                "the path of a Unix socket has {SOCKET_PATH_BYTES_MAX} bytes at most, and `{path}` \
                 has {}: choose a shorter one",
                path.len()
            ));
        }
        Ok(ListenAddress::Unix(path.into()))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        let longest = format!("unix:/{}", "x".repeat(SOCKET_PATH_BYTES_MAX - 1));
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
        let long = format!("unix:/{}", "x".repeat(SOCKET_PATH_BYTES_MAX));
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
