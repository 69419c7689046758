//! One connection: its socket, what is in flight on it, and when its next request is due.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pellucid_clock::Ticks;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::http2::Http2;
use crate::poller::Poller;
use crate::simulation::Simulation;
use crate::stream::Stream;
use crate::trace_sampler::PendingTrace;
use pellucid_client::http::{Address, ResponseParser, TlsSetup};

/// A request whose answer is awaited.
#[derive(Debug, Default)]
pub(crate) struct PendingRequest {
    /// The intended start.
    pub(crate) intended: Ticks,
    /// The time of the actual send.
    pub(crate) sent: Ticks,
    /// True if it is a HEAD request, whose answer has no body.
    pub(crate) bodiless: bool,
    /// True if it has been counted as timed out.
    pub(crate) timed_out: bool,
    /// True if it is in a batch of which only the last request is measured (`-B`), and is not the
    /// last.
    pub(crate) is_within_batch: bool,
    /// The index of its operation, if the source has several.
    pub(crate) operation: u16,
    /// Its HTTP/2 stream. Streams are numbered in the order of requests; 0 in HTTP/1.1.
    pub(crate) stream: u32,
    /// In HTTP/2: the number of times that the server has refused it.
    pub(crate) left_out: u8,
    /// Its bytes, to send it again after that; `None` if all requests are the same.
    pub(crate) kept: Option<Bytes>,
    /// Its trace, if it is watched.
    pub(crate) watch: Option<Box<PendingTrace>>,
}

/// The settings for opening connections.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSettings {
    pub(crate) address: Address,
    pub(crate) tls: Option<Arc<TlsSetup>>,
    /// The number of streams of an HTTP/2 connection; `None` for HTTP/1.1.
    pub(crate) http2_streams: Option<usize>,
    /// True if whole answers are kept.
    pub(crate) capture: bool,
    /// The simulation that takes the place of the network, in virtual time.
    pub(crate) simulation: Option<Arc<Simulation>>,
}

impl ConnectionSettings {
    /// Begins to connect.
    fn connect(&self, address: &Address) -> io::Result<TcpStream> {
        if let Some(simulation) = &self.simulation {
            return simulation.connect();
        }
        match address {
            Address::Tcp(address) => connect_over_tcp(*address),
            Address::Unix(path) => connect_to_file(path),
        }
    }
}

fn connect_over_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Connects to a Unix socket. That succeeds or fails at once; it fails if the server's queue is
/// full.
fn connect_to_file(path: &Path) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket.into())
}

/// The state of a connection's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    /// There is no socket; one is opened at the first tick after `retry_at`.
    Down { retry_at: Ticks },
    /// The socket is being opened, since `since`.
    Connecting { since: Ticks },
    /// The socket is open since `connected`, and the TLS handshake is in progress. Opening began at
    /// `since`.
    Securing { since: Ticks, connected: Ticks },
    /// The connection carries requests.
    Up,
}

/// A connection of the run, which outlives its sockets.
pub(crate) struct Connection {
    pub(crate) link: SocketState,
    /// The socket, unless it carries HTTP/2.
    pub(crate) stream: Option<Stream>,
    /// The state of HTTP/2, with its socket.
    pub(crate) http2: Option<Box<Http2>>,
    pub(crate) parser: ResponseParser,
    pub(crate) in_flight: VecDeque<PendingRequest>,
    /// The bytes to write; those before `written` are written.
    pub(crate) out: Vec<u8>,
    pub(crate) written: usize,
    /// The time since which it can take a request: since it is open, or since an answer, a retry or
    /// the server's limit of streams last made room for one.
    pub(crate) free_since: Ticks,
    /// True if it stands in the queue of those that can take a request.
    pub(crate) queued: bool,
    /// With a connection for each request: the intended start of the request that waits for it to
    /// open.
    pub(crate) pending: Option<Ticks>,
    /// The times at which opening the socket began, the socket was open, and TLS was established.
    pub(crate) opened: [Ticks; 3],
    /// True while a delay of the script, or of wrk2's timers, is not over.
    pub(crate) delayed: bool,
    /// True if a watched request on it may have no time of its last write yet.
    pub(crate) notes_write: bool,
    /// True if this socket has carried an answer; otherwise it is not replaced at once.
    pub(crate) proven: bool,
}

impl Connection {
    pub(crate) fn new(capture: bool, in_flight_limit: usize) -> Connection {
        Connection {
            link: SocketState::Down { retry_at: Ticks::default() },
            stream: None,
            http2: None,
            parser: ResponseParser::new(capture),
            in_flight: VecDeque::with_capacity(in_flight_limit),
            out: Vec::new(),
            written: 0,
            free_since: Ticks::default(),
            queued: false,
            pending: None,
            opened: [Ticks::default(); 3],
            delayed: false,
            notes_write: false,
            proven: false,
        }
    }

    /// Begins to open a socket; an event reports when it is open.
    pub(crate) fn open(
        &mut self,
        opening: &ConnectionSettings,
        address: &Address,
        poller: &Poller,
        token: usize,
        now: Ticks,
    ) -> io::Result<()> {
        self.close(now);
        let socket = opening.connect(address)?;
        poller.register(socket.as_fd(), token)?;
        self.stream = Some(match &opening.tls {
            Some(tls) => Stream::tls(socket, tls.session()?),
            None => Stream::Plain(socket),
        });
        self.link = SocketState::Connecting { since: now };
        self.proven = false;
        Ok(())
    }

    /// Lets the socket end without TIME_WAIT, which would occupy its port for a minute: with a
    /// connection for each request, the ports would soon run out.
    pub(crate) fn abort(&self) {
        if let Some(stream) = &self.stream {
            // If this is refused, the port is only occupied for a while.
            let _ = socket2::SockRef::from(stream.socket()).set_linger(Some(Duration::ZERO));
        }
    }

    /// Writes the pending bytes, as far as the socket takes them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if stream.holds_unwritten() {
            stream.flush()?;
        }
        while self.written < self.out.len() {
            match stream.write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Clears the bytes to write, unless some are pending, before further requests are appended.
    #[inline]
    pub(crate) fn begin_out(&mut self) {
        if !self.has_unwritten() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Drops the socket and all requests in flight on it.
    pub(crate) fn close(&mut self, retry_at: Ticks) {
        self.stream = None;
        self.http2 = None;
        self.link = SocketState::Down { retry_at };
        self.in_flight.clear();
        self.out.clear();
        self.written = 0;
        self.parser.reset();
    }

    /// True if a request can begin on it at `now`.
    #[inline]
    pub(crate) fn can_take(&self, keep_alive: bool, now: Ticks) -> bool {
        match self.link {
            SocketState::Down { retry_at } if !keep_alive => {
                self.pending.is_none() && retry_at <= now
            }
            _ => keep_alive && self.has_room(),
        }
    }

    /// True if another request can be sent; in HTTP/2, beside those in flight.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        match &self.http2 {
            None => self.is_idle(),
            Some(http2) => {
                self.link == SocketState::Up && http2.room() > 0 && !self.has_unwritten()
            }
        }
    }

    #[inline]
    pub(crate) fn has_unwritten(&self) -> bool {
        self.written < self.out.len()
            || self.stream.as_ref().is_some_and(Stream::holds_unwritten)
            || self.http2.as_ref().is_some_and(|http2| http2.is_blocked())
    }

    /// True if the socket is open and no request is in flight on it.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.link == SocketState::Up && self.in_flight.is_empty() && !self.has_unwritten()
    }
}
