//! Messages from other threads to an event loop, and the handles that send them.

use std::sync::Arc;

use pellucid_budget::Budget;
use pellucid_thread::Mutex;

use crate::clients::ConnectionPermit;
use crate::refusal::Refusal;

/// The identity of a connection within its event loop. It is not reused for a later connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    /// The key of the HTTP/2 stream that is meant; zero in HTTP/1.1.
    pub(crate) stream: u32,
}

/// The decision, by the head of a request, whether its body may come.
#[derive(Debug)]
pub enum Admission {
    /// The body may come. Its memory is taken from this budget, that of the sender's account,
    /// beside those of the transport.
    Granted(Option<Budget>),
    /// The request is refused, and none of its body is taken in.
    Refused(Refusal),
    /// Another thread decides later, through the [`AdmissionSender`] taken from the applicant.
    /// Until then nothing more of the request is read.
    Pending,
}

/// A message to an event loop.
pub(crate) enum Message<L> {
    /// A new connection for this loop, and its place among those of its address.
    Accepted(std::net::TcpStream, ConnectionPermit),
    /// The decision whether the body of a request may come.
    Judged(ConnectionId, Admission),
    /// The end of a hand-over: its value, or none if the code panicked.
    Completed(ConnectionId, Option<L>),
    /// The source of a response body has more pieces.
    GoOn(ConnectionId),
    /// A message for the service itself.
    ToService(L),
    /// The stop: take no new requests, finish those in flight, and end.
    Stop,
}

/// The messages that an event loop has not taken yet. Those about connections and handed-over
/// requests are bounded by the limits of these. Those of [`Messenger`] and [`BodyWaker`] are
/// bounded only by their senders.
pub(crate) struct Mailbox<L> {
    messages: Mutex<Vec<Message<L>>>,
    waker: mio::Waker,
}

impl<L> Mailbox<L> {
    pub(crate) fn new(waker: mio::Waker) -> Mailbox<L> {
        Mailbox { messages: Mutex::new(Vec::new()), waker }
    }

    pub(crate) fn post(&self, message: Message<L>) {
        self.messages.lock().push(message);
        // The wake-up fails only if the event loop is gone, and the message with it.
        let _ = self.waker.wake();
    }

    pub(crate) fn collect(&self) -> Vec<Message<L>> {
        std::mem::take(&mut self.messages.lock())
    }
}

/// A handed-over request that its own event loop will complete; it is of no use elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub(crate) ConnectionId);

/// Sends messages to the service of an event loop from any thread.
pub struct Messenger<L>(pub(crate) Arc<Mailbox<L>>);

impl<L> Clone for Messenger<L> {
    fn clone(&self) -> Messenger<L> {
        Messenger(Arc::clone(&self.0))
    }
}

impl<L> Messenger<L> {
    /// Has [`crate::Service::told`] called with `message` on its loop.
    pub fn tell(&self, message: L) {
        self.0.post(Message::ToService(message));
    }
}

/// Delivers the decision about a request that was [`Admission::Pending`] to its event loop.
pub struct AdmissionSender<L> {
    pub(crate) mailbox: Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
}

impl<L> AdmissionSender<L> {
    /// Lets the body come, or refuses the request, if its connection is still there.
    pub fn decide(self, admission: Admission) {
        self.mailbox.post(Message::Judged(self.connection, admission));
    }
}

/// Makes the event loop ask a body again that returned [`crate::FillResult::Waiting`], from any
/// thread.
pub struct BodyWaker<L> {
    pub(crate) mailbox: Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
}

impl<L> Clone for BodyWaker<L> {
    fn clone(&self) -> BodyWaker<L> {
        BodyWaker { mailbox: Arc::clone(&self.mailbox), connection: self.connection }
    }
}

impl<L> BodyWaker<L> {
    /// Has the body asked again, if its connection is still there.
    pub fn go_on(&self) {
        self.mailbox.post(Message::GoOn(self.connection));
    }
}

/// Brings a request that was handed over back to its event loop. If a panic drops it, the request
/// is answered with 500.
pub struct Completer<L> {
    mailbox: Arc<Mailbox<L>>,
    connection: ConnectionId,
    is_done: bool,
}

impl<L> Completer<L> {
    pub(crate) fn new(mailbox: Arc<Mailbox<L>>, connection: ConnectionId) -> Completer<L> {
        Completer { mailbox, connection, is_done: false }
    }

    /// Has [`crate::Service::resume`] called with `later`, if the connection is still there.
    pub fn complete(mut self, later: L) {
        self.is_done = true;
        self.mailbox.post(Message::Completed(self.connection, Some(later)));
    }
}

impl<L> Drop for Completer<L> {
    fn drop(&mut self) {
        if !self.is_done && std::thread::panicking() {
            self.mailbox.post(Message::Completed(self.connection, None));
        }
    }
}
