//! The limits of a query.

use std::time::Duration;

use pellucid_budget::{Budget, Share};

/// The number of warnings that one query keeps, whatever its options say.
pub const WARNINGS_MAX: usize = 10_000;

/// The limits of a query.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// The memory of all queries and requests together.
    pub budget: Budget,
    /// The most of that that it may take, in bytes; 0 is as much as there is.
    pub memory_bytes_max: usize,
    /// The longest time for planning and running it, where both have the same
    /// [`KillSwitch`](crate::KillSwitch); the time in which nobody asks for more of its result does
    /// not count.
    pub runtime_max: Option<Duration>,
    /// The number of warnings that are kept, up to [`WARNINGS_MAX`].
    pub warnings_max: usize,
    /// True if the first warning is an error.
    pub fail_on_warning: bool,
    /// True if rows are counted that the last `LIMIT` leaves out.
    pub full_count: bool,
    /// True if each node of the plan is timed.
    pub profile: bool,
    /// True if it gives up ([`NotLight`](crate::QueryError::NotLight)) once it has read more than a
    /// thread should that must not be held up. For plans that say that they are light.
    pub is_light: bool,
}

impl QueryOptions {
    /// A share of all memory, with the bound of the query.
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
