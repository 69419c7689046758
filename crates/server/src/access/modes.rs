//! Checks the modes of files with secrets: other users of the machine must not read them.
//!
//! The server creates the file of the accounts with mode 0600. If the group or others have any
//! permission, the mode was changed, or the file was copied without it, and the server does not
//! start. Files that the operator provides only
//! cause a log line: containers mount secrets with a mode that cannot be changed inside (0444),
//! into a file system that no other user sees.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::access::error::AccessError;
use crate::log::Log;

/// The mode bits that let the group or others write to a file.
const WRITABLE_BY_GROUP_OR_OTHERS: u32 = 0o022;
/// The mode bit that lets users outside the group read a file.
const READABLE_BY_OTHERS: u32 = 0o004;

fn mode_of(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777)
}

/// Checks by its mode that only the owner may read and write the file of the accounts.
///
/// # Errors
/// If others may read or write it; the text names the remedy.
pub(super) fn check_accounts(path: &Path, mode: u32) -> Result<(), AccessError> {
    match mode & 0o777 {
        mode if mode & 0o077 == 0 => Ok(()),
        mode => Err(AccessError::Exposed(path.to_owned(), mode)),
    }
}

/// Logs an error for each file with a secret that users outside its group may read, or that others
/// than its owner may write. The group may read: the server may belong to it.
pub(crate) fn warn_of(secrets: &[PathBuf], log: &Log) {
    for path in secrets {
        const EXPOSED: u32 = WRITABLE_BY_GROUP_OR_OTHERS | READABLE_BY_OTHERS;
        if let Some(mode) = mode_of(path).filter(|mode| mode & EXPOSED != 0) {
            log.error(&format!(
                "the secret in {} can be read or changed by others (mode {mode:04o}): chmod 600 \
                 {}, or 640 with the group of the server",
                path.display(),
                path.display()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::access::file::AccountFile;

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Regression: the mode of the file was not checked.
    #[test]
    fn accounts_that_others_can_read_are_refused_with_the_remedy() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        assert!(file.read().is_ok(), "there are none");
        let path = file.path();
        std::fs::write(&path, "{}").unwrap();
        for (mode, is_right) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            set(&path, mode);
            // The content is invalid, so that a file with the right mode fails, too, with another
            // error.
            let told = file.read().err().unwrap().to_string();
            assert_eq!(told.contains("chmod 600"), !is_right, "{mode:o}: {told}");
        }
    }

    #[test]
    fn secrets_that_others_can_read_are_logged() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "secret").unwrap();
        for (mode, is_warned) in [(0o600, false), (0o640, false), (0o644, true), (0o620, true)] {
            set(&path, mode);
            let (log, lines) = Log::kept();
            warn_of(&[path.clone(), folder.path().join("none")], &log);
            let lines = lines.lock();
            assert_eq!(lines.iter().any(|line| line.contains("chmod 600")), is_warned, "{mode:o}");
        }
    }
}
