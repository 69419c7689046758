//! From the driver's errors to the store's.

use pellucid_store::StoreError;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

/// What the driver's error means to whoever asked.
pub(crate) fn error_of(error: &ExecutionError) -> StoreError {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(of_ring, message)) => {
            error_of_ring(of_ring, message)
        }
        ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(_))
        | ExecutionError::ConnectionPoolError(_)
        | ExecutionError::EmptyPlan => {
            StoreError::Unreachable(format!("no node of the ring could be asked: {error}"))
        }
        ExecutionError::RequestTimeout(after) => {
            StoreError::Unreachable(format!("the ring did not answer within {after:?}"))
        }
        ExecutionError::LastAttemptError(RequestAttemptError::UnableToAllocStreamId) => {
            StoreError::Busy("too many requests are on their way to the ring".to_owned())
        }
        _ => StoreError::Failed(format!("the ring failed: {error}")),
    }
}

fn error_of_ring(error: &DbError, message: &str) -> StoreError {
    let missing = |received: i32, required: i32, consistency: &dyn std::fmt::Display| {
        StoreError::Unreachable(format!(
            "{received} copies answered in time where {required} have to ({consistency}): {message}"
        ))
    };
    match error {
        DbError::Unavailable { consistency, required, alive } => StoreError::Unreachable(format!(
            "{alive} copies can be reached where {required} have to answer ({consistency})"
        )),
        DbError::ReadTimeout { consistency, received, required, .. }
        | DbError::WriteTimeout { consistency, received, required, .. }
        | DbError::ReadFailure { consistency, received, required, .. }
        | DbError::WriteFailure { consistency, received, required, .. } => {
            missing(*received, *required, consistency)
        }
        DbError::Overloaded | DbError::RateLimitReached { .. } => {
            StoreError::Busy(format!("the ring has too much to do: {message}"))
        }
        DbError::IsBootstrapping => {
            StoreError::Unreachable("the node that was asked is still starting".to_owned())
        }
        DbError::Invalid => {
            StoreError::Unacceptable(format!("the ring does not take this: {message}"))
        }
        _ => StoreError::Failed(format!("the ring failed: {error} ({message})")),
    }
}

/// Whether it is unknown what became of the write.
pub(crate) fn is_uncertain(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::RequestTimeout(_)
            | ExecutionError::LastAttemptError(
                RequestAttemptError::BrokenConnectionError(_)
                    | RequestAttemptError::DbError(
                        DbError::WriteTimeout { .. } | DbError::WriteFailure { .. },
                        _
                    )
            )
    )
}
