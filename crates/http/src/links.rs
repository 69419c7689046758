//! Descriptors of the service's own on its event loop: connections to others that it opens, and
//! connections of the transport that it takes over (`Upgrade`, RFC 9110, section 7.8).
//!
//! A service that asks others on behalf of a request would otherwise need threads of its own, and
//! with them two hand-overs for each request. A link's events come in the same wake-up as those of
//! connections, its answers complete requests of the same loop at once, and all that it has to send
//! goes out together at the end of the wake-up.

use std::sync::Arc;

use mio::{Registry, Token};
use pellucid_account::{Recorder, RequestFacts, Timeline};
use pellucid_clock::Ticks;

use crate::accounts::{Accounts, request_number};
use crate::mailbox::{ConnectionId, Mailbox, Messenger, Ticket};

/// Tokens from here on are the service's.
pub(crate) const LINKS: usize = 1 << 40;
/// Tokens from here on are the event loop's own.
pub(crate) const TOKENS_OWN: usize = usize::MAX - 2;

/// Something to do for a connection once the service has had its turn.
pub(crate) enum Due<L> {
    Complete(ConnectionId, L),
    GoOn(ConnectionId),
}

/// The event loop as the service's links see it.
pub struct LinkTurn<'a, L> {
    registry: &'a Registry,
    recorder: &'a Recorder,
    mailbox: &'a Arc<Mailbox<L>>,
    due: &'a mut Vec<Due<L>>,
    /// Requests of the loop so far.
    requests: &'a mut u64,
    index: usize,
    woke: Ticks,
}

impl<'a, L> LinkTurn<'a, L> {
    pub(crate) fn new(
        registry: &'a Registry,
        accounts: &'a mut Accounts,
        mailbox: &'a Arc<Mailbox<L>>,
        due: &'a mut Vec<Due<L>>,
        woke: Ticks,
    ) -> LinkTurn<'a, L> {
        let index = accounts.index();
        let (recorder, requests) = accounts.recorder_and_requests();
        LinkTurn { registry, recorder, mailbox, due, requests, index, woke }
    }

    /// The registry for links, under [`LinkTurn::token`].
    #[must_use]
    pub fn registry(&self) -> &'a Registry {
        self.registry
    }

    /// The token of the service's link of this number.
    #[must_use]
    pub fn token(link: usize) -> Token {
        Token(LINKS + link)
    }

    /// The time of the loop's wake-up.
    #[must_use]
    pub fn woke(&self) -> Ticks {
        self.woke
    }

    /// The number of the loop.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The recorder of accounts.
    #[must_use]
    pub fn recorder(&self) -> &'a Recorder {
        self.recorder
    }

    /// Reaches this loop's service from other threads.
    #[must_use]
    pub fn messenger(&self) -> Messenger<L> {
        Messenger(Arc::clone(self.mailbox))
    }

    /// Has [`crate::Service::resume`] called for a request that was answered with
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
        let request = request_number(self.index, *self.requests);
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

/// The link that the token belongs to, if it is one's.
pub(crate) fn link_of(token: Token) -> Option<usize> {
    (LINKS..TOKENS_OWN).contains(&token.0).then(|| token.0 - LINKS)
}
