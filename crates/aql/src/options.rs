//! The limits of a query.

use std::time::Duration;

use pellucid_budget::{Budget, Share};

/// The most warnings of one query, whatever its options say.
pub const WARNINGS_MAX: usize = 10_000;

/// The limits of a query.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// The memory of all queries and requests together.
    pub budget: Budget,
    /// The most bytes of the budget that the query may take; 0 for no limit of its own.
    pub memory_bytes_max: usize,
    /// The longest time for planning and running the query. Planning counts only if it uses the
    /// same [`KillSwitch`](crate::KillSwitch). The time between two calls for more of the result
    /// does not count.
    pub runtime_max: Option<Duration>,
    /// The most warnings that are kept, up to [`WARNINGS_MAX`].
    pub warnings_max: usize,
    /// True if the first warning ends the query as an error.
    pub fail_on_warning: bool,
    /// True if the rows that the last `LIMIT` leaves out are counted.
    pub full_count: bool,
    /// True if each node of the plan is timed.
    pub profile: bool,
    /// True if the query fails with [`NotLight`](crate::QueryError::NotLight) once it has read more
    /// than a thread that must not block should read. It is for light plans
    /// ([`Plan::is_light`](crate::Plan::is_light)).
    pub is_light: bool,
}

impl QueryOptions {
    /// A share of the budget, with the limit of the query.
    pub(crate) fn share(&self) -> Share {
        self.budget.share(match self.memory_bytes_max {
            0 => usize::MAX,
            most => most,
        })
    }
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self {
            budget: Budget::unbounded(),
            memory_bytes_max: 0,
            runtime_max: None,
            warnings_max: 10,
            fail_on_warning: false,
            full_count: false,
            profile: false,
            is_light: false,
        }
    }
}
