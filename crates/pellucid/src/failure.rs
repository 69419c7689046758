//! Failures of commands: their messages, and the exit codes that scripts rely on.

/// The failure of a command: a message for the user, and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    /// The exit code of the process.
    pub(crate) code: u8,
}

/// Any error becomes a failure of the work, with exit code 1.
impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::work(error)
    }
}

impl Failure {
    /// The work failed. Exit code 1.
    pub(crate) fn work(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 1 }
    }

    /// The arguments or settings are invalid. Exit code 2.
    pub(crate) fn usage(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 2 }
    }

    /// The server has stopped, but some of its threads did not end in time. Exit code 3.
    pub(crate) fn stuck(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 3 }
    }

    /// The entry does not exist. Exit code 4.
    pub(crate) fn missing(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 4 }
    }

    /// The condition of a write did not hold. Exit code 5.
    pub(crate) fn condition(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), code: 5 }
    }

    /// The same failure, with the place where it occurred before its message.
    #[cfg(feature = "laboratory")]
    pub(crate) fn at(self, place: &str) -> Failure {
        Failure { text: format!("{place}: {}", self.text), ..self }
    }

    /// Combines outcomes. If some failed, the result is one failure with all messages and the exit
    /// code of the first.
    pub(crate) fn all(
        outcomes: impl IntoIterator<Item = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let mut failures = outcomes.into_iter().filter_map(Result::err);
        let Some(first) = failures.next() else { return Ok(()) };
        let others = failures.map(|failure| format!("; {}", failure.text));
        Err(Failure { text: first.text + &others.collect::<String>(), code: first.code })
    }
}
