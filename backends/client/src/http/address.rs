//! Addresses at which services are met: of TCP, or the file of a Unix socket.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The beginning of an address that is a file.
pub(super) const UNIX_PREFIX: &str = "unix:";

/// The place at which a service is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Address and port of TCP.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Unix(Arc<Path>),
}

impl Address {
    /// A connection, which reads and writes block. The type stands for streams of either kind,
    /// which are read and written alike; options of TCP are none of a Unix socket's. A Unix socket
    /// answers at once, unless more connections wait for its server than it lets wait.
    ///
    /// # Errors
    /// If nobody listens there, or does not answer within `timeout`.
    pub fn connect(&self, timeout: Duration) -> io::Result<TcpStream> {
        match self {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, timeout)?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
            Address::Unix(path) => connect_to_file(path),
        }
    }
}

#[cfg(unix)]
fn connect_to_file(path: &Path) -> io::Result<TcpStream> {
    let stream = std::os::unix::net::UnixStream::connect(path)?;
    Ok(std::os::fd::OwnedFd::from(stream).into())
}

#[cfg(not(unix))]
fn connect_to_file(_: &Path) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Tcp(address)
    }
}

impl FromStr for Address {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Address, Self::Err> {
        match text.strip_prefix(UNIX_PREFIX) {
            Some(path) => Ok(Address::Unix(Path::new(path).into())),
            None => text.parse().map(Address::Tcp),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["127.0.0.1:80", "[::1]:80", "unix:/run/x.sock", "unix:x"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert!("localhost:80".parse::<Address>().is_err());
    }
}
