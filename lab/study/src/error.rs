//! Why a study could not be done.

use std::fmt;
use std::path::Path;

/// Why a study ended without its report.
#[derive(Debug)]
pub enum StudyError {
    /// The options do not fit together; the text says what would.
    Options(String),
    /// A step failed; the text says which and why.
    Step(String),
}

impl StudyError {
    /// A step that failed for this reason.
    pub(crate) fn step(error: impl fmt::Display) -> StudyError {
        StudyError::Step(error.to_string())
    }

    /// A failure of the file system.
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
