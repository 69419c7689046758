//! The interface of backups that a store in this process makes of itself.

use crate::error::{Result, StoreError};

/// The most bytes of the name of a backup.
const ID_BYTES_MAX: usize = 128;

/// The name of a backup: letters, digits, `_`, `-` and `.`, beginning with a letter or digit. It is
/// always a valid folder name, and never a path to another folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupId(String);

impl BackupId {
    /// The valid names as a regular expression (ECMA-262).
    pub const PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$";

    /// Checks `text` and makes a name of it.
    ///
    /// # Errors
    /// [`StoreError::Unacceptable`] if it is empty, has more than 128 bytes, or has bytes that are
    /// not allowed.
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
    /// The time at which it was made, in milliseconds since the Unix epoch.
    pub made_at_ms: u64,
    /// The sequence number of the last write that it contains. It contains all writes before as
    /// well.
    pub sequence: u64,
    /// The number of its files.
    pub files: u64,
    /// The bytes of its files together.
    pub size_bytes: u64,
    /// The bytes of its files that the previous backup does not have.
    pub added_bytes: u64,
}

/// The progress of a backup that is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupProgress {
    /// Its name.
    pub id: BackupId,
    /// The bytes of its files that are copied.
    pub done_bytes: u64,
    /// The bytes of all its files; 0 before they are known.
    pub total_bytes: u64,
}

/// The least speed limit of a backup, in bytes per second. With a lower one it might never end.
pub const BACKUP_BYTES_PER_SECOND_MIN: u64 = 1 << 20;

/// The outcome of making a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupOutcome {
    /// The backup is complete.
    Made(BackupFigures),
    /// A backup of this name exists, and nothing was done.
    Duplicate,
    /// The backup was stopped or removed, and nothing of it is left.
    Ended,
}

/// Options for files of a backup that have to be copied.
#[derive(Clone, Copy)]
pub struct BackupCopyOptions<'a> {
    /// The speed limit in bytes per second; `None` for no limit.
    pub bytes_per_second_max: Option<u64>,
    /// A check that is called now and then. It ends the backup by returning true.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Online backups of a store, kept beside its data.
pub trait Backups {
    /// Makes a backup, which contains each write that was acknowledged before the call. Writes wait
    /// for a moment meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while another backup is made; [`StoreError::Unacceptable`] if the speed
    /// limit is below [`BACKUP_BYTES_PER_SECOND_MIN`]; errors of the disk. An unfinished backup is
    /// removed.
    fn create(&self, id: &BackupId, copying: BackupCopyOptions<'_>) -> Result<BackupOutcome>;

    /// The progress of the backup that is being made, if one is.
    fn progress(&self) -> Option<BackupProgress>;

    /// All backups, the oldest first.
    ///
    /// # Errors
    /// If they cannot be read.
    fn list(&self) -> Result<Vec<BackupFigures>>;

    /// Removes a backup, or ends one that is being made. Returns false if there is none of this
    /// name.
    ///
    /// # Errors
    /// If it cannot be removed, or another is made at the moment ([`StoreError::Busy`]).
    fn delete(&self, id: &BackupId) -> Result<bool>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_backups_are_checked() {
        for good in ["a", "7", "2026-11-25T18.00.00Z_x", &"n".repeat(128)] {
            assert_eq!(BackupId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", ".a", "_a", "a/b", "a\\b", "a\0", "é", "a b", &"n".repeat(129)]
        {
            assert!(BackupId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
