//! The folder in which a study has its stores; it goes when the study is over.

use std::path::Path;

use tempfile::TempDir;

use crate::error::StudyError;

/// Makes the folder in `parent`, or where the system has its temporary ones.
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
