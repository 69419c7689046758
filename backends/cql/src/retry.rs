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

/// The most telling error of the retried attempts that a node may have executed: the last one about
/// missing copies, or else the last one.
type EarlierError = Arc<Mutex<Option<RequestAttemptError>>>;

/// The retry policy of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestRetryPolicy {
    earlier: EarlierError,
}

impl RequestRetryPolicy {
    /// The most telling error of the retried attempts that a node may have executed.
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

impl RequestRetrySession {
    /// Notes the error of an attempt that is retried.
    fn note(&self, error: &RequestAttemptError) {
        let mut earlier = self.earlier.lock();
        let is_telling = is_of_copies(error) || !earlier.as_ref().is_some_and(is_of_copies);
        if is_telling && may_have_executed(error) {
            *earlier = Some(error.clone());
        }
    }
}

impl RetrySession for RequestRetrySession {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        self.retries += 1;
        if self.retries > RETRIES_MAX || !is_retried(info.error, info.is_idempotent) {
            return RetryDecision::DontRetry;
        }
        self.note(info.error);
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
        error => is_idempotent && is_of_copies(error),
    }
}

fn is_of_copies(error: &RequestAttemptError) -> bool {
    matches!(error, RequestAttemptError::DbError(error, _) if is_about_copies(error))
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

    /// Regression: an overload hid how many copies had answered before.
    #[test]
    fn a_report_on_copies_outlasts_later_errors() {
        let policy = RequestRetryPolicy::default();
        let session = RequestRetrySession { retries: 0, earlier: Arc::clone(&policy.earlier) };
        let consistency = Consistency::Quorum;
        let noted = |error: DbError| {
            session.note(&RequestAttemptError::DbError(error, String::new()));
            policy.earlier_error().map(|error| error.to_string())
        };
        assert_eq!(noted(DbError::IsBootstrapping), None, "it has executed nothing");
        assert!(noted(DbError::Overloaded).unwrap().contains("overloaded"));
        let copies = noted(DbError::Unavailable { consistency, required: 2, alive: 1 });
        assert!(copies.as_ref().unwrap().contains("alive: 1"), "{copies:?}");
        assert_eq!(noted(DbError::Overloaded), copies);
    }

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
