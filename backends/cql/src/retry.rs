//! Retries of requests: where that cannot do harm, to another node, a bounded number of times.
//!
//! The driver's own policy gives up where copies did not answer in time. When a node has just died,
//! the others learn of it only after seconds, and until then one of them may wait for the dead
//! one's answer; another, or the same one later, does without it.
//!
//! Each request has a policy of its own, because the driver reports the last thing that went wrong:
//! that there was no connection to a dead node, where a living one had said how many copies were
//! missing. The policy keeps what was said.

use std::sync::{Arc, PoisonError};

use pellucid_thread::Mutex;
use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// Times that a request is sent again.
const AGAIN_MAX: u32 = 4;

/// The last report of a node on missing copies.
type Said = Arc<Mutex<Option<RequestAttemptError>>>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Again {
    said: Said,
}

impl Again {
    /// The last report of a node on missing copies.
    pub(crate) fn said(&self) -> Option<RequestAttemptError> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RetryPolicy for Again {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Session { again: 0, said: Arc::clone(&self.said) })
    }
}

struct Session {
    again: u32,
    said: Said,
}

impl RetrySession for Session {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        if let RequestAttemptError::DbError(error, _) = info.error
            && is_about_copies(error)
        {
            let said = Some(info.error.clone());
            *self.said.lock().unwrap_or_else(PoisonError::into_inner) = said;
        }
        let reached_nothing = matches!(
            info.error,
            RequestAttemptError::UnableToAllocStreamId
                | RequestAttemptError::DbError(
                    DbError::Unavailable { .. } | DbError::IsBootstrapping,
                    _
                )
        );
        let may_help = match info.error {
            RequestAttemptError::BrokenConnectionError(_)
            | RequestAttemptError::DbError(DbError::Overloaded | DbError::ServerError, _) => true,
            RequestAttemptError::DbError(error, _) => is_about_copies(error),
            _ => false,
        };
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

fn is_about_copies(error: &DbError) -> bool {
    matches!(
        error,
        DbError::Unavailable { .. }
            | DbError::ReadTimeout { .. }
            | DbError::ReadFailure { .. }
            | DbError::WriteTimeout { .. }
            | DbError::WriteFailure { .. }
    )
}
