//! Answers of handlers: replies, and promises of replies that are made elsewhere.

use pellucid_account::Timeline;
use pellucid_http::{Completer, Exchange};
use pellucid_store::Arrival;

use crate::access::Identity;
use crate::cluster::{OwnerReply, Served};
use crate::gate::HeldRequest;
use crate::reply::{Failure, Reply};

/// The event loop's side of a request: its account, and the way back to it.
pub(crate) type Loop<'a> = Exchange<'a, Later>;

/// The result of a handler.
pub(crate) type Handling = Result<Answer, Failure>;

/// See the module.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each request")]
pub(crate) enum Answer {
    Reply(Reply),
    /// The reply is made elsewhere, once this has begun it with a completer of the exchange.
    Pending(Box<dyn FnOnce(&mut Loop<'_>)>),
    /// The request is with a peer or another thread, which brings it back.
    Away,
}

impl Answer {
    /// A reply that `begin` has another thread make.
    pub(crate) fn pending(begin: impl FnOnce(Completer<Later>) + 'static) -> Answer {
        Answer::Pending(Box::new(|exchange| begin(exchange.completer())))
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer::Reply(reply)
    }
}

/// A message to an event loop from another thread or a peer.
pub(crate) enum Later {
    Made(Made),
    /// A request whose password was verified, and its caller if it was right.
    Verified(Box<HeldRequest>, Option<Identity>),
    /// The answer to a forwarded request.
    Forwarded(OwnerReply),
    /// The answer to a peer's request: no request of this loop's.
    Served(Box<Served>),
}

/// A reply that was made elsewhere, with the times that were measured there.
pub(crate) struct Made {
    result: Result<Reply, Failure>,
    /// The account, if the other thread continued it.
    timeline: Option<Box<Timeline>>,
    times: Arrival<()>,
}

impl Made {
    /// A result without times.
    pub(crate) fn of(result: Result<Reply, Failure>) -> Made {
        Made { result, timeline: None, times: Arrival::new(Ok(()), Vec::new()) }
    }

    /// The reply that `make` makes of what has arrived.
    pub(crate) fn by<T>(arrival: Arrival<T>, make: impl FnOnce(T) -> Reply) -> Made {
        let Arrival { result, parts, started, counts } = arrival;
        let times = Arrival { result: Ok(()), parts, started, counts };
        Made { result: result.map(make).map_err(Failure::Store), timeline: None, times }
    }

    /// The same, begun by its thread at `started`.
    pub(crate) fn started_at(mut self, started: pellucid_clock::Ticks) -> Made {
        self.times.started = Some(started);
        self
    }

    /// The same, with the account as it was continued elsewhere.
    pub(crate) fn continuing(self, timeline: Timeline) -> Made {
        Made { timeline: Some(Box::new(timeline)), ..self }
    }

    /// Brings the times to the request's account, and gives the result.
    pub(crate) fn arrive(self, timeline: &mut Timeline) -> Result<Reply, Failure> {
        if let Some(continued) = self.timeline {
            *timeline = *continued;
        }
        self.times.add_to(timeline);
        self.result
    }
}
