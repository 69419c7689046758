//! Addresses of listeners, as operators write them.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The beginning of an address that is a file.
const UNIX_PREFIX: &str = "unix:";

/// Bytes that the path of a Unix socket may have: those of `sun_path` (unix(7)) but for its end.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Address and port of TCP; port 0 for any that is free.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Address and port, of TCP.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// True if this machine alone can connect.
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
                    "`{text}` is no address: write it as 127.0.0.1:8080, or as \
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
    fn addresses_are_read_as_they_are_written() {
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
    fn addresses_that_cannot_be_say_the_cure() {
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
