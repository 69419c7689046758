//! When a request is sent again: where that cannot do harm, to another node, a bounded number of
//! times.
//!
//! The driver's own policy gives up where copies did not answer in time. When a node has just died,
//! the others learn of it only after seconds, and until then one of them may wait for the dead
//! one's answer; another, or the same one later, does without it.

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// Times that a request is sent again.
const AGAIN_MAX: u32 = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct Again;

impl RetryPolicy for Again {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Session { again: 0 })
    }
}

struct Session {
    again: u32,
}

impl RetrySession for Session {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        let reached_nothing = matches!(
            info.error,
            RequestAttemptError::UnableToAllocStreamId
                | RequestAttemptError::DbError(
                    DbError::Unavailable { .. } | DbError::IsBootstrapping,
                    _
                )
        );
        let may_help = matches!(
            info.error,
            RequestAttemptError::BrokenConnectionError(_)
                | RequestAttemptError::DbError(
                    DbError::Overloaded
                        | DbError::ServerError
                        | DbError::ReadTimeout { .. }
                        | DbError::ReadFailure { .. }
                        | DbError::WriteTimeout { .. }
                        | DbError::WriteFailure { .. },
                    _
                )
        );
        self.again += 1;
        if self.again > AGAIN_MAX || !(reached_nothing || may_help && info.is_idempotent) {
            return RetryDecision::DontRetry;
        }
        RetryDecision::RetryNextTarget(None)
    }

    fn reset(&mut self) {
        self.again = 0;
    }
}
