//! Messages from other threads to an event loop, and the handles that send them.

use std::sync::{Arc, PoisonError};

use pellucid_budget::Budget;
use pellucid_thread::Mutex;

use crate::clients::Seat;
use crate::refusal::Refusal;

/// A connection of one event loop; never used for another one after it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    /// Of HTTP/2, the stream that is meant; zero in HTTP/1.1.
    pub(crate) stream: u32,
}

/// The judgement of a request whose body is not here yet.
#[derive(Debug)]
pub enum Admission {
    /// The body may come. It counts for this budget, an account's, beside those of the transport.
    Granted(Option<Budget>),
    /// It is refused, and none of its body is taken.
    Refused(Refusal),
    /// Another thread finds it out, and tells the [`Judge`] taken from the applicant. Until then
    /// nothing more of it is read.
    Pending,
}

/// A message to an event loop.
pub(crate) enum Message<L> {
    /// A connection to own from now on, and its place among those of its address.
    Accepted(std::net::TcpStream, Seat),
    /// The judgement of a request by its head.
    Judged(ConnectionId, Admission),
    /// The end of a hand-over: a value, or none if it was a panic.
    Completed(ConnectionId, Option<L>),
    /// A body has more to bring.
    GoOn(ConnectionId),
    /// Something for the service itself.
    ToService(L),
    /// No new requests: finish those in flight, and end.
    Stop,
}

/// The messages that an event loop has not taken yet. They are bounded by the limits of requests in
/// flight and of connections, as each stands for one of them.
pub(crate) struct Mailbox<L> {
    messages: Mutex<Vec<Message<L>>>,
    waker: mio::Waker,
}

impl<L> Mailbox<L> {
    pub(crate) fn new(waker: mio::Waker) -> Mailbox<L> {
        Mailbox { messages: Mutex::new(Vec::new()), waker }
    }

    pub(crate) fn post(&self, message: Message<L>) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // The wake-up fails only if the event loop is gone, and the message with it.
        let _ = self.waker.wake();
    }

    pub(crate) fn collect(&self) -> Vec<Message<L>> {
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request that is to be completed on its own loop; of no use elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub(crate) ConnectionId);

/// Tells the service of an event loop something from any thread.
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

/// Tells an event loop the judgement of a request that was [`Admission::Pending`].
pub struct Judge<L> {
    pub(crate) mailbox: Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
}

impl<L> Judge<L> {
    /// Lets the request go on, or refuses it, if its connection is still there.
    pub fn decide(self, admission: Admission) {
        self.mailbox.post(Message::Judged(self.connection, admission));
    }
}

/// Has a body that said [`crate::Filled::Waiting`] asked again, from any thread.
pub struct Reminder<L> {
    pub(crate) mailbox: Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
}

impl<L> Clone for Reminder<L> {
    fn clone(&self) -> Reminder<L> {
        Reminder { mailbox: Arc::clone(&self.mailbox), connection: self.connection }
    }
}

impl<L> Reminder<L> {
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
