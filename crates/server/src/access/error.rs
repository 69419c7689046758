//! Errors of accounts.

use std::fmt;
use std::path::PathBuf;

use pellucid_io::folder_cure;

/// An error of reading or changing accounts. Its text contains no secret.
#[derive(Debug)]
pub enum AccessError {
    /// The file of the accounts could not be read or written.
    File(PathBuf, std::io::Error),
    /// The content of the file of the accounts is invalid.
    Malformed(PathBuf, String),
    /// Others than its owner may use the file of the accounts, by this mode.
    Exposed(PathBuf, u32),
    /// The system provides no random bytes.
    Randomness(String),
    /// This cannot be the name of an account.
    BadName(String),
    /// There is no account with this name.
    Missing(String),
    /// There is an account with this name already.
    Exists(String),
    /// Another invalid request; the text says what is valid.
    Unacceptable(String),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessError::File(path, error) => {
                let cure = folder_cure(error);
                write!(f, "the accounts in {} cannot be used: {error}{cure}", path.display())
            }
            AccessError::Malformed(path, what) => {
                write!(f, "the accounts in {} cannot be used: {what}", path.display())
            }
            AccessError::Exposed(path, mode) => write!(
                f,
                "the accounts in {} can be read or changed by others (mode {mode:04o}): chmod 600 \
                 {}",
                path.display(),
                path.display()
            ),
            AccessError::Randomness(error) => {
                write!(f, "the system provides no random bytes: {error}")
            }
            AccessError::BadName(name) => write!(
                f,
                "`{}` cannot be the name of an account: it has 1 to 128 bytes, none of them a \
                 colon, a slash or a control character",
                name.escape_debug()
            ),
            AccessError::Missing(name) => write!(f, "there is no account `{name}`"),
            AccessError::Exists(name) => write!(f, "there is an account `{name}` already"),
            AccessError::Unacceptable(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for AccessError {}
