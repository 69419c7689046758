//! Links: the service's own descriptors on its event loop. They are connections that it opens to
//! other servers, and connections of the transport that it takes over (`Upgrade`, RFC 9110, section
//! 7.8).
//!
//! Without links, a service that asks other servers for a request would need its own threads, and
//! two hand-overs for each request. A link's events come in the same wake-up as those of
//! connections. Its answers complete requests of the same loop at once, and all its output is sent
//! together at the end of the wake-up.

use std::sync::Arc;

use mio::{Registry, Token};
use pellucid_account::{Recorder, RequestFacts, Timeline};
use pellucid_clock::Ticks;

use crate::accounts::{Accounts, saturating_u32};
use crate::mailbox::{Mailbox, Message, Messenger, Ticket};

/// The first token of the service's links.
pub(crate) const LINKS: usize = 1 << 40;
/// The first token of the event loop's own descriptors.
pub(crate) const TOKENS_OWN: usize = usize::MAX - 2;

/// An event of one of the service's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// The number of the link.
    pub link: usize,
    /// True if the other end has closed its sending side. Events are edge-triggered: this is not
    /// reported again, so the link must be read to its end.
    pub is_read_closed: bool,
}

/// The interface of the event loop for a turn of the service's links.
pub struct LinkContext<'a, L> {
    pub(crate) registry: &'a Registry,
    pub(crate) accounts: &'a mut Accounts,
    pub(crate) mailbox: &'a Arc<Mailbox<L>>,
    /// The messages for connections, which the loop takes after the service's turn.
    pub(crate) due: &'a mut Vec<Message<L>>,
    pub(crate) woke: Ticks,
}

impl<'a, L> LinkContext<'a, L> {
    /// The registry in which links are registered, with [`LinkContext::token`].
    #[must_use]
    pub fn registry(&self) -> &'a Registry {
        self.registry
    }

    /// The token of the link with this number.
    #[must_use]
    pub fn token(link: usize) -> Token {
        Token(LINKS + link)
    }

    /// The time of the loop's wake-up.
    #[must_use]
    pub fn woke(&self) -> Ticks {
        self.woke
    }

    /// The index of the loop.
    #[must_use]
    pub fn index(&self) -> usize {
        self.accounts.index()
    }

    /// The recorder of the accounts of this loop's requests.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        self.accounts.recorder()
    }

    /// A handle to send messages to this loop's service from other threads.
    #[must_use]
    pub fn messenger(&self) -> Messenger<L> {
        Messenger(Arc::clone(self.mailbox))
    }

    /// Makes the loop call [`crate::Service::resume`] with `later` for a request that returned
    /// [`crate::ServiceResult::Later`], if its connection is still there.
    pub fn complete(&mut self, ticket: Ticket, later: L) {
        self.due.push(Message::Completed(ticket.0, Some(later)));
    }

    /// Makes the loop ask a body again that returned [`crate::FillResult::Waiting`].
    pub fn go_on(&mut self, ticket: Ticket) {
        self.due.push(Message::GoOn(ticket.0));
    }

    /// Begins the account of a request that came through a link. Its last byte was read at
    /// `received`. If it came behind others in the same read, it waited until `waited_until`.
    pub fn begin(
        &mut self,
        received: Ticks,
        waited_until: Option<Ticks>,
        request_bytes: usize,
    ) -> (Timeline, RequestFacts) {
        let request = self.accounts.next_request();
        let mut timeline = self.recorder().begin(self.woke);
        timeline.identify(request, received);
        timeline.attend_at(waited_until.unwrap_or(self.woke).min(received));
        timeline.stamp_at(pellucid_account::Stamp::Received, received);
        if let Some(until) = waited_until {
            timeline.wait_until(until);
        }
        let request_bytes = saturating_u32(request_bytes);
        (timeline, RequestFacts { request, request_bytes, ..RequestFacts::default() })
    }
}

/// The number of the link with this token; none if the token belongs to no link.
pub(crate) fn link_of(token: Token) -> Option<usize> {
    (LINKS..TOKENS_OWN).contains(&token.0).then(|| token.0 - LINKS)
}
