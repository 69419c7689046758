//! Outcomes of asks: answers and failures.

use std::fmt;
use std::time::Duration;

use pellucid_clock::Ticks;

use crate::frame::Answer;

/// The outcome of an ask.
pub enum Outcome<'a> {
    /// The owner has answered, at these times.
    Answered(Answer<'a>, AskTimes),
    /// There is no answer.
    Failed(Failure),
}

/// The times of an ask at the asking node.
#[derive(Clone, Copy, Debug)]
pub struct AskTimes {
    /// The time at which the ask was put into the buffer.
    pub asked: Ticks,
    /// The time at which the kernel had its last byte.
    pub sent: Ticks,
    /// The time at which the read that completed the answer returned.
    pub received: Ticks,
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The owner is unreachable, and cannot have received all of the ask.
    Unreachable {
        /// The owner's URL.
        owner: String,
        /// The reason.
        reason: String,
    },
    /// The owner has not answered in time.
    Late {
        /// The owner's URL.
        owner: String,
        /// The limit of the wait.
        waited: Duration,
    },
    /// The connection broke before the answer came.
    Lost {
        /// The owner's URL.
        owner: String,
        /// The reason.
        reason: String,
    },
    /// Too many asks to the owner are in flight already.
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
                "the key's owner {owner} has not answered within {} ms; if this was a write, it \
                 may have happened",
                waited.as_millis()
            ),
            Failure::Lost { owner, reason } => write!(
                f,
                "the connection to the key's owner {owner} broke: {reason}; if this was a write, \
                 it may have happened"
            ),
            Failure::Full { owner } => write!(
                f,
                "too many requests wait for the key's owner {owner}: try again in a moment"
            ),
        }
    }
}

/// The result of making an ask: accepted, or the reason why not.
pub type SendResult = Result<(), Failure>;
