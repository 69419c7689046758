//! The entity API on a sharded cluster: requests for keys of other nodes are forwarded, and those
//! that other nodes forward are served.
//!
//! Each event loop has its own connections to peers ([`pellucid_cluster::Peers`]), so a request
//! leaves and comes back on the loop that read it. docs/cluster.md has the whole.

mod forward;
mod links;
mod page;
mod range;
mod serve;
mod start;

use pellucid_account::Timeline;
use pellucid_cluster::{AnswerStatus, Failure, OwnerTimes, Times};
use pellucid_http::{Handled, Request, Response};

pub(crate) use forward::AskedWrite;
pub(crate) use links::Links;
pub(crate) use page::views;
pub(crate) use serve::Served;
pub(crate) use start::join;

use crate::conditions::KeptConditions;
use crate::names::{
    NETWORK, OWNER_JOURNAL, OWNER_LEDGER, OWNER_OTHER, OWNER_QUEUE, OWNER_RECEIVE, OWNER_WAIT,
    PEER_WAIT,
};
use crate::service::{Api, Loop, WriteReply, begin_answer};

/// What an ask was for, until its answer comes.
pub(crate) enum Waiting {
    /// A GET, and its conditions.
    Get(Option<Box<KeptConditions>>),
    /// A HEAD, and its conditions.
    Head(Option<Box<KeptConditions>>),
    /// A write.
    Write(WriteReply),
}

/// What came of a forwarded request.
pub(crate) struct Brought {
    pub(crate) waiting: Waiting,
    pub(crate) result: Result<OwnerAnswer, Failure>,
    /// The value, or why there is none.
    pub(crate) payload: Vec<u8>,
}

/// The fixed part of an owner's answer.
pub(crate) struct OwnerAnswer {
    status: AnswerStatus,
    detail: u32,
    sequence: u64,
    written_at_ms: u64,
    value_length: u64,
    owner: OwnerTimes,
    times: Times,
}

impl OwnerAnswer {
    /// Gives the parts of `execute` what they took: here until it was sent, on the way, and at the
    /// owner. The two clocks are compared by their durations alone; if the owner says more than was
    /// waited, it is cut to that, last parts first.
    fn add_to(&self, timeline: &mut Timeline) {
        if !timeline.is_on() {
            return;
        }
        let clock = timeline.clock();
        let Times { asked, sent, received } = self.times;
        timeline.add_part(PEER_WAIT, sent.since(asked), received);
        let mut left = received.since(sent);
        let parts = &self.owner.parts_ns;
        let ns = |slots: &[usize]| slots.iter().map(|slot| u64::from(parts[*slot])).sum::<u64>();
        let (ledger_ns, journal_ns, wait_ns) = (ns(&[2]), ns(&[3, 4]), ns(&[0, 1, 6, 7]));
        let execute_ns = u64::from(self.owner.execute_ns);
        let other_ns = execute_ns.saturating_sub(ledger_ns + journal_ns + wait_ns)
            + u64::from(self.owner.reply_ns);
        for (part, part_ns) in [
            (OWNER_RECEIVE, u64::from(self.owner.receive_ns)),
            (OWNER_QUEUE, u64::from(self.owner.queue_ns)),
            (OWNER_LEDGER, ledger_ns),
            (OWNER_JOURNAL, journal_ns),
            (OWNER_WAIT, wait_ns),
            (OWNER_OTHER, other_ns),
        ] {
            let ticks = clock.ticks(part_ns).min(left);
            left -= ticks;
            timeline.add_part(part, ticks, received);
        }
        timeline.add_part(NETWORK, left, received);
    }
}

/// Whether a path of the document API works on a cluster: whatever is not about documents.
fn works_on_cluster(path: &str) -> bool {
    let within = match path.strip_prefix("/_db/").and_then(|rest| rest.split_once('/')) {
        Some((_, rest)) => rest,
        None => path.trim_start_matches('/'),
    };
    let begins = |name: &&str| within == *name || within.starts_with(&format!("{name}/"));
    ["_open", "_admin", "_api/version", "_api/user", "_api/token", "_api/engine"].iter().any(begins)
}

impl Api {
    /// Refuses a call to the document API that needs documents, on a cluster.
    pub(crate) fn refuse_documents(
        &self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Option<Handled> {
        if self.shared.cluster.is_none() || works_on_cluster(request.path) {
            return None;
        }
        crate::service::route(exchange, crate::names::Operation::About);
        let message = "documents are not there on a sharded cluster: this server was started with \
                       --cluster, which has the entity API alone";
        let body = serde_json::json!({
            "error": true, "code": 501, "errorNum": 9, "errorMessage": message,
        });
        begin_answer(response, exchange, 501, &[("Content-Type", b"application/json")]);
        response.finish(body.to_string().as_bytes());
        Some(Handled::Done)
    }
}

#[cfg(test)]
mod tests {
    use pellucid_account::{Phase, Stamp};
    use pellucid_clock::{Clock, Ticks};

    use super::*;

    fn answer(owner: OwnerTimes, sent: u64, received: u64) -> OwnerAnswer {
        let times = Times { asked: Ticks(1_000), sent: Ticks(sent), received: Ticks(received) };
        OwnerAnswer {
            status: AnswerStatus::Found,
            detail: 0,
            sequence: 1,
            written_at_ms: 0,
            value_length: 0,
            owner,
            times,
        }
    }

    fn parts_of(answer: &OwnerAnswer) -> (Timeline, u64) {
        let mut timeline = Timeline::begin(Clock::monotonic(), Ticks(0));
        timeline.stamp_at(Stamp::Received, Ticks(0));
        timeline.stamp_at(Stamp::Started, Ticks(1_000));
        answer.add_to(&mut timeline);
        timeline.stamp_at(Stamp::Executed, Ticks(9_000));
        let sum = (0..8).map(|slot| timeline.part_ticks(pellucid_account::Part::new(slot))).sum();
        (timeline, sum)
    }

    #[test]
    fn the_parts_of_a_forwarded_request_fill_its_round_trip() {
        let mut owner = OwnerTimes {
            receive_ns: 100,
            queue_ns: 200,
            execute_ns: 1_000,
            reply_ns: 50,
            ..OwnerTimes::default()
        };
        owner.parts_ns[2] = 300;
        owner.parts_ns[3] = 400;
        let (timeline, sum) = parts_of(&answer(owner, 2_000, 8_000));
        let of = |part| timeline.part_ticks(part);
        assert_eq!((of(PEER_WAIT), of(OWNER_RECEIVE), of(OWNER_QUEUE)), (1_000, 100, 200));
        assert_eq!((of(OWNER_LEDGER), of(OWNER_JOURNAL), of(OWNER_OTHER)), (300, 400, 350));
        assert_eq!((of(NETWORK), sum), (6_000 - 1_350, 7_000));
        assert!(sum <= timeline.phase_ticks(Phase::Execute));
    }

    #[test]
    fn an_owner_that_says_more_than_was_waited_is_cut() {
        let owner = OwnerTimes { receive_ns: 5_000, execute_ns: u32::MAX, ..OwnerTimes::default() };
        let (timeline, sum) = parts_of(&answer(owner, 2_000, 8_000));
        assert_eq!((timeline.part_ticks(NETWORK), sum), (0, 7_000));
    }

    #[test]
    fn what_is_not_about_documents_works() {
        for path in ["/_open/auth", "/_api/version", "/_db/_system/_api/version", "/_admin/time"] {
            assert!(works_on_cluster(path), "{path}");
        }
        for path in ["/_api/document/c/1", "/_db/x/_api/cursor", "/_api/versions", "/_api/index"] {
            assert!(!works_on_cluster(path), "{path}");
        }
    }
}
