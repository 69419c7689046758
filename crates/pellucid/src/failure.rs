//! Failures of commands: their words, and the exit codes that scripts rely on.

/// The exit code of work that failed.
const WORK_CODE: u8 = 1;
/// The exit code of wrong usage.
const USAGE_CODE: u8 = 2;
/// The exit code of a server that stopped and left threads behind.
const STUCK_CODE: u8 = 3;
/// The exit code of a read of an entry that is not there.
const MISSING_CODE: u8 = 4;
/// The exit code of a write whose condition did not hold.
const CONDITION_CODE: u8 = 5;

/// The reason why a command ends without having done its work, in words for its caller.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    code: u8,
}

impl Failure {
    /// The work failed.
    pub(crate) fn work(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: WORK_CODE }
    }

    /// The command was called in a way that cannot be meant.
    pub(crate) fn usage(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: USAGE_CODE }
    }

    /// The server has stopped, and left threads behind that did not end in time.
    pub(crate) fn stuck(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: STUCK_CODE }
    }

    /// There is no such entry.
    pub(crate) fn missing(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: MISSING_CODE }
    }

    /// The condition of a write did not hold.
    pub(crate) fn condition(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: CONDITION_CODE }
    }

    /// The same failure, with where it occurred before its words.
    #[cfg(feature = "laboratory")]
    pub(crate) fn at(self, place: &str) -> Failure {
        Failure { text: format!("{place}: {}", self.text), ..self }
    }

    /// Nothing if all went well; otherwise all that did not, with the code of the first.
    #[cfg(feature = "laboratory")]
    pub(crate) fn all(
        outcomes: impl IntoIterator<Item = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let mut failures = outcomes.into_iter().filter_map(Result::err);
        let Some(first) = failures.next() else { return Ok(()) };
        let others = failures.map(|failure| format!("; {}", failure.text));
        Err(Failure { text: first.text + &others.collect::<String>(), code: first.code })
    }

    /// The exit code of the process.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}
