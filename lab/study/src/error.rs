//! The error of a study.

use std::fmt;
use std::path::Path;

/// The reason that a study ended without a report.
#[derive(Debug)]
pub enum StudyError {
    /// The options are invalid; the text tells what is allowed.
    Options(String),
    /// A step failed; the text names the step and the reason.
    Step(String),
}

impl StudyError {
    /// The error of a failed step, with this reason.
    pub(crate) fn step(error: impl fmt::Display) -> StudyError {
        StudyError::Step(error.to_string())
    }

    /// The error of a file operation. `what` is a verb, such as `read`.
    pub(crate) fn file(what: &str, path: &Path, error: impl fmt::Display) -> StudyError {
        StudyError::Step(format!("cannot {what} {}: {error}", path.display()))
    }
}

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StudyError::Options(text) | StudyError::Step(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for StudyError {}
