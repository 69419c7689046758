//! Conversion of the driver's errors to those of the store.

use pellucid_store::StoreError;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

/// A request to the ring that failed.
#[derive(Debug)]
pub(crate) struct FailedRequest {
    /// The error of the last attempt.
    pub(crate) error: ExecutionError,
    /// The most telling error of the attempts before the last one that a node may have executed.
    pub(crate) earlier: Option<RequestAttemptError>,
    /// True if the request only reads.
    pub(crate) is_read: bool,
    /// The addresses of nodes without a connection: those with copies of the partition, or all if
    /// the partition is not known.
    pub(crate) unconnected: Vec<String>,
}

impl From<FailedRequest> for StoreError {
    fn from(failed: FailedRequest) -> StoreError {
        let is_last_open = failed.is_uncertain();
        let FailedRequest { error, earlier, is_read, unconnected } = failed;
        let last = error_of(&error);
        let earlier = earlier.map(|earlier| error_of_attempt(&earlier).to_string());
        let earlier = earlier.filter(|earlier| *earlier != last.to_string());
        // A read has no effect, so its last error is as good as any.
        let is_write_open =
            !is_read && (earlier.is_some() || is_last_open && matches!(last, StoreError::Busy(_)));
        if !is_write_open && !matches!(last, StoreError::Unreachable(_)) {
            return last;
        }
        let before = earlier.map_or_else(String::new, |earlier| format!("{earlier}; then "));
        let unconnected = match &unconnected[..] {
            [] => "all nodes with a copy are connected".to_owned(),
            nodes => format!("not connected: {}", nodes.join(", ")),
        };
        StoreError::Unreachable(format!("{before}{last}; {unconnected}"))
    }
}

impl FailedRequest {
    /// True if no node has answered, so that one may still execute the request.
    pub(crate) fn may_still_execute(&self) -> bool {
        matches!(
            &self.error,
            ExecutionError::RequestTimeout(_)
                | ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(_))
        )
    }

    /// True if the outcome of a transaction is unknown. An error of its reads leaves it as open as
    /// an error of its writes: the coordinator may have made an earlier attempt by itself. A
    /// coordinator may also report overload or missing copies after a majority has accepted the
    /// transaction.
    pub(crate) fn is_uncertain(&self) -> bool {
        match &self.error {
            ExecutionError::RequestTimeout(_) => true,
            ExecutionError::LastAttemptError(error) => may_have_executed(error),
            // No node was asked.
            _ => false,
        }
    }
}

/// False if the failed attempt certainly had no effect: it was not sent, or refused before any node
/// executed it.
pub(crate) fn may_have_executed(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::UnableToAllocStreamId
        | RequestAttemptError::RepreparedIdChanged { .. }
        | RequestAttemptError::RepreparedIdMissingInBatch => false,
        // `Other` includes Cassandra's CAS_WRITE_UNKNOWN, which the driver does not know.
        RequestAttemptError::DbError(error, _) => !matches!(
            error,
            DbError::SyntaxError
                | DbError::Invalid
                | DbError::AlreadyExists { .. }
                | DbError::AuthenticationError
                | DbError::Unauthorized
                | DbError::ConfigError
                | DbError::IsBootstrapping
                | DbError::Unprepared { .. }
                | DbError::ProtocolError
                | DbError::RateLimitReached { rejected_by_coordinator: true, .. }
        ),
        _ => true,
    }
}

/// The store's error for an error of the driver.
pub(crate) fn error_of(error: &ExecutionError) -> StoreError {
    match error {
        ExecutionError::LastAttemptError(error) => error_of_attempt(error),
        ExecutionError::ConnectionPoolError(_) | ExecutionError::EmptyPlan => {
            StoreError::Unreachable(format!("no connection to a node: {error}"))
        }
        ExecutionError::RequestTimeout(after) => {
            StoreError::Unreachable(format!("the ring did not answer within {after:?}"))
        }
        _ => StoreError::Failed(format!("the ring failed: {error}")),
    }
}

fn error_of_attempt(error: &RequestAttemptError) -> StoreError {
    match error {
        RequestAttemptError::DbError(error, message) => error_of_ring(error, message),
        RequestAttemptError::BrokenConnectionError(error) => StoreError::Unreachable(format!(
            "the connection to a node broke before its answer: {error}"
        )),
        RequestAttemptError::UnableToAllocStreamId => StoreError::Busy(
            "too many requests are on their way to the ring: try again in a moment".to_owned(),
        ),
        _ => StoreError::Failed(format!("the ring failed: {error}")),
    }
}

fn error_of_ring(error: &DbError, message: &str) -> StoreError {
    match error {
        DbError::Unavailable { consistency, required, alive } => StoreError::Unreachable(format!(
            "{alive} of {required} needed copies can be reached ({consistency})"
        )),
        DbError::ReadTimeout { consistency, received, required, .. }
        | DbError::WriteTimeout { consistency, received, required, .. } => {
            StoreError::Unreachable(format!(
                "{received} of {required} needed copies answered in time ({consistency}): {message}"
            ))
        }
        DbError::ReadFailure { consistency, received, required, numfailures, .. }
        | DbError::WriteFailure { consistency, received, required, numfailures, .. } => {
            StoreError::Unreachable(format!(
                "{received} of {required} needed copies answered, {numfailures} failed \
                 ({consistency}): {message}"
            ))
        }
        DbError::Overloaded => StoreError::Busy(format!("the ring has too much to do: {message}")),
        DbError::RateLimitReached { .. } => StoreError::Busy(format!(
            "the ring limits the rate of this partition: try again in a moment ({message})"
        )),
        DbError::IsBootstrapping => StoreError::Unreachable(
            "the node that was asked is still starting: try again in a moment".to_owned(),
        ),
        DbError::Invalid => {
            StoreError::Unacceptable(format!("the ring refuses the request: {message}"))
        }
        _ => StoreError::Failed(format!("the ring failed: {error} ({message})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::statement::Consistency;

    fn of_ring(error: DbError) -> RequestAttemptError {
        RequestAttemptError::DbError(error, "of the ring".to_owned())
    }

    fn unavailable() -> DbError {
        DbError::Unavailable { consistency: Consistency::Quorum, required: 2, alive: 1 }
    }

    fn failed(last: RequestAttemptError, earlier: Option<RequestAttemptError>) -> FailedRequest {
        let unconnected = ["10.0.0.2", "10.0.0.3"].map(str::to_owned).to_vec();
        let error = ExecutionError::LastAttemptError(last);
        FailedRequest { error, earlier, is_read: false, unconnected }
    }

    fn limited(rejected_by_coordinator: bool) -> RequestAttemptError {
        let op_type = scylla::errors::OperationType::Write;
        of_ring(DbError::RateLimitReached { op_type, rejected_by_coordinator })
    }

    /// Regression: a write whose first attempt had reached copies, and whose last one met a full
    /// connection, was answered as one that certainly had not happened.
    #[test]
    fn a_write_that_an_earlier_attempt_may_have_made_has_an_unknown_outcome() {
        let timeout = || DbError::WriteTimeout {
            consistency: Consistency::Quorum,
            received: 1,
            required: 2,
            write_type: scylla::errors::WriteType::Simple,
        };
        for last in [
            RequestAttemptError::UnableToAllocStreamId,
            of_ring(DbError::IsBootstrapping),
            of_ring(DbError::Invalid),
            of_ring(DbError::ServerError),
        ] {
            let error = StoreError::from(failed(last, Some(of_ring(timeout()))));
            let StoreError::Unreachable(text) = error else { panic!("{error:?}") };
            assert!(text.starts_with("1 of 2 needed copies answered in time (Quorum)"), "{text}");
            assert!(text.contains("; then "), "{text}");
        }
    }

    #[test]
    fn only_a_request_without_effect_is_busy() {
        let overloaded = || of_ring(DbError::Overloaded);
        for (error, is_read, is_busy) in [
            (RequestAttemptError::UnableToAllocStreamId, false, true),
            (overloaded(), false, false),
            (overloaded(), true, true),
            (limited(true), false, true),
            (limited(false), false, false),
            (limited(false), true, true),
        ] {
            let error = StoreError::from(FailedRequest { is_read, ..failed(error, None) });
            assert_eq!(matches!(error, StoreError::Busy(_)), is_busy, "{error:?}");
            assert_eq!(matches!(error, StoreError::Unreachable(_)), !is_busy, "{error:?}");
        }
    }

    #[test]
    fn an_error_of_all_attempts_is_in_the_text_once() {
        let text = "1 of 2 needed copies can be reached (Quorum); not connected: 10.0.0.2, \
                    10.0.0.3";
        for earlier in [None, Some(of_ring(unavailable()))] {
            let error = StoreError::from(failed(of_ring(unavailable()), earlier));
            assert_eq!(error, StoreError::Unreachable(text.to_owned()));
        }
    }

    /// Regression: these were reported as if nothing had been done. A write with `If-None-Match`
    /// that was repeated after that met its own entry. Later the same held for answers that could
    /// not be parsed.
    #[test]
    fn a_transaction_may_have_happened_unless_its_error_excludes_it() {
        use scylla::errors::CqlResponseKind;
        for (error, is_uncertain) in [
            (of_ring(unavailable()), true),
            (of_ring(DbError::Overloaded), true),
            (of_ring(DbError::Other(0x1700)), true),
            (RequestAttemptError::UnexpectedResponse(CqlResponseKind::Event), true),
            (RequestAttemptError::NonfinishedPagingState, true),
            (of_ring(DbError::IsBootstrapping), false),
            (of_ring(DbError::Invalid), false),
            (limited(true), false),
            (limited(false), true),
            (RequestAttemptError::UnableToAllocStreamId, false),
        ] {
            let failed = failed(error, None);
            assert_eq!(failed.is_uncertain(), is_uncertain, "{failed:?}");
        }
        let error = ExecutionError::EmptyPlan;
        let unsent =
            FailedRequest { error, earlier: None, is_read: false, unconnected: Vec::new() };
        assert!(!unsent.is_uncertain());
        let StoreError::Unreachable(text) = unsent.into() else { panic!("a copy is missing") };
        assert!(text.ends_with("; all nodes with a copy are connected"), "{text}");
    }
}
