//! Conversion of the driver's errors to those of the store.

use pellucid_store::StoreError;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

/// A request that failed.
#[derive(Debug)]
pub(crate) struct FailedRequest {
    /// The error of the last attempt.
    pub(crate) error: ExecutionError,
    /// The last report of a node on missing copies, of any attempt.
    pub(crate) said: Option<RequestAttemptError>,
    /// The addresses of the nodes with copies to which there is no connection.
    pub(crate) away: Vec<String>,
}

impl From<FailedRequest> for StoreError {
    fn from(failed: FailedRequest) -> StoreError {
        let away = match &failed.away[..] {
            [] => "every node that has a copy is reached from here".to_owned(),
            away => format!("not reached from here: {}", away.join(", ")),
        };
        match failed.told() {
            StoreError::Unreachable(text) => StoreError::Unreachable(format!("{text}; {away}")),
            error => error,
        }
    }
}

impl FailedRequest {
    /// The store's error for the last attempt, with the earlier report on missing copies.
    fn told(self) -> StoreError {
        let FailedRequest {
            error, said: Some(RequestAttemptError::DbError(of_ring, message)), ..
        } = self
        else {
            return error_of(&self.error);
        };
        let (ended, said) = (error_of(&error), error_of_ring(&of_ring, &message));
        match (error, ended, said) {
            // The report is that of the last attempt, so the error has it already.
            (ExecutionError::LastAttemptError(RequestAttemptError::DbError(..)), ended, _) => ended,
            (_, StoreError::Unreachable(end), StoreError::Unreachable(said)) => {
                StoreError::Unreachable(format!("{said}; then {end}"))
            }
            (_, ended, _) => ended,
        }
    }

    /// True if a node may still execute the request, as it has not answered.
    pub(crate) fn may_follow(&self) -> bool {
        matches!(
            &self.error,
            ExecutionError::RequestTimeout(_)
                | ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(_))
        )
    }

    /// True if the outcome of a transaction is unknown. An error of its reads leaves it as open as
    /// an error of its writes: the coordinator may have made an earlier attempt by itself. It may
    /// also report overload and missing copies only after a majority has accepted the transaction.
    pub(crate) fn is_uncertain(&self) -> bool {
        match &self.error {
            ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => matches!(
                error,
                DbError::WriteTimeout { .. }
                    | DbError::WriteFailure { .. }
                    | DbError::ReadTimeout { .. }
                    | DbError::ReadFailure { .. }
                    | DbError::Unavailable { .. }
                    | DbError::Overloaded
                    | DbError::ServerError
                    | DbError::Other(_)
            ),
            _ => self.may_follow(),
        }
    }
}

/// The store's error for an error of the driver.
pub(crate) fn error_of(error: &ExecutionError) -> StoreError {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(of_ring, message)) => {
            error_of_ring(of_ring, message)
        }
        ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(_))
        | ExecutionError::ConnectionPoolError(_)
        | ExecutionError::EmptyPlan => {
            StoreError::Unreachable(format!("no further node could be asked: {error}"))
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
    match error {
        DbError::Unavailable { consistency, required, alive } => StoreError::Unreachable(format!(
            "{alive} copies can be reached where {required} have to answer ({consistency})"
        )),
        DbError::ReadTimeout { consistency, received, required, .. }
        | DbError::WriteTimeout { consistency, received, required, .. }
        | DbError::ReadFailure { consistency, received, required, .. }
        | DbError::WriteFailure { consistency, received, required, .. } => {
            StoreError::Unreachable(format!(
                "{received} copies answered in time where {required} have to ({consistency}): \
                 {message}"
            ))
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

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::statement::Consistency;

    #[test]
    fn a_report_on_missing_copies_is_kept_when_a_later_attempt_fails() {
        let unavailable =
            DbError::Unavailable { consistency: Consistency::Quorum, required: 2, alive: 1 };
        let said = Some(RequestAttemptError::DbError(unavailable, String::new()));
        let failed = FailedRequest { error: ExecutionError::EmptyPlan, said, away: Vec::new() };
        assert!(!failed.is_uncertain(), "nobody wrote anything");
        let StoreError::Unreachable(text) = failed.into() else { panic!("it is a 504") };
        assert!(text.starts_with("1 copies can be reached where 2 have to answer"), "{text}");
        assert!(text.ends_with("; every node that has a copy is reached from here"), "{text}");
    }

    /// Regression: these were reported as if nothing had been done. A write with `If-None-Match`
    /// that was repeated after that met its own entry.
    #[test]
    fn a_transaction_may_have_happened_after_overload_or_missing_copies() {
        let unavailable =
            DbError::Unavailable { consistency: Consistency::Quorum, required: 2, alive: 1 };
        let starting = DbError::IsBootstrapping;
        for (error, is_uncertain) in
            [(unavailable, true), (DbError::Overloaded, true), (starting, false)]
        {
            let error = RequestAttemptError::DbError(error, String::new());
            let error = ExecutionError::LastAttemptError(error);
            let failed = FailedRequest { error, said: None, away: Vec::new() };
            assert_eq!(failed.is_uncertain(), is_uncertain, "{failed:?}");
        }
    }

    #[test]
    fn unreachable_nodes_are_named_only_in_errors_about_missing_copies() {
        let failed = |error: DbError| {
            let error = RequestAttemptError::DbError(error, "of the ring".to_owned());
            let away = ["10.0.0.2", "10.0.0.3"].map(str::to_owned).to_vec();
            let error = ExecutionError::LastAttemptError(error);
            StoreError::from(FailedRequest { error, said: None, away })
        };
        let unavailable =
            DbError::Unavailable { consistency: Consistency::Two, required: 2, alive: 1 };
        let told = "1 copies can be reached where 2 have to answer (Two); not reached from here: \
                    10.0.0.2, 10.0.0.3";
        assert_eq!(failed(unavailable), StoreError::Unreachable(told.to_owned()));
        let busy = failed(DbError::Overloaded);
        assert_eq!(busy, StoreError::Busy("the ring has too much to do: of the ring".to_owned()));
    }
}
