//! The retry policy: a request is retried at another node, a limited number of times, where a retry
//! is safe.
//!
//! The driver's own policy does not retry if copies do not answer in time. When a node has just
//! died, the others notice only after seconds. Until then, a coordinator may wait for the dead
//! node's answer, and another coordinator, or the same one later, does not.
//!
//! Each request has a policy of its own, because the driver reports only the last error: for
//! example that there is no connection to a dead node, although a living node has reported before
//! how many copies are missing, and may have made the write. The policy keeps that earlier error.

use std::sync::Arc;

use pellucid_thread::Mutex;
use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

use crate::error::may_have_executed;

/// Limit of the retries of a request.
const RETRIES_MAX: u32 = 4;

/// The last error of a retried attempt that a node may have executed.
type EarlierError = Arc<Mutex<Option<RequestAttemptError>>>;

/// The retry policy of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestRetryPolicy {
    earlier: EarlierError,
}

impl RequestRetryPolicy {
    /// The last error of an attempt before the last one that a node may have executed.
    pub(crate) fn earlier_error(&self) -> Option<RequestAttemptError> {
        self.earlier.lock().clone()
    }
}

impl RetryPolicy for RequestRetryPolicy {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(RequestRetrySession { retries: 0, earlier: Arc::clone(&self.earlier) })
    }
}

struct RequestRetrySession {
    retries: u32,
    earlier: EarlierError,
}

impl RetrySession for RequestRetrySession {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        self.retries += 1;
        if self.retries > RETRIES_MAX || !is_retried(info.error, info.is_idempotent) {
            return RetryDecision::DontRetry;
        }
        if may_have_executed(info.error) {
            let error = Some(info.error.clone());
            *self.earlier.lock() = error;
        }
        RetryDecision::RetryNextTarget(None)
    }

    fn reset(&mut self) {
        self.retries = 0;
    }
}

/// True if a retry may help, and is safe: the request is idempotent, or has reached nothing.
fn is_retried(error: &RequestAttemptError, is_idempotent: bool) -> bool {
    match error {
        RequestAttemptError::UnableToAllocStreamId
        | RequestAttemptError::DbError(DbError::IsBootstrapping, _) => true,
        RequestAttemptError::BrokenConnectionError(_)
        | RequestAttemptError::DbError(DbError::Overloaded | DbError::ServerError, _) => {
            is_idempotent
        }
        RequestAttemptError::DbError(error, _) => is_idempotent && is_about_copies(error),
        _ => false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::statement::Consistency;

    /// Regression: missing copies counted as reaching nothing. But a transaction may have been
    /// accepted before they are noticed, so it was made twice.
    #[test]
    fn a_transaction_is_not_retried_after_missing_copies() {
        let consistency = Consistency::Quorum;
        let unavailable = DbError::Unavailable { consistency, required: 2, alive: 1 };
        for (error, of_transaction, of_read) in [
            (unavailable, false, true),
            (DbError::Overloaded, false, true),
            (DbError::IsBootstrapping, true, true),
            (DbError::Invalid, false, false),
        ] {
            let error = RequestAttemptError::DbError(error, String::new());
            assert_eq!(is_retried(&error, false), of_transaction, "{error}");
            assert_eq!(is_retried(&error, true), of_read, "{error}");
        }
    }
}
