//! The file of the accounts: `accounts.json` beside the store.
//!
//! It is a file and not a table, so that accounts can be changed whether or not the server runs, by
//! everybody who may write to the store's folder. So there need be no initial password, and no
//! endpoint that must be protected from strangers. A change replaces the whole file; the server
//! notices it within a second.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::Deserialize;

use crate::access::error::AccessError;
use crate::access::modes::check_accounts;
use crate::access::record::{AccountList, VERSION};

const FILE: &str = "accounts.json";
const NEW_FILE: &str = "accounts.json.new";
const LOCK_FILE: &str = "accounts.lock";
/// Maximum length of the file, in bytes. It is less than the limits of accounts would allow
/// together.
const LENGTH_MAX: u64 = 64 << 20;

/// The member that all versions of the file have.
#[derive(Deserialize)]
struct FileVersion {
    version: u32,
}

/// The accounts of a store, on the disk.
#[derive(Clone, Debug)]
pub struct AccountFile {
    folder: PathBuf,
}

/// The stamp of a state of the file, by which changes are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    inode: u64,
    length: u64,
    mode: u32,
    modified: (i64, i64),
}

impl AccountFile {
    /// The accounts of the store in `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> AccountFile {
        AccountFile { folder: folder.to_owned() }
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Reads the accounts; an empty list if there is no file, and no link to one.
    ///
    /// # Errors
    /// If the file cannot be read, others may read it, or its content is invalid.
    pub fn read(&self) -> Result<AccountList, AccessError> {
        let path = self.path();
        let mut options = OpenOptions::new();
        // A pipe must not hold up the start: it is refused below.
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file = match options.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if !path.is_symlink() {
                    return AccountList::empty();
                }
                // The file may only be missing for a while, as a volume that is not mounted.
                let what = "it is a link to a file that does not exist".to_owned();
                return Err(AccessError::Malformed(path, what));
            }
            Err(error) => return Err(AccessError::File(path, error)),
        };
        let metadata = file.metadata().map_err(|error| AccessError::File(path.clone(), error))?;
        if !metadata.is_file() {
            return Err(AccessError::Malformed(path, "it is no regular file".to_owned()));
        }
        check_accounts(&path, metadata.permissions().mode())?;
        let mut text = String::new();
        if metadata.len() > LENGTH_MAX {
            let what = format!("it has more than {LENGTH_MAX} bytes");
            return Err(AccessError::Malformed(path, what));
        }
        let read = file.take(LENGTH_MAX).read_to_string(&mut text);
        read.map_err(|error| AccessError::File(path.clone(), error))?;
        if let Ok(FileVersion { version }) = serde_json::from_str(&text)
            && version > VERSION
        {
            let what = format!("it has version {version}: start a newer release with it");
            return Err(AccessError::Malformed(path, what));
        }
        let list: Result<AccountList, _> = serde_json::from_str(&text);
        // Only the position: serde's message could quote a secret.
        let list = list.map_err(|error| {
            let what = format!("line {}, column {} is malformed", error.line(), error.column());
            AccessError::Malformed(path.clone(), what)
        })?;
        list.check().map_err(|what| AccessError::Malformed(path, what))?;
        Ok(list)
    }

    /// Changes the accounts: either all that `change` does, or nothing. Concurrent changes, also
    /// of other processes, wait for each other.
    ///
    /// # Errors
    /// `change` fails, the file is a link or would be too long, or it cannot be read or written.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut AccountList) -> Result<T, AccessError>,
    ) -> Result<T, AccessError> {
        let lock_path = self.folder.join(LOCK_FILE);
        let lock = private(&lock_path).and_then(|lock| lock.lock().map(|()| lock));
        // Held until the end of this function: closing the file releases the lock.
        let _lock = lock.map_err(|error| AccessError::File(lock_path, error))?;
        if self.path().is_symlink() {
            // The new file would take the place of the link. It is not followed: the owner of the
            // folder could have root change the accounts of another store.
            let path = self.path();
            let what = format!("{} is a link: change the file that it leads to", path.display());
            return Err(AccessError::Unacceptable(what));
        }
        let mut list = self.read()?;
        let outcome = change(&mut list)?;
        let text = serde_json::to_string_pretty(&list).map_err(std::io::Error::from);
        let text = text.map_err(|error| AccessError::File(self.path(), error))? + "\n";
        if text.len() as u64 > LENGTH_MAX {
            let what = format!("the file of the accounts has {LENGTH_MAX} bytes at most");
            return Err(AccessError::Unacceptable(what));
        }
        self.replace(&text).map_err(|error| AccessError::File(self.path(), error))?;
        Ok(outcome)
    }

    /// Replaces the file atomically and durably.
    fn replace(&self, text: &str) -> std::io::Result<()> {
        let new_path = self.folder.join(NEW_FILE);
        let mut file = private(&new_path)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new_path, self.path())?;
        File::open(&self.folder)?.sync_all()
    }

    /// The stamp of the present state of the file; `None` if there is no file.
    pub(crate) fn stamp(&self) -> Option<FileStamp> {
        // A broken link is not as if there were no file.
        let path = self.path();
        let metadata = std::fs::metadata(&path).or_else(|_| std::fs::symlink_metadata(&path));
        let metadata = metadata.ok()?;
        Some(FileStamp {
            inode: metadata.ino(),
            length: metadata.len(),
            mode: metadata.mode(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// Opens a file for writing. If it is new, only its owner can read it.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    // The owner of the folder may have put a link to any file of root there.
    let file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    // If an operator changes accounts as root, the server must be able to read them as the owner
    // of the folder.
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

    /// Regression: root gave the file behind a link to the owner of the link's folder.
    #[test]
    fn a_link_is_not_opened() {
        let folder = TempDir::new().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::write(&target, "of root").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(private(&link).is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"of root");
    }

    /// Regression: a link whose file was missing counted as no accounts, so that the server was
    /// open; and a change took the place of a link.
    #[test]
    fn a_link_is_neither_taken_for_no_accounts_nor_replaced() {
        let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let [file, target] = [&folder, &other].map(|folder| AccountFile::new(folder.path()));
        std::os::unix::fs::symlink(target.path(), file.path()).unwrap();
        let text = file.read().err().unwrap().to_string();
        assert!(text.ends_with("a link to a file that does not exist"), "{text}");
        add(&target, "a").unwrap();
        assert_eq!(file.read().unwrap().accounts().len(), 1);
        let text = add(&file, "b").unwrap_err().to_string();
        assert!(text.contains("is a link"), "{text}");
        assert!(file.path().is_symlink() && target.read().unwrap().accounts().len() == 1);
    }

    /// Regression: a pipe held up the start of a server, past its end signals.
    #[test]
    fn only_a_regular_file_is_read() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        mknodat(CWD, file.path(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let text = file.read().err().unwrap().to_string();
        assert!(text.ends_with("it is no regular file"), "{text}");
        std::fs::remove_file(file.path()).unwrap();
        std::fs::create_dir(file.path()).unwrap();
        let text = file.read().err().unwrap().to_string();
        assert!(text.ends_with("it is no regular file"), "{text}");
    }

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

    /// Regression: a file could be written that was too long to be read, so that no later change
    /// was possible and the server did not start again.
    #[test]
    fn a_change_that_makes_the_file_too_long_is_refused() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        add(&file, "a").unwrap();
        let grown = file.change(|list| {
            // Members of a few bytes take three times as many once the file is indented.
            let numbers = vec![serde_json::Value::from(1); 7_000];
            let extra = serde_json::Map::from_iter([("x".to_owned(), numbers.into())]);
            (0..1_000).try_for_each(|number| {
                let mut account = AccountRecord::new(&format!("b{number}"))?;
                account.set_extra(extra.clone())?;
                list.add(account)
            })
        });
        assert!(grown.unwrap_err().to_string().contains("67108864 bytes at most"));
        assert_eq!(file.read().unwrap().accounts().len(), 1);
        add(&file, "c").unwrap();
        private(&file.path()).unwrap().set_len(LENGTH_MAX + 1).unwrap();
        let text = file.read().err().unwrap().to_string();
        assert!(text.ends_with("it has more than 67108864 bytes"), "{text}");
    }

    fn write(file: &AccountFile, text: &str) {
        let mut file = private(&file.path()).unwrap();
        file.set_len(0).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Regression: a file of a later version was reported as malformed.
    #[test]
    fn a_later_version_is_named() {
        let folder = TempDir::new().unwrap();
        let file = AccountFile::new(folder.path());
        write(&file, "{\"version\":9,\"people\":{}}");
        let text = file.read().err().unwrap().to_string();
        assert!(text.ends_with("it has version 9: start a newer release with it"), "{text}");
    }

    /// Regression: if root added the first account, the server of the folder's owner could not read
    /// the file.
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
    fn concurrent_changes_are_all_kept() {
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
    fn the_error_of_a_damaged_file_quotes_nothing_of_it() {
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
