//! Failures of commands: their words, and the exit codes that scripts rely on.

/// The reason why a command ends without having done its work, in words for its caller.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    /// The exit code of the process.
    pub(crate) code: u8,
}

/// An error that nobody says more of is one of the work.
impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::work(error)
    }
}

impl Failure {
    /// The work failed: exit code 1.
    pub(crate) fn work(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 1 }
    }

    /// The command was called in a way that cannot be meant: 2.
    pub(crate) fn usage(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 2 }
    }

    /// The server has stopped, and left threads behind that did not end in time: 3.
    pub(crate) fn stuck(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 3 }
    }

    /// There is no such entry: 4.
    pub(crate) fn missing(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 4 }
    }

    /// The condition of a write did not hold: 5.
    pub(crate) fn condition(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 5 }
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
}
