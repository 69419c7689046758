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
use crate::watch::Watch;
use pellucid_client::http::{Address, ResponseParser, TlsSetup};

/// A request whose answer is awaited.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// The time at which it was meant to start.
    pub(crate) intended: Ticks,
    /// The time at which it was actually sent.
    pub(crate) sent: Ticks,
    /// True if it was a HEAD, whose answer has no body.
    pub(crate) bodiless: bool,
    /// True if it was counted as timed out.
    pub(crate) timed_out: bool,
    /// True if it is within a batch whose last request alone is measured (`-B`).
    pub(crate) is_within_batch: bool,
    /// Its operation, where a source has several.
    pub(crate) operation: u16,
    /// Its stream in HTTP/2, in which the order of streams is that of requests.
    pub(crate) stream: u32,
    /// In HTTP/2: how often the server has left it out.
    pub(crate) left_out: u8,
    /// Its bytes, to be sent again then, unless all requests are the same.
    pub(crate) kept: Option<Bytes>,
    /// Further notes, if it is watched.
    pub(crate) watch: Option<Box<Watch>>,
}

/// The way to open connections.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) address: Address,
    pub(crate) tls: Option<Arc<TlsSetup>>,
    /// Streams of a connection of HTTP/2.
    pub(crate) http2_streams: Option<usize>,
    /// True if answers are kept whole.
    pub(crate) capture: bool,
    /// The simulation that takes the place of the network, in virtual time.
    pub(crate) simulation: Option<Arc<Simulation>>,
}

impl Opening {
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

/// Connects to a Unix socket, which is done at once; where as many wait already as may, it fails.
fn connect_to_file(path: &Path) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket.into())
}

/// The state of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// There is none; one is opened at the first tick after `retry_at`.
    Down { retry_at: Ticks },
    /// It is being opened since then.
    Connecting { since: Ticks },
    /// It is open, and TLS is being agreed on; `since` is when opening began.
    Securing { since: Ticks, connected: Ticks },
    /// It carries requests.
    Up,
}

/// A connection of the run, which outlives its sockets.
pub(crate) struct Connection {
    pub(crate) link: Link,
    /// The socket, unless it carries HTTP/2.
    pub(crate) stream: Option<Stream>,
    /// HTTP/2 with its socket.
    pub(crate) http2: Option<Box<Http2>>,
    pub(crate) parser: ResponseParser,
    pub(crate) in_flight: VecDeque<InFlight>,
    /// Bytes that are not written yet begin at `written`.
    pub(crate) out: Vec<u8>,
    pub(crate) written: usize,
    /// The time at which it could last take a request: since its last answer, or since it is open.
    pub(crate) free_since: Ticks,
    /// True if it stands in the queue of those that can take a request.
    pub(crate) queued: bool,
    /// With a connection for each request: when the request that waits for it was meant to start.
    pub(crate) pending: Option<Ticks>,
    /// The time at which opening the socket began, at which it was open, and at which it was
    /// secure.
    pub(crate) opened: [Ticks; 3],
    /// True if the script has asked for a delay that is not over.
    pub(crate) delayed: bool,
    /// True if this socket has carried an answer; one that has not is not replaced at once.
    pub(crate) proven: bool,
}

impl Connection {
    pub(crate) fn new(capture: bool, in_flight_limit: usize) -> Connection {
        Connection {
            link: Link::Down { retry_at: Ticks::default() },
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
            proven: false,
        }
    }

    /// Begins to open a socket; an event tells when that is done.
    pub(crate) fn open(
        &mut self,
        opening: &Opening,
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
        self.link = Link::Connecting { since: now };
        self.proven = false;
        Ok(())
    }

    /// Lets the socket end without the minute of TIME_WAIT, in which its port would be taken: a
    /// connection for each request would soon run out of ports.
    pub(crate) fn abort(&self) {
        if let Some(stream) = &self.stream {
            // Where it is refused, the port is taken for a while.
            let _ = socket2::SockRef::from(stream.socket()).set_linger(Some(Duration::ZERO));
        }
    }

    /// Writes the bytes that wait, as far as the socket takes them.
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

    /// Makes room for further requests behind those that are written.
    #[inline]
    pub(crate) fn begin_out(&mut self) {
        if !self.has_unwritten() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Drops the socket and all that was under way on it.
    pub(crate) fn close(&mut self, retry_at: Ticks) {
        self.stream = None;
        self.http2 = None;
        self.link = Link::Down { retry_at };
        self.in_flight.clear();
        self.out.clear();
        self.written = 0;
        self.parser.reset();
    }

    /// True if a request can begin on it at `now`.
    #[inline]
    pub(crate) fn can_take(&self, keep_alive: bool, now: Ticks) -> bool {
        match self.link {
            Link::Down { retry_at } if !keep_alive => self.pending.is_none() && retry_at <= now,
            _ => keep_alive && self.has_room(),
        }
    }

    /// True if another request can be sent: in HTTP/2, beside those under way.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        match &self.http2 {
            None => self.is_idle(),
            Some(http2) => self.link == Link::Up && http2.room() > 0 && !self.has_unwritten(),
        }
    }

    #[inline]
    pub(crate) fn has_unwritten(&self) -> bool {
        self.written < self.out.len()
            || self.stream.as_ref().is_some_and(Stream::holds_unwritten)
            || self.http2.as_ref().is_some_and(|http2| http2.is_blocked())
    }

    /// True if nothing is under way on a socket that is open.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.link == Link::Up && self.in_flight.is_empty() && !self.has_unwritten()
    }
}
