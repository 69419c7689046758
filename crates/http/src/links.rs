//! Descriptors of the service's own on its event loop: connections to others that it opens, and
//! connections of the transport that it takes over (`Upgrade`, RFC 9110, section 7.8).
//!
//! Whoever asks others on behalf of a request would otherwise need threads of his own, and with
//! them two hand-overs for each request. A link's events come in the same wake-up as those of
//! connections, its answers complete requests of the same loop at once, and what it has to send
//! goes out together at the end of the wake-up.

use std::sync::Arc;

use mio::{Registry, Token};
use pellucid_account::{Recorder, RequestFacts, Timeline};
use pellucid_clock::Ticks;

use crate::connection::Connection;
use crate::event_loop::EventLoop;
use crate::requests::id_of;
use crate::service::{ConnectionId, Letter, Mailbox, Service};

/// Tokens from here on are the service's.
pub(crate) const LINKS: usize = 1 << 40;
/// Times in one wake-up that links are asked what they have, as answers lead to requests.
const ROUNDS_MAX: usize = 16;

/// Stands for a request that is to be completed on its own loop; of no use elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub(crate) ConnectionId);

/// Tells the service of an event loop something from any thread.
pub struct Messenger<L> {
    mailbox: Arc<Mailbox<L>>,
}

impl<L> Clone for Messenger<L> {
    fn clone(&self) -> Messenger<L> {
        Messenger { mailbox: Arc::clone(&self.mailbox) }
    }
}

impl<L> Messenger<L> {
    /// Has [`Service::told`] called with `message` on its loop.
    pub fn tell(&self, message: L) {
        self.mailbox.post(Letter::Told(message));
    }
}

/// What is to be done once the service has had its turn.
pub(crate) enum Due<L> {
    Complete(ConnectionId, L),
    GoOn(ConnectionId),
}

/// The event loop as the service's links see it.
pub struct LinkTurn<'a, L> {
    pub(crate) registry: &'a Registry,
    pub(crate) recorder: &'a Recorder,
    pub(crate) mailbox: &'a Arc<Mailbox<L>>,
    pub(crate) due: &'a mut Vec<Due<L>>,
    pub(crate) requests: &'a mut u64,
    pub(crate) index: usize,
    pub(crate) woke: Ticks,
}

impl<'a, L> LinkTurn<'a, L> {
    /// Where links are registered, under [`LinkTurn::token`].
    #[must_use]
    pub fn registry(&self) -> &'a Registry {
        self.registry
    }

    /// The token of the service's link of this number.
    #[must_use]
    pub fn token(link: usize) -> Token {
        Token(LINKS + link)
    }

    /// When the loop woke up.
    #[must_use]
    pub fn woke(&self) -> Ticks {
        self.woke
    }

    /// The number of the loop.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Where accounts go.
    #[must_use]
    pub fn recorder(&self) -> &'a Recorder {
        self.recorder
    }

    /// Reaches this loop's service from other threads.
    #[must_use]
    pub fn messenger(&self) -> Messenger<L> {
        Messenger { mailbox: Arc::clone(self.mailbox) }
    }

    /// Has [`Service::resume`] called for a request that was answered with
    /// [`crate::Handled::Later`], if its connection is still there.
    pub fn complete(&mut self, ticket: Ticket, later: L) {
        self.due.push(Due::Complete(ticket.0, later));
    }

    /// Has a body asked again that said [`crate::Filled::Waiting`].
    pub fn go_on(&mut self, ticket: Ticket) {
        self.due.push(Due::GoOn(ticket.0));
    }

    /// Begins the account of a request that came by a link and was read whole at `received`; it
    /// waited until `waited_until` behind others of the same read.
    pub fn begin(
        &mut self,
        received: Ticks,
        waited_until: Option<Ticks>,
        request_bytes: usize,
    ) -> (Timeline, RequestFacts) {
        *self.requests += 1;
        let request = (self.index as u64) << 48 | *self.requests;
        let mut timeline = self.recorder.begin(self.woke);
        timeline.identify(request, received);
        timeline.attend_at(waited_until.unwrap_or(self.woke).min(received));
        timeline.stamp_at(pellucid_account::Stamp::Received, received);
        if let Some(until) = waited_until {
            timeline.wait_until(until);
        }
        let request_bytes = u32::try_from(request_bytes).unwrap_or(u32::MAX);
        (timeline, RequestFacts { request, request_bytes, ..RequestFacts::default() })
    }
}

/// Whether the token belongs to a link, and to which.
pub(crate) fn link_of(token: Token) -> Option<usize> {
    (token.0 >= LINKS && token.0 < crate::event_loop::TOKENS_OWN).then(|| token.0 - LINKS)
}

impl<S: Service> EventLoop<S> {
    /// Gives the service a turn with its links, and does what came of it.
    pub(crate) fn link_turn<T>(
        &mut self,
        woke: Ticks,
        turn: impl FnOnce(&mut S, &mut LinkTurn<'_, S::Later>) -> T,
    ) -> T {
        let mut due = std::mem::take(&mut self.due);
        let done = turn(
            &mut self.service,
            &mut LinkTurn {
                registry: self.poll.registry(),
                recorder: &self.recorder,
                mailbox: &self.mailbox,
                due: &mut due,
                requests: &mut self.requests,
                index: self.index,
                woke,
            },
        );
        for due in due.drain(..) {
            match due {
                Due::Complete(id, later) => self.resume(id, later, woke),
                Due::GoOn(id) => self.go_on(id, woke),
            }
        }
        self.due = due;
        done
    }

    /// Lets links send what the wake-up brought, and what came of that.
    pub(crate) fn settle_links(&mut self, woke: Ticks) {
        for _ in 0..ROUNDS_MAX {
            if !self.link_turn(woke, |service, turn| service.settle(turn)) {
                return;
            }
        }
    }

    pub(crate) fn go_on(&mut self, id: ConnectionId, woke: Ticks) {
        self.with_connection_of(id, |this, connection| {
            this.advance(id.slot as usize, connection, woke)
        });
    }

    /// Gives a connection whose last response is out to the service.
    pub(crate) fn give_away(&mut self, slot: usize, mut connection: Box<Connection>) {
        let ticket = Ticket(id_of(slot, &connection));
        let woke = self.clock.now();
        if self.poll.registry().deregister(&mut connection.socket).is_err() {
            return;
        }
        let (socket, unread) = (connection.socket, connection.input);
        self.link_turn(woke, |service, turn| service.upgraded(ticket, socket, unread, turn));
    }
}
