//! Addresses of servers: an IP address and a port, or the file of a Unix socket.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The prefix of the address of a Unix socket.
pub(super) const UNIX_PREFIX: &str = "unix:";
/// Limit of the path of a Unix socket in bytes: the length of `sun_path` (unix(7)) without the
/// final NUL.
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port of TCP; for a listener, port 0 stands for any free port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(Arc<Path>),
}

impl Address {
    /// The IP address and port; none for a Unix socket.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// True if only this machine can connect.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }

    /// Connects, and returns a blocking stream without timeouts. The type is that of TCP streams
    /// for Unix sockets as well: both are read and written in the same way, but a Unix socket has
    /// no options of TCP.
    ///
    /// A Unix socket accepts a connection at once, unless its server's backlog is full.
    ///
    /// # Errors
    /// If no server listens there, or none accepts the connection within `timeout`.
    pub fn connect(&self, timeout: Duration) -> io::Result<TcpStream> {
        match self {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, timeout)?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
            Address::Unix(path) => connect_to_file(path, timeout),
        }
    }
}

#[cfg(unix)]
fn connect_to_file(path: &Path, timeout: Duration) -> io::Result<TcpStream> {
    use socket2::{Domain, SockAddr, Socket, Type};
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    check_socket_path(path.as_os_str().as_encoded_bytes()).map_err(invalid)?;
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The time limit of writes also limits the wait for a full backlog. Zero would mean no limit.
    socket.set_write_timeout(Some(timeout.max(Duration::from_micros(1))))?;
    loop {
        match socket.connect(&address) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let what = "the server has not accepted the connection in time";
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            Err(error) => return Err(error),
        }
    }
    socket.set_write_timeout(None)?;
    Ok(socket.into())
}

#[cfg(not(unix))]
fn connect_to_file(_: &Path, _: Duration) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The path of a Unix socket, as in an address or a URL.
///
/// # Errors
/// If no socket can have this path; the text is the reason.
pub(super) fn socket_path(text: &str) -> Result<Arc<Path>, String> {
    check_socket_path(text.as_bytes())?;
    Ok(Path::new(text).into())
}

fn check_socket_path(path: &[u8]) -> Result<(), String> {
    if path.is_empty() || path.contains(&0) {
        return Err("it names no file: write it as unix:/run/pellucid.sock".to_owned());
    }
    if path.len() > SOCKET_PATH_BYTES_MAX {
        return Err(format!(
            "the path of a Unix socket has {SOCKET_PATH_BYTES_MAX} bytes at most, and this one has \
             {}: choose a shorter one",
            path.len()
        ));
    }
    Ok(())
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Tcp(address)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let address = match text.strip_prefix(UNIX_PREFIX) {
            Some(path) => socket_path(path).map(Address::Unix),
            None => {
                let reason = |_| "write it as 127.0.0.1:8080 or unix:/run/pellucid.sock".to_owned();
                text.parse().map(Address::Tcp).map_err(reason)
            }
        };
        address.map_err(|reason| format!("invalid address: {text}: {reason}"))
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
    fn addresses_round_trip() {
        let longest = format!("unix:/{}", "x".repeat(SOCKET_PATH_BYTES_MAX - 1));
        for (text, is_local) in [
            ("127.0.0.1:80", true),
            ("[::1]:80", true),
            ("0.0.0.0:0", false),
            ("unix:/run/x/a b.sock", true),
            ("unix:x", true),
            (&longest[..], true),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((&*address.to_string(), address.is_local()), (text, is_local));
            assert_eq!(address.tcp().is_none(), text.starts_with("unix:"));
        }
    }

    /// Regression: any text behind `unix:` was accepted as a path.
    #[test]
    fn invalid_addresses_are_refused() {
        let long = format!("unix:/{}", "x".repeat(SOCKET_PATH_BYTES_MAX));
        for (text, part) in [
            ("here", "127.0.0.1:8080"),
            ("localhost:80", "127.0.0.1:8080"),
            ("/run/pellucid.sock", "unix:/run/"),
            ("unix:", "names no file"),
            ("unix:\0abstract", "names no file"),
            ("unix:/run/x\0y", "names no file"),
            (&long[..], "107 bytes at most, and this one has 108: choose a shorter one"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn an_invalid_path_is_an_error_of_the_connection() {
        for path in ["", "\0abstract", &"x".repeat(SOCKET_PATH_BYTES_MAX + 1)] {
            let address = Address::Unix(Path::new(path).into());
            let error = address.connect(Duration::from_secs(60)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}: {error}");
        }
    }

    /// Regression: connecting to a Unix socket with a full backlog had no time limit.
    #[cfg(unix)]
    #[test]
    fn connecting_to_a_full_backlog_ends_in_time() {
        use socket2::{Domain, SockAddr, Socket, Type};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full.sock");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let address = Address::Unix(path.into());
        let connect = || address.connect(Duration::from_millis(10));
        // The kernel may round the backlog up.
        let mut waiting = Vec::new();
        let refused = loop {
            match connect() {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
            assert!(waiting.len() < 1_000, "the backlog has no limit");
        };
        if cfg!(target_os = "linux") {
            assert_eq!(refused.kind(), io::ErrorKind::TimedOut, "{refused}");
        }
        listener.accept().unwrap();
        let stream = connect().unwrap();
        assert_eq!(stream.write_timeout().unwrap(), None, "the limit is that of connecting alone");
    }
}
