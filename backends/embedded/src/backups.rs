//! Backups beside the data: one folder for each backup, in the folder `backups` of the store.
//!
//! A backup is made in a folder with a temporary name, and renamed when it is complete. So a folder
//! with the name of a backup is a complete backup, also after a crash.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pellucid_clock::Clock;
use pellucid_engine::{CopyOptions, CopyProgress, Engine, Error};
use pellucid_store::{
    BACKUP_BYTES_PER_SECOND_MIN, BackupCopyOptions, BackupFigures, BackupId, BackupOutcome,
    BackupProgress, Backups, Result, StoreError,
};
use pellucid_thread::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::convert::failure;

/// Limit of the number of backups.
const BACKUPS_MAX: usize = 1_000;

/// The folder of all backups within the store's folder.
const FOLDER: &str = "backups";
/// The folder of a backup that is being made. No name of a backup begins with a dot.
const MAKING: &str = ".making";
/// The folder of a backup that is being removed.
const REMOVING: &str = ".removing";
/// The JSON file with the figures of a backup, in the backup's folder.
const FIGURES: &str = "backup.json";

/// The backups of one store.
pub(crate) struct BackupFolder {
    engine: Engine,
    folder: PathBuf,
    clock: Clock,
    /// Held while a backup is made or removed.
    turn: Mutex<()>,
    /// The backup that is being made, if there is one.
    making: Mutex<Option<RunningBackup>>,
}

/// A backup that is being made.
struct RunningBackup {
    progress: BackupProgress,
    /// True once the backup was deleted while it is being made.
    is_removed: bool,
}

impl BackupFolder {
    /// The backups of the store that `engine` has open in `directory`.
    pub(crate) fn of(engine: Engine, directory: &Path, clock: Clock) -> BackupFolder {
        let folder = directory.join(FOLDER);
        BackupFolder { engine, folder, clock, turn: Mutex::default(), making: Mutex::default() }
    }

    /// Makes a backup in `target` with the engine. Returns the sequence number of the last write in
    /// the backup.
    fn copy(
        &self,
        target: &Path,
        copying: BackupCopyOptions<'_>,
    ) -> std::result::Result<u64, Error> {
        let note = |CopyProgress { done_bytes, total_bytes }| {
            let is_stopped = (copying.is_stopped)();
            match &mut *self.making.lock() {
                Some(making) if !is_stopped && !making.is_removed => {
                    (making.progress.done_bytes, making.progress.total_bytes) =
                        (done_bytes, total_bytes);
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Break(()),
            }
        };
        let bytes_per_second_max = copying.bytes_per_second_max.and_then(NonZeroU64::new);
        let options = CopyOptions { bytes_per_second_max, progress: Some(&note) };
        Ok(self.engine.backup_with(target, options)?.sequence)
    }

    fn take_turn(&self) -> Result<MutexGuard<'_, ()>> {
        let message = "a backup is made or removed: ask again when that is done";
        self.turn.try_lock().ok_or_else(|| StoreError::Busy(message.to_owned()))
    }

    /// Removes incomplete backups that a crash has left.
    fn remove_remains(&self) -> Result<()> {
        for name in [MAKING, REMOVING] {
            let path = self.folder.join(name);
            if path.exists() {
                fs::remove_dir_all(&path).map_err(|error| failed("remove", &path, &error))?;
            }
        }
        Ok(())
    }

    fn make(
        &self,
        id: &BackupId,
        copying: BackupCopyOptions<'_>,
        before: Option<&BackupFigures>,
    ) -> Result<BackupOutcome> {
        let _begun = BackupGuard::begin(self, id);
        let making = self.folder.join(MAKING);
        let before = before.map(|before| self.folder.join(before.id.as_str()));
        let known = before.map_or(Ok(HashSet::new()), |before| inodes(&before))?;
        let sequence = match self.copy(&making, copying) {
            Err(Error::Stopped) => return Ok(BackupOutcome::Ended),
            copied => copied.map_err(failure)?,
        };
        let files = files_in(&making)?;
        let is_added = |file: &&Metadata| !known.contains(&(file.dev(), file.ino()));
        let figures = BackupFigures {
            id: id.clone(),
            made_at_ms: self.clock.wall().unix_ms(),
            sequence,
            files: files.len() as u64,
            size_bytes: files.iter().map(Metadata::len).sum(),
            added_bytes: files.iter().filter(is_added).map(Metadata::len).sum(),
        };
        write_figures(&making, &figures)?;
        // The lock makes the rename and the end of the making one step for `delete`.
        let mut in_making = self.making.lock();
        if in_making.as_ref().is_some_and(|making| making.is_removed) {
            return Ok(BackupOutcome::Ended);
        }
        let target = self.folder.join(id.as_str());
        publish(&making, &target, || sync_folder(&self.folder))?;
        *in_making = None;
        Ok(BackupOutcome::Made(figures))
    }
}

/// A guard: while it lives, the folder has a backup in the making.
struct BackupGuard<'a>(&'a BackupFolder);

impl BackupGuard<'_> {
    fn begin<'a>(folder: &'a BackupFolder, id: &BackupId) -> BackupGuard<'a> {
        let progress = BackupProgress { id: id.clone(), done_bytes: 0, total_bytes: 0 };
        *folder.making.lock() = Some(RunningBackup { progress, is_removed: false });
        BackupGuard(folder)
    }
}

impl Drop for BackupGuard<'_> {
    fn drop(&mut self) {
        *self.0.making.lock() = None;
    }
}

impl Backups for BackupFolder {
    fn create(&self, id: &BackupId, copying: BackupCopyOptions<'_>) -> Result<BackupOutcome> {
        let is_too_slow = |bytes: u64| bytes < BACKUP_BYTES_PER_SECOND_MIN;
        if copying.bytes_per_second_max.is_some_and(is_too_slow) {
            return Err(StoreError::Unacceptable(format!(
                "a backup is bound to at least {BACKUP_BYTES_PER_SECOND_MIN} bytes a second"
            )));
        }
        let _turn = self.take_turn()?;
        if !self.folder.exists() {
            let made = DirBuilder::new().mode(0o700).create(&self.folder);
            made.map_err(|error| failed("create", &self.folder, &error))?;
            sync_folder(self.folder.parent().unwrap_or(Path::new(".")))?;
        }
        self.remove_remains()?;
        let all = self.list()?;
        if self.folder.join(id.as_str()).exists() {
            return Ok(BackupOutcome::Duplicate);
        }
        if all.len() >= BACKUPS_MAX {
            let message = format!("there are {BACKUPS_MAX} backups already: remove one first");
            return Err(StoreError::Full(message));
        }
        let made = self.make(id, copying, all.last());
        if !matches!(made, Ok(BackupOutcome::Made(_))) {
            // The failure matters more than the remains, which the next backup removes.
            let _ = self.remove_remains();
        }
        made
    }

    fn progress(&self) -> Option<BackupProgress> {
        self.making.lock().as_ref().map(|making| making.progress.clone())
    }

    fn list(&self) -> Result<Vec<BackupFigures>> {
        let mut all = Vec::new();
        for name in names(&self.folder)? {
            let Ok(id) = BackupId::parse(&name) else { continue };
            let path = self.folder.join(&name).join(FIGURES);
            match fs::read(&path) {
                Ok(bytes) => all.push(figures_of(id, &bytes).ok_or_else(|| {
                    let what = "is not the description of a backup";
                    StoreError::Corruption(format!("{} {what}", path.display()))
                })?),
                // A file or folder that is not a backup.
                Err(error) if is_no_file(&error) => {}
                Err(error) => return Err(failed("read", &path, &error)),
            }
        }
        all.sort_by(|one, other| (one.made_at_ms, &one.id).cmp(&(other.made_at_ms, &other.id)));
        Ok(all)
    }

    fn delete(&self, id: &BackupId) -> Result<bool> {
        if let Some(making) = self.making.lock().as_mut().filter(|making| making.progress.id == *id)
        {
            making.is_removed = true;
            return Ok(true);
        }
        let _turn = self.take_turn()?;
        self.remove_remains()?;
        let path = self.folder.join(id.as_str());
        if !path.join(FIGURES).exists() {
            return Ok(false);
        }
        let removing = self.folder.join(REMOVING);
        fs::rename(&path, &removing).map_err(|error| failed("rename", &path, &error))?;
        sync_folder(&self.folder)?;
        self.remove_remains()?;
        Ok(true)
    }
}

/// Gives a complete backup its name. If that cannot be made durable, the backup loses its name
/// again: a backup whose making has failed is not listed, and can be made again.
fn publish(making: &Path, target: &Path, sync: impl FnOnce() -> Result<()>) -> Result<()> {
    fs::rename(making, target).map_err(|error| failed("rename", making, &error))?;
    sync().inspect_err(|_| {
        // The first failure matters more.
        let _ = fs::rename(target, making);
    })
}

fn failed(what: &str, path: &Path, error: &io::Error) -> StoreError {
    let message = format!("cannot {what} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(message),
        _ => StoreError::Failed(message),
    }
}

fn is_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The names of the entries of `folder`; none if there is no such folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", folder, &error)),
    };
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let names = entries.map(|entry| entry.map(name)).collect::<io::Result<_>>();
    names.map_err(|error| failed("list", folder, &error))
}

/// The metadata of the files in a backup that are not empty.
fn files_in(backup: &Path) -> Result<Vec<Metadata>> {
    let mut files = Vec::new();
    for name in names(backup)? {
        let path = backup.join(name);
        let metadata = fs::metadata(&path).map_err(|error| failed("read", &path, &error))?;
        if metadata.is_dir() {
            files.append(&mut files_in(&path)?);
        } else if metadata.len() > 0 {
            files.push(metadata);
        }
    }
    Ok(files)
}

fn inodes(backup: &Path) -> Result<HashSet<(u64, u64)>> {
    Ok(files_in(backup)?.iter().map(|file| (file.dev(), file.ino())).collect())
}

fn write_figures(folder: &Path, figures: &BackupFigures) -> Result<()> {
    let text = json!({
        "schema": "pellucid.backup.v1",
        "made_at_ms": figures.made_at_ms,
        "sequence": figures.sequence,
        "files": figures.files,
        "size_bytes": figures.size_bytes,
        "added_bytes": figures.added_bytes,
    });
    let path = folder.join(FIGURES);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(text.to_string().as_bytes())?;
        file.sync_all()?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| failed("write", &path, &error))
}

fn figures_of(id: BackupId, bytes: &[u8]) -> Option<BackupFigures> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let number = |name: &str| value.get(name)?.as_u64();
    Some(BackupFigures {
        id,
        made_at_ms: number("made_at_ms")?,
        sequence: number("sequence")?,
        files: number("files")?,
        size_bytes: number("size_bytes")?,
        added_bytes: number("added_bytes")?,
    })
}

fn sync_folder(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| failed("sync", folder, &error))
}

#[cfg(test)]
mod tests {
    use pellucid_account::Timeline;
    use pellucid_engine::{EngineOptions, restore};
    use pellucid_store::{Acknowledgement, Operation, Store};
    use tempfile::TempDir;

    use super::*;
    use crate::store::{EmbeddedOptions, EmbeddedStore};

    const QUICKLY: BackupCopyOptions<'_> =
        BackupCopyOptions { bytes_per_second_max: None, is_stopped: &|| false };

    fn id(text: &str) -> BackupId {
        BackupId::parse(text).unwrap()
    }

    fn open(folder: &Path) -> EmbeddedStore {
        EmbeddedStore::open(folder, EmbeddedOptions::default()).unwrap()
    }

    fn put(store: &EmbeddedStore, key: &str, value: &[u8]) {
        let put = Operation::plain(key.as_bytes(), Some(value));
        let table = store.table("t").unwrap();
        let written = store.write(table, &[put], Acknowledgement::Os, &mut Timeline::off());
        written.wait().unwrap();
    }

    fn make(store: &EmbeddedStore, name: &str) -> BackupFigures {
        match backups(store).create(&id(name), QUICKLY).unwrap() {
            BackupOutcome::Made(figures) => figures,
            outcome => panic!("{outcome:?}"),
        }
    }

    fn is_duplicate(store: &EmbeddedStore, name: &str) -> bool {
        backups(store).create(&id(name), QUICKLY).unwrap() == BackupOutcome::Duplicate
    }

    fn backups(store: &EmbeddedStore) -> &dyn Backups {
        store.local().and_then(|local| local.backups()).unwrap()
    }

    #[test]
    fn a_backup_has_the_writes_before_it_and_none_after() {
        let folder = TempDir::new().unwrap();
        let store = open(folder.path());
        put(&store, "before", b"1");
        let first = make(&store, "first");
        put(&store, "after", b"2");
        let second = make(&store, "second");
        assert!(second.sequence > first.sequence);
        assert!(second.added_bytes < second.size_bytes, "it shares files with the one before");
        let listed = backups(&store).list().unwrap();
        assert_eq!(listed, [first, second]);

        let restored = folder.path().join("restored");
        let files = EngineOptions::default().file_system;
        restore(folder.path().join("backups/first"), &restored, &*files).unwrap();
        let restored = open(&restored);
        let table = restored.table("t").unwrap();
        let is_there =
            |key: &[u8]| restored.get(table, key, &mut Timeline::off()).wait().unwrap().is_some();
        assert_eq!((is_there(b"before"), is_there(b"after")), (true, false));
    }

    #[test]
    fn a_name_can_be_used_again_after_its_backup_is_removed() {
        let folder = TempDir::new().unwrap();
        let store = open(folder.path());
        assert!(backups(&store).list().unwrap().is_empty());
        assert!(!backups(&store).delete(&id("x")).unwrap());
        make(&store, "x");
        assert!(is_duplicate(&store, "x"));
        assert!(backups(&store).delete(&id("x")).unwrap());
        assert!(backups(&store).list().unwrap().is_empty());
        make(&store, "x");
    }

    #[test]
    fn remains_of_a_crash_are_not_listed_and_are_removed_by_the_next_backup() {
        let folder = TempDir::new().unwrap();
        let store = open(folder.path());
        for name in [MAKING, REMOVING, "of_somebody_else"] {
            let remains = folder.path().join(FOLDER).join(name);
            fs::create_dir_all(&remains).unwrap();
            fs::write(remains.join("half"), b"...").unwrap();
        }
        assert!(backups(&store).list().unwrap().is_empty());
        make(&store, "whole");
        let left = names(&folder.path().join(FOLDER)).unwrap();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(is_duplicate(&store, "of_somebody_else"));
        assert!(!backups(&store).delete(&id("of_somebody_else")).unwrap());
    }

    #[test]
    fn a_failure_leaves_no_part_of_a_backup() {
        let folder = TempDir::new().unwrap();
        let store = open(folder.path());
        store.close().unwrap();
        assert!(backups(&store).create(&id("late"), QUICKLY).is_err());
        assert_eq!(names(&folder.path().join(FOLDER)).unwrap(), [""; 0]);
    }

    /// Regression: if the sync after the rename failed, the making had failed, but the backup was
    /// listed, and making it again was refused as a duplicate.
    #[test]
    fn a_backup_whose_name_is_not_durable_has_none() {
        let folder = TempDir::new().unwrap();
        let (making, target) = (folder.path().join(MAKING), folder.path().join("x"));
        fs::create_dir(&making).unwrap();
        let failing = || {
            assert!(target.exists());
            Err(StoreError::Failed("the medium is broken".to_owned()))
        };
        assert!(publish(&making, &target, failing).is_err());
        assert_eq!(names(folder.path()).unwrap(), [MAKING]);
        publish(&making, &target, || sync_folder(folder.path())).unwrap();
        assert_eq!(names(folder.path()).unwrap(), ["x"]);
    }

    #[test]
    fn a_backup_can_be_stopped_and_removed_while_it_is_made() {
        let folder = TempDir::new().unwrap();
        let store = open(folder.path());
        let backups = backups(&store);
        put(&store, "key", b"1");
        let stopped = BackupCopyOptions { is_stopped: &|| true, ..QUICKLY };
        assert_eq!(backups.create(&id("stopped"), stopped).unwrap(), BackupOutcome::Ended);
        let removed = || {
            assert_eq!(backups.progress().unwrap().id, id("removed"));
            assert!(matches!(backups.delete(&id("another")), Err(StoreError::Busy(_))));
            assert!(backups.delete(&id("removed")).unwrap());
            false
        };
        let removed = BackupCopyOptions { is_stopped: &removed, ..QUICKLY };
        assert_eq!(backups.create(&id("removed"), removed).unwrap(), BackupOutcome::Ended);
        assert_eq!(backups.progress(), None);
        assert_eq!(names(&folder.path().join(FOLDER)).unwrap(), [""; 0]);
    }

    #[test]
    fn an_error_names_a_damaged_description() {
        let folder = TempDir::new().unwrap();
        let store = open(folder.path());
        backups(&store).create(&id("x"), QUICKLY).unwrap();
        let path = folder.path().join("backups/x/backup.json");
        fs::write(&path, b"{}").unwrap();
        let error = backups(&store).list().unwrap_err().to_string();
        assert!(error.contains("backups/x/backup.json"), "{error}");
        assert!(backups(&store).delete(&id("x")).unwrap(), "it can be removed all the same");
    }
}
