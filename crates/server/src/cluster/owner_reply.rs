//! Makes replies to forwarded requests from the owners' answers.

use pellucid_account::{Stamp, Timeline};
use pellucid_cluster::{AnswerStatus, Failure as PeerFailure, OwnerAnswer};
use pellucid_store::{Object, StoreError, Value, WriteOutcome};
use pellucid_thread::ParkedWork;

use crate::entities::EntityHeaders;
use crate::log::Log;
use crate::reply::{Failure, Reply, WriteReply};

/// One in this number of waits for other nodes is recorded in the profile of waits: recording all
/// would cost each forwarded request a stack and a lock. The account has the times of all waits.
pub(super) const WAITS_ONE_IN: u32 = 64;

/// The kind of a forwarded request, kept until the answer arrives.
pub(crate) enum ForwardedRequest {
    Get(EntityHeaders),
    Head(EntityHeaders),
    Write(WriteReply),
}

/// The owner's answer to a forwarded request.
pub(crate) struct OwnerReply {
    pub(super) request: ForwardedRequest,
    /// The wait since the request was forwarded.
    pub(super) put_down: ParkedWork,
    pub(super) result: Result<OwnerAnswer, PeerFailure>,
    /// The value, or the text of an error.
    pub(super) payload: Vec<u8>,
}

impl OwnerReply {
    /// The reply to the client. Adds the owner's times to the request's timeline.
    pub(crate) fn reply(self, timeline: &mut Timeline, log: &Log) -> Result<Reply, Failure> {
        let OwnerReply { request, put_down, result, payload } = self;
        put_down.end_by_chance(WAITS_ONE_IN);
        let answer = result.map_err(|failure| refusal_of(&failure))?;
        if timeline.is_on() {
            let parts = answer.parts(timeline.clock());
            parts.iter().for_each(|part| part.add_to(timeline));
        }
        timeline.stamp(Stamp::Executed);
        if answer.answer.status == AnswerStatus::NotOwner {
            let line = String::from_utf8_lossy(&payload).into_owned();
            let error = StoreError::Failed(line.clone());
            log.failed_request("a forwarded request was not taken", &error);
            return Err(Failure::Refused(500, line.into()));
        }
        if let Some(error) = answer.error(&payload) {
            return Err(Failure::Store(error));
        }
        let head = answer.head();
        let sequence = answer.answer.sequence;
        Ok(match request {
            ForwardedRequest::Write(reply) => reply.of(WriteOutcome { sequence }),
            ForwardedRequest::Head(headers) => {
                let verdict = headers.judge(head.as_ref());
                Reply::to_head(head, verdict)
            }
            ForwardedRequest::Get(headers) => {
                let verdict = headers.judge(head.as_ref());
                let object = head.map(|head| Object { head, value: Value::Owned(payload) });
                Reply::to_get(object, verdict)
            }
        })
    }
}

/// The refusal of a request that the owner has not answered.
pub(super) fn refusal_of(failure: &PeerFailure) -> Failure {
    let line = failure.to_string().into();
    match failure {
        PeerFailure::Full { .. } => Failure::Busy(line),
        _ => Failure::Refused(504, line),
    }
}
