//! Starts the event loops, one thread each, and stops them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

use mio::{Poll, Waker};
use pellucid_account::{Account, Recorder};

use crate::ListenAddress;
use crate::event_loop::{EventLoop, LISTENER, WAKER};
use crate::limits::Limits;
use crate::listener::Listener;
use crate::mailbox::{Mailbox, Message};
use crate::service::Service;
use crate::shared_state::{ServerStats, SharedState};
use crate::tls::Certificates;

/// The configuration of a server: listeners, limits and certificates.
pub struct Endpoint {
    /// The sockets that it listens on.
    pub listeners: Vec<Listener>,
    /// The limits of the server.
    pub limits: Limits,
    /// The certificates; with them, only TLS is spoken over TCP. Unix sockets never use TLS,
    /// because their bytes do not leave the machine.
    pub certificates: Option<Arc<Certificates>>,
}

/// A running transport.
pub struct Server<L: Send + 'static> {
    addresses: Vec<ListenAddress>,
    mailboxes: Vec<Arc<Mailbox<L>>>,
    threads: Vec<JoinHandle<()>>,
    shared: Arc<SharedState>,
}

/// A handle to read the figures of a transport from any thread.
#[derive(Clone)]
pub struct ServerGauge {
    shared: Arc<SharedState>,
}

impl ServerGauge {
    /// The figures now.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.shared.stats()
    }
}

impl<L: Send + 'static> Server<L> {
    /// Serves at `endpoint` with `loops` event loops. `service` makes the service of each; it gets
    /// a gauge, so that services can show the transport's figures.
    ///
    /// # Errors
    /// If the system has no descriptors or threads left for the loops. Then none of them runs.
    ///
    /// # Panics
    /// If `loops` is zero.
    pub fn start<S: Service<LoopMessage = L> + Send>(
        endpoint: Endpoint,
        account: &Account,
        loops: usize,
        mut service: impl FnMut(ServerGauge) -> S,
    ) -> io::Result<Server<L>> {
        assert!(loops > 0, "a server has at least one event loop");
        let Endpoint { mut listeners, limits, certificates } = endpoint;
        let addresses = listeners.iter().map(|listener| listener.address().clone()).collect();
        let shared = Arc::new(SharedState::new(account.clock(), limits, certificates, loops));
        let polls: Vec<Poll> = (0..loops).map(|_| Poll::new()).collect::<io::Result<_>>()?;
        let mailboxes = polls
            .iter()
            .map(|poll| Ok(Arc::new(Mailbox::new(Waker::new(poll.registry(), WAKER)?))));
        let mailboxes: Vec<_> = mailboxes.collect::<io::Result<_>>()?;
        let mut server = Server { addresses, mailboxes, threads: Vec::new(), shared };
        let (begun, beginnings) = mpsc::sync_channel(loops);
        for poll in polls {
            // The first loop accepts for all.
            let listeners = std::mem::take(&mut listeners);
            let service = service(server.gauge());
            let spawned =
                server.spawn_loop(poll, listeners, service, account.recorder(), begun.clone());
            if let Err(error) = spawned {
                let _ = begun.send(Err(error));
                break;
            }
        }
        drop(begun);
        let all_begun = (0..loops).try_for_each(|_| beginnings.recv().unwrap_or_else(panicked));
        // Without all of its loops, a server would leave some of its connections unanswered.
        if let Err(error) = all_begun {
            let _ = server.stop();
            return Err(error);
        }
        Ok(server)
    }

    /// Starts the thread of one more event loop. The thread reports through `begun` whether the
    /// loop runs.
    fn spawn_loop<S: Service<LoopMessage = L> + Send>(
        &mut self,
        poll: Poll,
        mut listeners: Vec<Listener>,
        service: S,
        recorder: Recorder,
        begun: SyncSender<io::Result<()>>,
    ) -> io::Result<()> {
        for listener in &mut listeners {
            listener.register(poll.registry(), LISTENER)?;
        }
        let index = self.threads.len();
        let (mailboxes, shared) = (self.mailboxes.clone(), Arc::clone(&self.shared));
        let run = move || {
            let opened =
                EventLoop::open(index, poll, listeners, mailboxes, shared, service, recorder);
            let (outcome, event_loop) = match opened {
                Ok(event_loop) => (Ok(()), Some(event_loop)),
                Err(error) => (Err(error), None),
            };
            let _ = begun.send(outcome);
            drop(begun);
            event_loop.into_iter().for_each(EventLoop::run);
        };
        let name = format!("pellucid-loop-{index}");
        self.threads.push(std::thread::Builder::new().name(name).spawn(run)?);
        Ok(())
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

    /// Stops the server: accepts no more connections, lets requests in flight finish within
    /// [`Limits::stop`], and ends the threads.
    ///
    /// # Errors
    /// If an event loop panicked.
    pub fn stop(self) -> io::Result<()> {
        for mailbox in &self.mailboxes {
            mailbox.post(Message::Stop);
        }
        let mut outcome = Ok(());
        for thread in self.threads {
            outcome = outcome.and(thread.join().or_else(panicked));
        }
        outcome
    }
}

/// The error of an event loop whose thread has panicked.
fn panicked<E>(_: E) -> io::Result<()> {
    Err(io::Error::other("an event loop panicked; the message above says where"))
}
