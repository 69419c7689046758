//! Starts the event loops, one thread each, and stops them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::{Interest, Poll, Waker};
use pellucid_account::Account;

use crate::event_loop::{EventLoop, LISTENER, WAKER};
use crate::limits::Limits;
use crate::mailbox::{Mailbox, Message};
use crate::service::Service;
use crate::shared::{ServerStats, Shared};
use crate::tls::Certificates;

/// Connections that the kernel may hold ready to be accepted.
const BACKLOG: i32 = 4_096;

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

/// The address of a server, and its terms.
pub struct Endpoint {
    /// The socket that it listens on, from [`listen`].
    pub listener: TcpListener,
    /// Its limits.
    pub limits: Limits,
    /// With them, TLS is spoken, and nothing else.
    pub certificates: Option<Arc<Certificates>>,
}

/// A running transport.
pub struct Server<L: Send + 'static> {
    address: SocketAddr,
    mailboxes: Vec<Arc<Mailbox<L>>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    shared: Arc<Shared>,
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
        self.shared.stats()
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
        let shared = Arc::new(Shared::new(account.clock(), limits, certificates, loops));
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

    /// The address that it listens on.
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
    /// The error with which an event loop ended before it was told to.
    pub fn stop(self) -> io::Result<()> {
        for mailbox in &self.mailboxes {
            mailbox.post(Message::Stop);
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
