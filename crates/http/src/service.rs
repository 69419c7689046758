//! What the transport asks of those whom it serves.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use mio::net::TcpStream;

use pellucid_account::{RequestFacts, Timeline};
use pellucid_budget::Budget;
use pellucid_thread::{Mutex, Panicked};

use crate::client_watch::ClientWatch;
use crate::clients::Seat;
use crate::head::Head;
use crate::links::{LinkTurn, Ticket};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response::Response;

/// A service: one value per event loop, called on the loop's own thread. It must not block; what
/// would block it hands over, and says [`Handled::Later`].
pub trait Service: 'static {
    /// What a hand-over brings back.
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

    /// Under which operation and outcome a request is accounted for that the transport refused.
    fn facts_of_refusal(&self, refusal: &Refusal) -> RequestFacts;

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

    /// Whether [`Service::settle`] has something to send.
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

/// What becomes of a request whose body is not here yet.
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

/// A request whose body is not here yet.
pub struct Applicant<'a, L> {
    pub(crate) mailbox: &'a Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
    pub(crate) address: IpAddr,
}

impl<L> Applicant<'_, L> {
    /// The address that the request comes from.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// What tells the event loop from any thread what becomes of the request.
    #[must_use]
    pub fn judge(&self) -> Judge<L> {
        Judge { mailbox: Arc::clone(self.mailbox), connection: self.connection }
    }
}

/// Tells an event loop what becomes of a request that was [`Admission::Pending`].
pub struct Judge<L> {
    mailbox: Arc<Mailbox<L>>,
    connection: ConnectionId,
}

impl<L> Judge<L> {
    /// Lets the request go on, or refuses it, if its connection is still there.
    pub fn decide(self, admission: Admission) {
        self.mailbox.post(Letter::Judged(self.connection, admission));
    }
}

/// How a request left the service.
pub enum Handled {
    /// The response is finished.
    Done,
    /// The headers are finished, and the source brings the body.
    Stream(Box<dyn BodySource>),
    /// The response is not begun: the [`Completer`] taken from the exchange will bring the request
    /// back. Until then, later requests of the same connection wait.
    Later,
    /// The response is finished, and behind it the connection is the service's: only where
    /// [`Exchange::may_upgrade`].
    Upgrade,
}

/// A body that is brought piece by piece, as the client takes it.
pub trait BodySource {
    /// Appends the next piece, of about 64 KiB, to `out`.
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled;

    /// Whether a piece takes so long that other connections have their turn after each.
    fn is_costly(&self) -> bool {
        false
    }

    /// Bytes of memory that the body takes until it is out, beside the pieces of it.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Ticks of the account's clock that went into compressing the pieces so far: zero for a body
    /// that the transport does not compress.
    fn compress_ticks(&self) -> u64 {
        0
    }
}

/// What [`BodySource::fill`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// There is more to come.
    More,
    /// There is more, and it is not here yet: the body is asked again after
    /// [`LinkTurn::go_on`] or [`Reminder::go_on`].
    Waiting,
    /// This was the last piece.
    Last,
    /// The body cannot be completed. The connection is cut, so that the client does not take what
    /// it has for the whole.
    Broken,
}

/// What surrounds a request while it is handled.
pub struct Exchange<'a, L> {
    /// Its account.
    pub timeline: &'a mut Timeline,
    /// What is recorded of it; the transport fills in all but operation and outcome.
    pub facts: &'a mut RequestFacts,
    pub(crate) mailbox: &'a Arc<Mailbox<L>>,
    pub(crate) connection: ConnectionId,
    pub(crate) address: IpAddr,
    pub(crate) may_upgrade: bool,
    /// Whether a [`Completer`] was taken.
    pub(crate) is_taken: &'a Cell<bool>,
    /// Told when the client is gone, where somebody wants to know.
    pub(crate) watch: Option<ClientWatch>,
}

impl<L> Exchange<'_, L> {
    /// The address that the request comes from.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// What stands for the request where a link of this loop will complete it.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.connection)
    }

    /// Whether the connection can be taken over: it speaks HTTP/1.1 without TLS.
    #[must_use]
    pub fn may_upgrade(&self) -> bool {
        self.may_upgrade
    }

    /// What tells whether the client is gone, while the request is handed over.
    #[must_use]
    pub fn client_watch(&mut self) -> ClientWatch {
        self.watch.get_or_insert_default().clone()
    }

    /// What has the request's body asked again from any thread.
    #[must_use]
    pub fn reminder(&self) -> Reminder<L> {
        Reminder { mailbox: Arc::clone(self.mailbox), connection: self.connection }
    }

    /// What brings the request back to its event loop from any thread.
    #[must_use]
    pub fn completer(&self) -> Completer<L> {
        self.is_taken.set(true);
        let mailbox = Arc::clone(self.mailbox);
        Completer { mailbox, connection: self.connection, is_done: false }
    }
}

/// Has a body that said [`Filled::Waiting`] asked again, from any thread.
pub struct Reminder<L> {
    mailbox: Arc<Mailbox<L>>,
    connection: ConnectionId,
}

impl<L> Clone for Reminder<L> {
    fn clone(&self) -> Reminder<L> {
        Reminder { mailbox: Arc::clone(&self.mailbox), connection: self.connection }
    }
}

impl<L> Reminder<L> {
    /// Has the body asked again, if its connection is still there.
    pub fn go_on(&self) {
        self.mailbox.post(Letter::GoOn(self.connection));
    }
}

/// A connection of one event loop; never used for another one after it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    /// Of HTTP/2, the stream that is meant; zero in HTTP/1.1.
    pub(crate) stream: u32,
}

/// Brings a request that was handed over back to its event loop. If a panic drops it, the request
/// is answered with 500.
pub struct Completer<L> {
    mailbox: Arc<Mailbox<L>>,
    connection: ConnectionId,
    is_done: bool,
}

impl<L> Completer<L> {
    /// Has [`Service::resume`] called with `later`, if the connection is still there.
    pub fn complete(mut self, later: L) {
        self.is_done = true;
        self.mailbox.post(Letter::Completed(self.connection, later));
    }
}

impl<L> Drop for Completer<L> {
    fn drop(&mut self) {
        if !self.is_done && std::thread::panicking() {
            self.mailbox.post(Letter::Abandoned(self.connection));
        }
    }
}

/// What other threads tell an event loop. It is bounded by the limits of requests in flight and of
/// connections, as each letter stands for one of them.
pub(crate) struct Mailbox<L> {
    letters: Mutex<Vec<Letter<L>>>,
    waker: mio::Waker,
}

pub(crate) enum Letter<L> {
    /// A connection to own from now on, and its place among those of its address.
    Accepted(std::net::TcpStream, Seat),
    /// What becomes of a request that was judged by its head.
    Judged(ConnectionId, Admission),
    /// The end of a hand-over.
    Completed(ConnectionId, L),
    /// A panic was the end of a hand-over.
    Abandoned(ConnectionId),
    /// A body has more to bring.
    GoOn(ConnectionId),
    /// Something for the service itself.
    Told(L),
    /// No new requests: finish those in flight, and end.
    Stop,
}

impl<L> Mailbox<L> {
    pub(crate) fn new(waker: mio::Waker) -> Mailbox<L> {
        Mailbox { letters: Mutex::new(Vec::new()), waker }
    }

    pub(crate) fn post(&self, letter: Letter<L>) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        // The wake-up fails only if the event loop is gone, and the letter with it.
        let _ = self.waker.wake();
    }

    pub(crate) fn collect(&self) -> Vec<Letter<L>> {
        std::mem::take(&mut self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
