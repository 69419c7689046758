//! Answers of handlers: replies, and promises of replies that are made elsewhere.

use pellucid_account::Timeline;
use pellucid_http::{Completer, Exchange};
use pellucid_store::DeliveredAnswer;

use crate::access::Identity;
use crate::cluster::{OwnerReply, ServedRequest};
use crate::gate::HeldRequest;
use crate::reply::{Failure, Reply};

/// The event loop's side of a request: its timeline, its facts, and a completer for late replies.
pub(crate) type LoopExchange<'a> = Exchange<'a, LoopMessage>;

/// The result of a handler.
pub(crate) type HandlerResult = Result<Answer, Failure>;

/// The answer of a handler that did not fail.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each request")]
pub(crate) enum Answer {
    Reply(Reply),
    /// The reply is made elsewhere. The event loop calls this closure once to begin the work.
    Pending(Box<dyn FnOnce(&mut LoopExchange<'_>)>),
    /// The request was given to a peer or another thread, which sends a [`LoopMessage`] back.
    Away,
}

impl Answer {
    /// An answer whose reply another thread makes. `begin` hands the completer to that thread.
    pub(crate) fn pending(begin: impl FnOnce(Completer<LoopMessage>) + 'static) -> Answer {
        Answer::Pending(Box::new(|exchange| begin(exchange.completer())))
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer::Reply(reply)
    }
}

/// A message to an event loop from another thread or a peer.
pub(crate) enum LoopMessage {
    /// A reply that another thread made.
    Made(Box<DeferredReply>),
    /// A request whose password was checked on another thread, and its caller if the password was
    /// right.
    Verified(Box<HeldRequest>, Option<Identity>),
    /// The owner's reply to a forwarded request.
    Forwarded(OwnerReply),
    /// The reply to a request of a peer; it belongs to no client request of this loop.
    Served(Box<ServedRequest>),
}

/// A reply that was made elsewhere, with the times that were measured there.
pub(crate) struct DeferredReply {
    result: Result<Reply, Failure>,
    /// The timeline of the request, if the other thread continued it.
    timeline: Option<Box<Timeline>>,
    times: DeliveredAnswer<()>,
}

impl DeferredReply {
    /// A result without times.
    pub(crate) fn of(result: Result<Reply, Failure>) -> DeferredReply {
        DeferredReply { result, timeline: None, times: DeliveredAnswer::new(Ok(()), Vec::new()) }
    }

    /// The reply that `make` makes from the result of a store operation.
    pub(crate) fn by<T>(
        arrival: DeliveredAnswer<T>,
        make: impl FnOnce(T) -> Reply,
    ) -> DeferredReply {
        let DeliveredAnswer { result, parts, started, counts } = arrival;
        let times = DeliveredAnswer { result: Ok(()), parts, started, counts };
        DeferredReply { result: result.map(make).map_err(Failure::Store), timeline: None, times }
    }

    /// Sets the time at which the other thread began to work.
    pub(crate) fn started_at(mut self, started: pellucid_clock::Ticks) -> DeferredReply {
        self.times.started = Some(started);
        self
    }

    /// Sets the timeline that the other thread continued.
    pub(crate) fn continuing(self, timeline: Timeline) -> DeferredReply {
        DeferredReply { timeline: Some(Box::new(timeline)), ..self }
    }

    /// Adds the times to the request's timeline, and returns the result.
    pub(crate) fn arrive(self, timeline: &mut Timeline) -> Result<Reply, Failure> {
        if let Some(continued) = self.timeline {
            *timeline = *continued;
        }
        self.times.add_to(timeline);
        self.result
    }
}
