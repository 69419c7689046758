//! Modes of files with secrets: others on the machine must not read them.
//!
//! The accounts' file is the server's own, made for its owner alone: where others may read it,
//! somebody copied it, and the server does not start. Files that an operator gives are warned of,
//! and used: containers mount secrets with modes that nobody within can change (0444), into a file
//! system that nobody else sees.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::access::error::AccessError;
use crate::log::Log;

/// Bits by which the group, or others, write to a file.
const WRITTEN_BY_OTHERS: u32 = 0o022;
/// Bits by which others than the owner and the group read a file.
const READ_BY_OTHERS: u32 = 0o004;

fn mode_of(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777)
}

/// Checks that only the owner may read and write the file of the accounts, by the mode that it was
/// opened with.
///
/// # Errors
/// If others may read or write it; what to do about it.
pub(super) fn check_accounts(path: &Path, mode: u32) -> Result<(), AccessError> {
    match mode & 0o777 {
        mode if mode & 0o077 == 0 => Ok(()),
        mode => Err(AccessError::Unacceptable(format!(
            "the accounts in {} can be read or changed by others (mode {mode:04o}): chmod 600 {}",
            path.display(),
            path.display()
        ))),
    }
}

/// Warns of files with secrets that others read or write.
pub(crate) fn warn_of(secrets: &[PathBuf], log: &Log) {
    for path in secrets {
        if let Some(mode) = mode_of(path).filter(|m| m & (WRITTEN_BY_OTHERS | READ_BY_OTHERS) != 0)
        {
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
    use std::sync::{Arc, PoisonError};

    use pellucid_thread::Mutex;
    use tempfile::TempDir;

    use super::*;
    use crate::access::file::AccountFile;

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Nobody looked at them.
    #[test]
    fn accounts_that_others_read_are_refused_with_the_cure() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        assert!(file.read().is_ok(), "there are none");
        let path = file.path();
        std::fs::write(&path, "{}").unwrap();
        for (mode, is_right) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            set(&path, mode);
            // This content is none, which is told of a file that only its owner reads.
            let told = file.read().err().unwrap().to_string();
            assert_eq!(told.contains("chmod 600"), !is_right, "{mode:o}: {told}");
        }
    }

    #[test]
    fn secrets_that_others_read_are_warned_of() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "secret").unwrap();
        for (mode, is_warned) in [(0o600, false), (0o640, false), (0o644, true), (0o620, true)] {
            set(&path, mode);
            let lines = Arc::new(Mutex::new(Vec::new()));
            let kept = Arc::clone(&lines);
            let log = Log::new(move |line: &str| {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
            });
            warn_of(&[path.clone(), folder.path().join("none")], &log);
            let lines = lines.lock().unwrap();
            assert_eq!(lines.iter().any(|line| line.contains("chmod 600")), is_warned, "{mode:o}");
        }
    }
}
