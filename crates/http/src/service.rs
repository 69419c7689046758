//! The service behind the transport: its trait, and the context that it gets with a request.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use mio::net::TcpStream;

use pellucid_account::{RequestFacts, Timeline};
use pellucid_thread::ContainedPanic;

use crate::abort_reason::AbortReason;
use crate::body_source::ServiceResult;
use crate::client_watch::ClientWatch;
use crate::h1::parse::Head;
use crate::links::{LinkContext, LinkEvent};
use crate::mailbox::{
    Admission, AdmissionSender, BodyWaker, Completer, ConnectionId, Mailbox, Ticket,
};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response::Response;

/// A service: one value per event loop, called on the loop's own thread. It must not block. Work
/// that would block is handed over to another thread, and the call returns
/// [`ServiceResult::Later`].
pub trait Service: 'static {
    /// The value that a hand-over brings back.
    type LoopMessage: Send + 'static;

    /// The most bytes that the body of a request with this target may have.
    fn body_bytes_max(&self, method: &str, path: &str, query: Option<&str>) -> usize;

    /// Decides, by the head of a request, whether its sender may send the body that is to come.
    /// This is not called for a request that arrives completely; that is only for
    /// [`Service::handle`].
    fn admit(
        &mut self,
        head: &Head<'_, '_>,
        applicant: &AdmissionContext<'_, Self::LoopMessage>,
    ) -> Admission {
        let _ = (head, applicant);
        Admission::Granted(None)
    }

    /// Answers a request. The service takes the stamps `routed`, `started` and `executed`.
    fn handle(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Exchange<'_, Self::LoopMessage>,
    ) -> ServiceResult;

    /// Continues a request that was handed over; `later` is the value of the hand-over.
    fn resume(
        &mut self,
        later: Self::LoopMessage,
        response: &mut Response<'_>,
        exchange: &mut Exchange<'_, Self::LoopMessage>,
    ) -> ServiceResult;

    /// The operation and outcome for the account of a request that the transport refuses.
    fn facts_of_refusal(&self, refusal: &Refusal) -> RequestFacts;

    /// The outcome for the account of a request that ends before its response is sent.
    fn outcome_of(&self, ending: AbortReason) -> u8;

    /// Is called after the code of a request panicked, on this thread or on the one to which it was
    /// handed over; then the request is answered with 500. `panicked` is the panic, if it was on
    /// this thread.
    fn panicked(
        &mut self,
        panicked: Option<&ContainedPanic>,
        timeline: &Timeline,
        facts: &RequestFacts,
    ) {
        let _ = (panicked, timeline, facts);
    }

    /// Opens the service's own links, if it has any. Is called once, before the loop runs.
    ///
    /// # Errors
    /// If the system has no more descriptors. Then the loop does not run.
    fn begin(&mut self, turn: &mut LinkContext<'_, Self::LoopMessage>) -> io::Result<()> {
        let _ = turn;
        Ok(())
    }

    /// Processes an event of a link.
    fn ready(&mut self, event: LinkEvent, turn: &mut LinkContext<'_, Self::LoopMessage>) {
        let _ = (event, turn);
    }

    /// True if [`Service::settle`] has something to send.
    fn has_to_settle(&self) -> bool {
        false
    }

    /// Sends the output of links that the wake-up has led to. True if requests were completed, so
    /// that there may be more to send.
    fn settle(&mut self, turn: &mut LinkContext<'_, Self::LoopMessage>) -> bool {
        let _ = turn;
        false
    }

    /// Processes a message that another thread has sent by a [`crate::Messenger`].
    fn told(&mut self, message: Self::LoopMessage, turn: &mut LinkContext<'_, Self::LoopMessage>) {
        let _ = (message, turn);
    }

    /// Takes over a connection whose request, that of `ticket`, returned
    /// [`ServiceResult::Upgrade`].
    /// `unread` has the bytes that were read beyond the request.
    fn upgraded(
        &mut self,
        ticket: Ticket,
        socket: TcpStream,
        unread: Vec<u8>,
        turn: &mut LinkContext<'_, Self::LoopMessage>,
    ) {
        let _ = (ticket, socket, unread, turn);
    }
}

/// The context of [`Service::admit`]: a request whose body has not arrived yet.
pub struct AdmissionContext<'a, L> {
    pub(crate) mailbox: &'a Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
    pub(crate) address: Option<IpAddr>,
}

impl<L> AdmissionContext<'_, L> {
    /// The address that the request comes from; none through a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The handle by which any thread can deliver the decision to the event loop.
    #[must_use]
    pub fn judge(&self) -> AdmissionSender<L> {
        AdmissionSender { mailbox: Arc::clone(self.mailbox), connection: self.connection }
    }
}

/// The context of a request while it is handled.
pub struct Exchange<'a, L> {
    /// The timeline of the request's account.
    pub timeline: &'a mut Timeline,
    /// The facts of the request's account; the transport fills in all but operation and outcome.
    pub facts: &'a mut RequestFacts,
    pub(crate) mailbox: &'a Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
    pub(crate) address: Option<IpAddr>,
    pub(crate) may_upgrade: bool,
    /// Set once a [`Completer`] was taken.
    pub(crate) is_taken: &'a Cell<bool>,
    /// The watch that is told when the client is gone; none if nobody asked for one.
    pub(crate) watch: Option<ClientWatch>,
}

impl<L> Exchange<'_, L> {
    /// The address that the request comes from; none through a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The ticket by which a link of this loop can complete the request.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.connection)
    }

    /// True if the connection can be taken over: it speaks HTTP/1.1 without TLS.
    #[must_use]
    pub fn may_upgrade(&self) -> bool {
        self.may_upgrade
    }

    /// The watch that tells whether the client is gone while the request is handed over.
    #[must_use]
    pub fn client_watch(&mut self) -> ClientWatch {
        self.watch.get_or_insert_default().clone()
    }

    /// The handle by which any thread can make the loop ask the response's body again.
    #[must_use]
    pub fn reminder(&self) -> BodyWaker<L> {
        BodyWaker { mailbox: Arc::clone(self.mailbox), connection: self.connection }
    }

    /// The handle by which any thread can bring the request back to its event loop.
    #[must_use]
    pub fn completer(&self) -> Completer<L> {
        self.is_taken.set(true);
        Completer::new(Arc::clone(self.mailbox), self.connection)
    }
}
