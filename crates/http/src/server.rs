//! Starts the event loops, one thread each, and stops them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use mio::{Interest, Poll, Waker};
use pellucid_account::Account;
use pellucid_budget::Budget;
use pellucid_clock::Clock;

use crate::compression::{CompressionFigures, CompressionMeter};
use crate::cuts::{CutFigures, CutMeter};
use crate::event_loop::{EventLoop, LISTENER, WAKER};
use crate::limits::Limits;
use crate::service::{Letter, Mailbox, Service};
use crate::tls::{Certificates, TlsFigures, TlsMeter};

/// Connections that the kernel may hold ready to be accepted.
const BACKLOG: i32 = 4_096;

/// What the event loops share. Every field is a counter that is touched per connection or per
/// hand-over, never per request that is answered at once.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    /// What new connections are encrypted with.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// What TLS costs each loop.
    pub(crate) tls: Vec<TlsMeter>,
    /// What compression costs each loop.
    pub(crate) compression: Vec<CompressionMeter>,
    /// Bodies that are being compressed piece by piece.
    pub(crate) streams_compressed: AtomicUsize,
    /// What was refused or cut.
    pub(crate) cuts: CutMeter,
    /// Connections of each loop.
    pub(crate) loads: Vec<AtomicUsize>,
    pub(crate) connections_ever: AtomicU64,
    pub(crate) requests_in_flight: AtomicUsize,
    /// What bodies that come in take together.
    pub(crate) bodies: Budget,
}

impl Shared {
    pub(crate) fn connections_open(&self) -> usize {
        self.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn least_busy_loop(&self) -> usize {
        let loads = self.loads.iter().map(|load| load.load(Ordering::Relaxed));
        loads.enumerate().min_by_key(|(_, load)| *load).map_or(0, |(index, _)| index)
    }
}

/// Opens a socket to listen on.
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

/// Where a server is met, and on what terms.
pub struct Endpoint {
    /// The socket that it listens on, from [`listen`].
    pub listener: TcpListener,
    /// Its limits.
    pub limits: Limits,
    /// Where they are, TLS is spoken, and nothing else.
    pub certificates: Option<Arc<Certificates>>,
}

/// A running transport.
pub struct Server<L: Send + 'static> {
    address: SocketAddr,
    mailboxes: Vec<Arc<Mailbox<L>>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    shared: Arc<Shared>,
}

/// Figures of the transport, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStats {
    /// Connections open now.
    pub connections_open: usize,
    /// Connections accepted since the start.
    pub connections_ever: u64,
    /// Requests that wait for the store or are streamed.
    pub requests_in_flight: usize,
    /// Bytes held for bodies that are coming in.
    pub body_bytes: usize,
    /// Connections and streams that were refused or cut, and why.
    pub cuts: CutFigures,
    /// What TLS costs.
    pub tls: TlsFigures,
    /// What compression costs.
    pub compression: CompressionFigures,
}

/// Looks at the figures of a transport from anywhere, as long as it runs.
#[derive(Clone)]
pub struct ServerGauge {
    shared: Arc<Shared>,
}

impl ServerGauge {
    /// The figures now.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        let mut tls = TlsFigures::default();
        self.shared.tls.iter().for_each(|meter| meter.add_to(&mut tls, &self.shared.clock));
        let mut compression = CompressionFigures::default();
        let meters = self.shared.compression.iter();
        meters.for_each(|meter| meter.add_to(&mut compression, &self.shared.clock));
        ServerStats {
            tls,
            compression,
            cuts: self.shared.cuts.figures(),
            connections_open: self.shared.connections_open(),
            connections_ever: self.shared.connections_ever.load(Ordering::Relaxed),
            requests_in_flight: self.shared.requests_in_flight.load(Ordering::Relaxed),
            body_bytes: self.shared.bodies.used_bytes(),
        }
    }
}

impl<L: Send + 'static> Server<L> {
    /// Serves at `endpoint` with one event loop for each service that `services` makes; it is given
    /// a gauge, so that services can show the transport's figures.
    ///
    /// # Errors
    /// If the system has no room for the loops' descriptors or threads.
    pub fn start<S: Service<Later = L> + Send>(
        endpoint: Endpoint,
        account: &Account,
        loops: usize,
        mut service: impl FnMut(ServerGauge) -> S,
    ) -> io::Result<Server<L>> {
        assert!(loops > 0, "somebody has to serve");
        let Endpoint { listener, limits, certificates } = endpoint;
        let address = listener.local_addr()?;
        let bodies = Budget::new(limits.body_bytes_in_flight);
        let shared = Arc::new(Shared {
            clock: account.clock(),
            limits,
            certificates,
            tls: (0..loops).map(|_| TlsMeter::default()).collect(),
            compression: (0..loops).map(|_| CompressionMeter::default()).collect(),
            streams_compressed: AtomicUsize::new(0),
            cuts: CutMeter::default(),
            loads: (0..loops).map(|_| AtomicUsize::new(0)).collect(),
            connections_ever: AtomicU64::new(0),
            requests_in_flight: AtomicUsize::new(0),
            bodies,
        });
        let polls: Vec<Poll> = (0..loops).map(|_| Poll::new()).collect::<io::Result<_>>()?;
        let mailboxes = polls
            .iter()
            .map(|poll| Ok(Arc::new(Mailbox::new(Waker::new(poll.registry(), WAKER)?))));
        let mailboxes: Vec<_> = mailboxes.collect::<io::Result<_>>()?;
        let mut listener = Some(mio::net::TcpListener::from_std(listener));
        let mut threads = Vec::new();
        for (index, poll) in polls.into_iter().enumerate() {
            let mut listener = listener.take();
            if let Some(listener) = &mut listener {
                poll.registry().register(listener, LISTENER, Interest::READABLE)?;
            }
            let gauge = ServerGauge { shared: Arc::clone(&shared) };
            let (service, recorder) = (service(gauge), account.recorder());
            let (mailboxes, shared) = (mailboxes.clone(), Arc::clone(&shared));
            let run = move || {
                EventLoop::new(index, poll, listener, mailboxes, shared, service, recorder).run()
            };
            threads.push(
                std::thread::Builder::new().name(format!("pellucid-loop-{index}")).spawn(run)?,
            );
        }
        Ok(Server { address, mailboxes, threads, shared })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The transport's figures.
    #[must_use]
    pub fn gauge(&self) -> ServerGauge {
        ServerGauge { shared: Arc::clone(&self.shared) }
    }

    /// Accepts no more, lets requests in flight finish within the limit for it, and ends.
    ///
    /// # Errors
    /// What an event loop ended with before it was told to.
    pub fn stop(self) -> io::Result<()> {
        for mailbox in &self.mailboxes {
            mailbox.post(Letter::Stop);
        }
        let mut outcome = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| {
                Err(io::Error::other("an event loop panicked; the message above says where"))
            });
            outcome = outcome.and(ended);
        }
        outcome
    }
}
