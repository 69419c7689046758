//! The temporary folder of a study's stores; it is removed when the study ends.

use std::path::Path;

use tempfile::TempDir;

use crate::error::StudyError;

/// Makes the folder in `parent`, or in the system's temporary folder.
pub(crate) fn make_folder(parent: Option<&Path>) -> Result<TempDir, StudyError> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("pellucid-study-");
    let made = match parent {
        Some(parent) => folder.tempdir_in(parent),
        None => folder.tempdir(),
    };
    made.map_err(|error| {
        StudyError::Step(format!("cannot make a folder for the store: {error}; see --data"))
    })
}
