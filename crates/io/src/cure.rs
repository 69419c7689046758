//! Remedies for errors of the system, to be shown with them.

use std::io;

/// The remedy for an error about a folder that the user has given, to be appended to the error;
/// empty if none is known.
///
/// ```
/// let error = std::io::Error::from(std::io::ErrorKind::NotADirectory);
/// assert_eq!(pellucid_io::folder_cure(&error), ": a file is in the way; use another folder");
/// ```
#[must_use]
pub fn folder_cure(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": give the folder to the user that runs this program (chown), or use another folder"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            ": the file system is mounted read-only; mount it for writing, or use another folder"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            ": a file is in the way; use another folder"
        }
        _ => "",
    }
}
