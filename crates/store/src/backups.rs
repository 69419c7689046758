//! Backups that a store in this process keeps of itself.

use crate::error::{Result, StoreError};

/// Bytes that the name of a backup may have.
const ID_BYTES_MAX: usize = 128;

/// The name of a backup: letters, digits, `_`, `-` and `.`, the first of them a letter or digit, so
/// that it is the name of a folder and of nothing outside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupId(String);

impl BackupId {
    /// The names there may be, as a regular expression (ECMA-262).
    pub const PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$";

    /// The name in `text`.
    ///
    /// # Errors
    /// [`StoreError::Unacceptable`] if it has no bytes, more than 128, or others than a name may
    /// have.
    ///
    /// ```
    /// # use pellucid_store::BackupId;
    /// assert_eq!(BackupId::parse("2026-11-25_daily")?.as_str(), "2026-11-25_daily");
    /// assert!(BackupId::parse("../other").is_err());
    /// # Ok::<(), pellucid_store::StoreError>(())
    /// ```
    pub fn parse(text: &str) -> Result<BackupId> {
        let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let is_name = text.len() <= ID_BYTES_MAX
            && text.bytes().all(is_in_name)
            && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if is_name {
            return Ok(BackupId(text.to_owned()));
        }
        Err(StoreError::Unacceptable(format!(
            "the name of a backup has 1 to {ID_BYTES_MAX} letters, digits, '_', '-' and '.', and \
             begins with a letter or digit"
        )))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The figures of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFigures {
    /// Its name.
    pub id: BackupId,
    /// When it was made, in milliseconds since the Unix epoch.
    pub made_at_ms: u64,
    /// The last write that it holds; it holds all before it, too.
    pub sequence: u64,
    /// Its files.
    pub files: u64,
    /// Bytes of its files together.
    pub size_bytes: u64,
    /// Bytes of its files that the backup before it does not have.
    pub added_bytes: u64,
}

/// The progress of a backup that is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupProgress {
    /// Its name.
    pub id: BackupId,
    /// Bytes of its files that are there.
    pub done_bytes: u64,
    /// Bytes of all its files; 0 before they are known.
    pub total_bytes: u64,
}

/// Bytes a second that a backup may be bound to at least: below that it might never end.
pub const BACKUP_BYTES_PER_SECOND_MIN: u64 = 1 << 20;

/// The outcome of making a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupOutcome {
    /// It is whole.
    Made(BackupFigures),
    /// There is one of this name, and nothing was done.
    Duplicate,
    /// It was stopped, or removed, and nothing of it is left.
    Ended,
}

/// The copying of a backup, where it has to be copied.
#[derive(Clone, Copy)]
pub struct BackupCopying<'a> {
    /// Bytes a second at most; nothing sets no bound.
    pub bytes_per_second_max: Option<u64>,
    /// Asked now and then: true ends it.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Backups of a store beside its data, made while it serves.
pub trait Backups {
    /// Makes a backup, which holds each write that was acknowledged before the call. Writes wait
    /// for a moment meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while another is made; [`StoreError::Unacceptable`] if the bound is
    /// below [`BACKUP_BYTES_PER_SECOND_MIN`]; otherwise as the medium has it. What was begun is
    /// removed.
    fn create(&self, id: &BackupId, copying: BackupCopying<'_>) -> Result<BackupOutcome>;

    /// The progress of the backup that is being made, if one is.
    fn progress(&self) -> Option<BackupProgress>;

    /// All backups, the oldest first.
    ///
    /// # Errors
    /// If they cannot be read.
    fn list(&self) -> Result<Vec<BackupFigures>>;

    /// Removes a backup, or has one end that is being made; false if there is none of this name.
    ///
    /// # Errors
    /// If it cannot be removed, or another is made at the moment ([`StoreError::Busy`]).
    fn delete(&self, id: &BackupId) -> Result<bool>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_folder() {
        for good in ["a", "7", "2026-11-25T18.00.00Z_x", &"n".repeat(128)] {
            assert_eq!(BackupId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", ".a", "_a", "a/b", "a\\b", "a\0", "é", "a b", &"n".repeat(129)]
        {
            assert!(BackupId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
