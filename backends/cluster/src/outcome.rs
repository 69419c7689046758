//! Outcomes of asks.

use std::fmt;
use std::time::Duration;

use pellucid_clock::Ticks;

use crate::frame::Answer;

/// The outcome of an ask.
pub enum Outcome<'a> {
    /// The owner has answered.
    Answered(Answer<'a>, Times),
    /// It has not.
    Failed(Failure),
}

/// The time at which an ask was made, when the kernel had it, and when its answer was read.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// It was put into the buffer.
    pub asked: Ticks,
    /// The kernel had the last byte of it.
    pub sent: Ticks,
    /// The read that brought the answer returned.
    pub received: Ticks,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The owner is not to be reached: nothing was asked.
    Unreachable {
        /// The owner's URL.
        owner: String,
        /// Why.
        reason: String,
    },
    /// The owner has not answered in time.
    Late {
        /// The owner's URL.
        owner: String,
        /// For how long was waited.
        waited: Duration,
    },
    /// The connection broke before the answer came.
    Lost {
        /// The owner's URL.
        owner: String,
        /// Why.
        reason: String,
    },
    /// Too much is under way with the owner already.
    Full {
        /// The owner's URL.
        owner: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreachable { owner, reason } => {
                write!(f, "the key's owner {owner} cannot be reached: {reason}")
            }
            Failure::Late { owner, waited } => write!(
                f,
                "the key's owner {owner} has not answered within {} ms: a write may have happened",
                waited.as_millis()
            ),
            Failure::Lost { owner, reason } => write!(
                f,
                "the connection to the key's owner {owner} broke: {reason}; a write may have \
                 happened"
            ),
            Failure::Full { owner } => write!(
                f,
                "too many requests wait for the key's owner {owner}: try again in a moment"
            ),
        }
    }
}

/// An ask that was taken, or why not.
pub type Asked = Result<(), Failure>;
