//! The service behind the transport: the trait, and the surroundings of a request in its hands.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use mio::net::TcpStream;

use pellucid_account::{RequestFacts, Timeline};
use pellucid_thread::Panicked;

use crate::body_source::Handled;
use crate::client_watch::ClientWatch;
use crate::ending::Ending;
use crate::h1::parse::Head;
use crate::links::LinkTurn;
use crate::mailbox::{Admission, Completer, ConnectionId, Judge, Mailbox, Reminder, Ticket};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response::Response;

/// A service: one value per event loop, called on the loop's own thread. It must not block; what
/// would block it hands over, and says [`Handled::Later`].
pub trait Service: 'static {
    /// The value that a hand-over brings back.
    type Later: Send + 'static;

    /// Bytes that the body of this request may have.
    fn body_bytes_max(&self, head: &Head<'_, '_>) -> usize;

    /// Judges by its head a request whose body is not here yet: whether whoever sends it may send
    /// one. A request that came whole is not judged here, but by [`Service::handle`].
    fn admit(&mut self, head: &Head<'_, '_>, applicant: &Applicant<'_, Self::Later>) -> Admission {
        let _ = (head, applicant);
        Admission::Granted(None)
    }

    /// Answers a request. The service takes the stamps `routed`, `started` and `executed`.
    fn handle(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Exchange<'_, Self::Later>,
    ) -> Handled;

    /// Goes on with a request that was handed over.
    fn resume(
        &mut self,
        later: Self::Later,
        response: &mut Response<'_>,
        exchange: &mut Exchange<'_, Self::Later>,
    ) -> Handled;

    /// Operation and outcome for the account of a request that the transport refused.
    fn facts_of_refusal(&self, refusal: &Refusal) -> RequestFacts;

    /// The outcome, for the account, of a request that ends before its response is out.
    fn outcome_of(&self, ending: Ending) -> u8;

    /// The code of a request panicked, here or where it was handed over to; it is answered with 500
    /// after this. `panicked` is what is known of that on this thread.
    fn panicked(&mut self, panicked: Option<&Panicked>, timeline: &Timeline, facts: &RequestFacts) {
        let _ = (panicked, timeline, facts);
    }

    /// Opens the links that the service has of its own, if it has any; the loop begins after it.
    ///
    /// # Errors
    /// If the system has no more descriptors; the loop does not begin then.
    fn begin(&mut self, turn: &mut LinkTurn<'_, Self::Later>) -> io::Result<()> {
        let _ = turn;
        Ok(())
    }

    /// A link has an event.
    fn ready(&mut self, link: usize, turn: &mut LinkTurn<'_, Self::Later>) {
        let _ = (link, turn);
    }

    /// True if [`Service::settle`] has something to send.
    fn has_to_settle(&self) -> bool {
        false
    }

    /// Sends what the wake-up brought. True if requests were completed meanwhile, so that there may
    /// be more.
    fn settle(&mut self, turn: &mut LinkTurn<'_, Self::Later>) -> bool {
        let _ = turn;
        false
    }

    /// Something came from another thread, by a [`crate::Messenger`].
    fn told(&mut self, message: Self::Later, turn: &mut LinkTurn<'_, Self::Later>) {
        let _ = (message, turn);
    }

    /// Takes over a connection whose request, that of `ticket`, was answered with
    /// [`Handled::Upgrade`], with what was read of it beyond the request.
    fn upgraded(
        &mut self,
        ticket: Ticket,
        socket: TcpStream,
        unread: Vec<u8>,
        turn: &mut LinkTurn<'_, Self::Later>,
    ) {
        let _ = (ticket, socket, unread, turn);
    }
}

/// A request whose body is not here yet.
pub struct Applicant<'a, L> {
    pub(crate) mailbox: &'a Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
    pub(crate) address: Option<IpAddr>,
}

impl<L> Applicant<'_, L> {
    /// The address that the request comes from; none through a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The handle that tells the event loop from any thread what becomes of the request.
    #[must_use]
    pub fn judge(&self) -> Judge<L> {
        Judge { mailbox: Arc::clone(self.mailbox), connection: self.connection }
    }
}

/// The surroundings of a request while it is handled.
pub struct Exchange<'a, L> {
    /// Its account.
    pub timeline: &'a mut Timeline,
    /// The facts that are recorded of it; the transport fills in all but operation and outcome.
    pub facts: &'a mut RequestFacts,
    pub(crate) mailbox: &'a Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
    pub(crate) address: Option<IpAddr>,
    pub(crate) may_upgrade: bool,
    /// Set once a [`Completer`] was taken.
    pub(crate) is_taken: &'a Cell<bool>,
    /// Told when the client is gone, where somebody wants to know.
    pub(crate) watch: Option<ClientWatch>,
}

impl<L> Exchange<'_, L> {
    /// The address that the request comes from; none through a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Stands for the request where a link of this loop will complete it.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.connection)
    }

    /// True if the connection can be taken over: it speaks HTTP/1.1 without TLS.
    #[must_use]
    pub fn may_upgrade(&self) -> bool {
        self.may_upgrade
    }

    /// Tells whether the client is gone, while the request is handed over.
    #[must_use]
    pub fn client_watch(&mut self) -> ClientWatch {
        self.watch.get_or_insert_default().clone()
    }

    /// Has the request's body asked again from any thread.
    #[must_use]
    pub fn reminder(&self) -> Reminder<L> {
        Reminder { mailbox: Arc::clone(self.mailbox), connection: self.connection }
    }

    /// Brings the request back to its event loop from any thread.
    #[must_use]
    pub fn completer(&self) -> Completer<L> {
        self.is_taken.set(true);
        Completer::new(Arc::clone(self.mailbox), self.connection)
    }
}
