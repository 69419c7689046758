//! Starts the event loops, one thread each, and stops them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::{Poll, Waker};
use pellucid_account::Account;

use crate::event_loop::{EventLoop, LISTENER, WAKER};
use crate::limits::Limits;
use crate::listen_address::ListenAddress;
use crate::listener::Listener;
use crate::mailbox::{Mailbox, Message};
use crate::service::Service;
use crate::shared::{ServerStats, Shared};
use crate::tls::Certificates;

/// The addresses of a server, and its terms.
pub struct Endpoint {
    /// The sockets that it listens on.
    pub listeners: Vec<Listener>,
    /// Its limits.
    pub limits: Limits,
    /// With them, TLS is spoken over TCP, and nothing else there. What comes through a file does
    /// not leave the machine and stays as it is.
    pub certificates: Option<Arc<Certificates>>,
}

/// A running transport.
pub struct Server<L: Send + 'static> {
    addresses: Vec<ListenAddress>,
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
        let Endpoint { mut listeners, limits, certificates } = endpoint;
        let addresses = listeners.iter().map(|listener| listener.address().clone()).collect();
        let shared = Arc::new(Shared::new(account.clock(), limits, certificates, loops));
        let polls: Vec<Poll> = (0..loops).map(|_| Poll::new()).collect::<io::Result<_>>()?;
        let mailboxes = polls
            .iter()
            .map(|poll| Ok(Arc::new(Mailbox::new(Waker::new(poll.registry(), WAKER)?))));
        let mailboxes: Vec<_> = mailboxes.collect::<io::Result<_>>()?;
        let mut threads = Vec::new();
        for (index, poll) in polls.into_iter().enumerate() {
            // The first loop accepts for all.
            let mut listeners = std::mem::take(&mut listeners);
            for listener in &mut listeners {
                listener.register(poll.registry(), LISTENER)?;
            }
            let gauge = ServerGauge { shared: Arc::clone(&shared) };
            let (service, recorder) = (service(gauge), account.recorder());
            let (mailboxes, shared) = (mailboxes.clone(), Arc::clone(&shared));
            let run = move || {
                EventLoop::new(index, poll, listeners, mailboxes, shared, service, recorder).run()
            };
            threads.push(
                std::thread::Builder::new().name(format!("pellucid-loop-{index}")).spawn(run)?,
            );
        }
        Ok(Server { addresses, mailboxes, threads, shared })
    }

    /// The addresses that it listens on, in the order in which they were given.
    #[must_use]
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
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
