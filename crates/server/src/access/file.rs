//! The file of the accounts: `accounts.json` beside the store.
//!
//! It is a file of its own, and not a table, so that accounts can be changed with the server
//! running or not, by whoever may write the store's folder anyway: no first password has to exist
//! for that, and no endpoint has to be kept from strangers. A change replaces the file as a whole;
//! the server notices within a second.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::access::error::AccessError;
use crate::access::modes::check_accounts;
use crate::access::record::{AccountList, VERSION};

const FILE: &str = "accounts.json";
const NEW_FILE: &str = "accounts.json.new";
const LOCK_FILE: &str = "accounts.lock";
/// Bytes that the file may have.
const LENGTH_MAX: u64 = 64 << 20;

/// What every version of the file says.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// The accounts of a store, on the disk.
#[derive(Clone, Debug)]
pub struct AccountFile {
    folder: PathBuf,
}

/// The mark of one state of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl AccountFile {
    /// The accounts of the store in `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> AccountFile {
        AccountFile { folder: folder.to_owned() }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// The accounts; none where there is no file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not what it has to be.
    pub fn read(&self) -> Result<AccountList, AccessError> {
        let path = self.path();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return AccountList::empty(),
            Err(error) => return Err(AccessError::File(path, error)),
        };
        let metadata = file.metadata().map_err(|error| AccessError::File(path.clone(), error))?;
        check_accounts(&path, metadata.permissions().mode())?;
        let mut text = String::new();
        let read = file.take(LENGTH_MAX).read_to_string(&mut text);
        read.map_err(|error| AccessError::File(path.clone(), error))?;
        if let Ok(Versioned { version }) = serde_json::from_str(&text)
            && version > VERSION
        {
            let what = format!("it has version {version}: start a newer release with it");
            return Err(AccessError::Malformed(path, what));
        }
        let list: Result<AccountList, _> = serde_json::from_str(&text);
        // Only the place: the reason could quote what stands there.
        let list = list.map_err(|error| {
            let what = format!("line {}, column {} is malformed", error.line(), error.column());
            AccessError::Malformed(path.clone(), what)
        })?;
        list.check().map_err(|what| AccessError::Malformed(path, what))?;
        Ok(list)
    }

    /// Changes the accounts: all of what `change` does, or nothing. Others who change them wait.
    ///
    /// # Errors
    /// If `change` fails, or if the file cannot be read or written.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut AccountList) -> Result<T, AccessError>,
    ) -> Result<T, AccessError> {
        let lock_path = self.folder.join(LOCK_FILE);
        let lock = private(&lock_path).and_then(|lock| lock.lock().map(|()| lock));
        // Held until the end: closing the file gives the lock back.
        let _lock = lock.map_err(|error| AccessError::File(lock_path, error))?;
        let mut list = self.read()?;
        let outcome = change(&mut list)?;
        self.replace(&list).map_err(|error| AccessError::File(self.path(), error))?;
        Ok(outcome)
    }

    fn replace(&self, list: &AccountList) -> std::io::Result<()> {
        let new_path = self.folder.join(NEW_FILE);
        let mut file = private(&new_path)?;
        file.set_len(0)?;
        file.write_all(serde_json::to_string_pretty(list)?.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&new_path, self.path())?;
        File::open(&self.folder)?.sync_all()
    }

    /// The state of the file, to be compared with a later one; nothing where there is none.
    pub(crate) fn stamp(&self) -> Option<FileStamp> {
        let metadata = std::fs::metadata(self.path()).ok()?;
        Some(FileStamp {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// Opens a file for writing that only its owner can read.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    // An operator changes accounts as root, and the server reads them as the folder's owner.
    if let Some(folder) = path.parent().map(std::fs::metadata).transpose()?
        && file.metadata()?.uid() != folder.uid()
    {
        match fchown(&file, Some(folder.uid()), Some(folder.gid())) {
            Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;
    use crate::access::record::AccountRecord;

    fn add(file: &AccountFile, name: &str) -> Result<(), AccessError> {
        file.change(|list| list.add(AccountRecord::new(name)?))
    }

    #[test]
    fn changes_are_kept_and_only_the_owner_reads_them() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        assert!(file.read().unwrap().accounts().is_empty() && file.stamp().is_none());
        add(&file, "a").unwrap();
        let before = file.stamp();
        add(&file, "b").unwrap();
        assert_ne!(before, file.stamp());
        let list = file.read().unwrap();
        assert_eq!(list.accounts().len(), 2);
        assert_eq!(list.jwt_secret, file.read().unwrap().jwt_secret, "the secret stays");
        let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_change_that_is_refused_changes_nothing() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        add(&file, "a").unwrap();
        let before = file.stamp();
        assert!(add(&file, "a").is_err());
        assert_eq!(file.stamp(), before);
    }

    fn write(file: &AccountFile, text: &str) {
        let mut file = private(&file.path()).unwrap();
        file.set_len(0).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// A later version was called malformed, at the place of its first new word.
    #[test]
    fn a_later_version_is_named() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        write(&file, "{\"version\":9,\"people\":{}}");
        let text = file.read().err().unwrap().to_string();
        assert!(text.ends_with("it has version 9: start a newer release with it"), "{text}");
    }

    /// Root added the first account, and the server of the folder's owner could not read the file.
    #[test]
    fn the_owner_of_the_folder_owns_the_accounts() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        // Only root can give folders away.
        let _ = std::os::unix::fs::chown(folder.path(), Some(4_321), Some(4_321));
        add(&file, "a").unwrap();
        let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
        for name in [FILE, LOCK_FILE] {
            assert_eq!(owner(&folder.path().join(name)), owner(folder.path()), "{name}");
        }
    }

    #[test]
    fn many_can_change_them_at_a_time() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let file = &file;
                scope.spawn(move || add(file, name).unwrap());
            }
        });
        assert_eq!(file.read().unwrap().accounts().len(), 4);
    }

    #[test]
    fn a_file_that_is_damaged_is_an_error_that_quotes_nothing_of_it() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        for text in ["", "{", "{\"version\":1,\"secret\":\"hunter2\"}", "[]"] {
            write(&file, text);
            let error = file.read().err().unwrap().to_string();
            assert!(error.contains("accounts.json") && error.contains("line"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
