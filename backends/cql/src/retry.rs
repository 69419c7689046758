//! The retry policy: a request is retried at another node, a limited number of times, where a retry
//! is safe.
//!
//! The driver's own policy does not retry if copies do not answer in time. When a node has just
//! died, the others notice only after seconds. Until then, a coordinator may wait for the dead
//! node's answer, and another coordinator, or the same one later, does not.
//!
//! Each request has a policy of its own, because the driver reports only the last error: for
//! example that there is no connection to a dead node, although a living node has reported before
//! how many copies are missing. The policy keeps that report.

use std::sync::Arc;

use pellucid_thread::Mutex;
use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// Limit of the retries of a request.
const AGAIN_MAX: u32 = 4;

/// The last report of a node on missing copies.
type MissingCopiesReport = Arc<Mutex<Option<RequestAttemptError>>>;

/// The retry policy of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestRetryPolicy {
    said: MissingCopiesReport,
}

impl RequestRetryPolicy {
    /// The last report of a node on missing copies.
    pub(crate) fn said(&self) -> Option<RequestAttemptError> {
        self.said.lock().clone()
    }
}

impl RetryPolicy for RequestRetryPolicy {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(RequestRetrySession { again: 0, said: Arc::clone(&self.said) })
    }
}

struct RequestRetrySession {
    again: u32,
    said: MissingCopiesReport,
}

impl RetrySession for RequestRetrySession {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        if let RequestAttemptError::DbError(error, _) = info.error
            && is_about_copies(error)
        {
            let said = Some(info.error.clone());
            *self.said.lock() = said;
        }
        self.again += 1;
        if self.again > AGAIN_MAX || !is_retried(info.error, info.is_idempotent) {
            return RetryDecision::DontRetry;
        }
        RetryDecision::RetryNextTarget(None)
    }

    fn reset(&mut self) {
        self.again = 0;
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
