//! Listeners: sockets that accept connections, over TCP or at a file.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use mio::{Interest, Registry, Token};

use crate::listen_address::ListenAddress;
use crate::socket_file::SocketFile;

/// Connections that the kernel may hold ready to be accepted.
const BACKLOG: i32 = 4_096;

/// Opens a socket of TCP to listen on.
///
/// # Errors
/// If the address is taken or not ours.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    // A restart need not wait for the connections of the last run to be forgotten.
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
    /// With its file, which goes first: as long as it is there, somebody listens.
    Unix {
        _file: SocketFile,
        listener: mio::net::UnixListener,
    },
}

impl Listener {
    /// Listens on `address`. The file of a Unix socket gets the mode `socket_mode`.
    ///
    /// # Errors
    /// If the address is taken or not ours.
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

    /// Goes on with a socket of [`listen`].
    ///
    /// # Errors
    /// If it is no socket any more.
    pub fn over_tcp(listener: TcpListener) -> io::Result<Listener> {
        let address = listener.local_addr()?.into();
        let socket = Socket::Tcp(mio::net::TcpListener::from_std(listener));
        Ok(Listener { address, socket })
    }

    /// Its address, with the port that was free.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Has an event loop told of connections that wait.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Socket::Unix { listener, .. } => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// A connection that waits, and the address that it is from; at a file there is none. The type
    /// stands for streams of either kind, which are read and written alike.
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
