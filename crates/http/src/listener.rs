//! Listeners: sockets that accept connections, over TCP or at the file of a Unix socket.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use mio::{Interest, Registry, Token};

use crate::ListenAddress;
use crate::socket_file::SocketFile;

/// The length of the kernel's queue of connections that wait to be accepted.
const BACKLOG: i32 = 4_096;

/// Opens a TCP socket that listens on `address`.
///
/// # Errors
/// If the address is in use, or does not belong to this machine.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    // Without it, a restart fails while connections of the last run are in TIME-WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A socket that accepts connections.
pub struct Listener {
    address: ListenAddress,
    socket: Socket,
}

/// The socket of a listener.
enum Socket {
    Tcp(mio::net::TcpListener),
    /// A Unix socket and its file. The file is dropped first, so that while it exists, a server
    /// listens.
    Unix {
        _file: SocketFile,
        listener: mio::net::UnixListener,
    },
}

impl Listener {
    /// Listens on `address`. The file of a Unix socket gets the mode `socket_mode`.
    ///
    /// # Errors
    /// If the address is in use or does not belong to this machine, or the file cannot be made.
    pub fn open(address: &ListenAddress, socket_mode: u32) -> io::Result<Listener> {
        let path = match address {
            ListenAddress::Tcp(address) => return Listener::over_tcp(listen(*address)?),
            ListenAddress::Unix(path) => path,
        };
        let (file, listener) = SocketFile::listen(path, socket_mode, BACKLOG)?;
        let listener = mio::net::UnixListener::from_std(listener);
        let socket = Socket::Unix { _file: file, listener };
        Ok(Listener { address: address.clone(), socket })
    }

    /// Makes a listener of a socket that [`listen`] opened.
    ///
    /// # Errors
    /// If its address cannot be read.
    pub fn over_tcp(listener: TcpListener) -> io::Result<Listener> {
        let address = listener.local_addr()?.into();
        let socket = Socket::Tcp(mio::net::TcpListener::from_std(listener));
        Ok(Listener { address, socket })
    }

    /// The address that it listens on; port 0 is replaced by the port that the system chose.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Registers the socket, so that the event loop is woken when connections wait.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Socket::Unix { listener, .. } => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// Accepts a waiting connection. Returns it with the address of its client; none for a Unix
    /// socket. `TcpStream` stands for both kinds of streams, which are read and written alike.
    pub(crate) fn accept(&self) -> io::Result<(TcpStream, Option<IpAddr>)> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                Ok((stream.into(), Some(peer.ip())))
            }
            Socket::Unix { listener, .. } => {
                let (stream, _) = listener.accept()?;
                Ok((TcpStream::from(OwnedFd::from(stream)), None))
            }
        }
    }
}
