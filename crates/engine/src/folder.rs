//! The store's directory: its folders, and the lock that only one process holds.

use std::io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, WouldBlock};
use std::path::Path;

use pellucid_io::{FileSystem, LockGuard};

use crate::error::{Error, Result};
use crate::journal::JOURNAL_FOLDER;

/// The file that is locked while the store is open.
pub(crate) const LOCK_FILE: &str = "LOCK";
/// The folder of the ledger's tables in the store's directory.
pub(crate) const LEDGER_FOLDER: &str = "ledger";

/// Creates the store's directory and its folders.
pub(crate) fn make_folders(file_system: &dyn FileSystem, directory: &Path) -> Result<()> {
    let is_missing = |folder: &&Path| !file_system.exists(folder);
    let made = directory.ancestors().take_while(is_missing).count();
    for folder in [directory, &directory.join(JOURNAL_FOLDER), &directory.join(LEDGER_FOLDER)] {
        if !file_system.exists(folder) {
            let made = file_system.create_directory(folder);
            made.map_err(|error| Error::io("create", folder, error))?;
        }
    }
    let synced = file_system.sync_directory(directory);
    synced.map_err(|error| Error::io("sync", directory, error))?;
    // The parent is synced even if the directory existed: its creator may have been interrupted
    // here.
    let mut parents = directory.ancestors().skip(1).take(made.max(1));
    parents.try_for_each(|parent| sync_parent(file_system, parent))
}

fn sync_parent(file_system: &dyn FileSystem, parent: &Path) -> Result<()> {
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match file_system.sync_directory(parent) {
        // The parent belongs to someone else, or its file system cannot sync directories.
        Err(error)
            if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | InvalidInput) =>
        {
            Ok(())
        }
        synced => synced.map_err(|error| Error::io("sync", parent, error)),
    }
}

/// Locks the store in `directory`.
pub(crate) fn take_lock(file_system: &dyn FileSystem, directory: &Path) -> Result<LockGuard> {
    let path = directory.join(LOCK_FILE);
    file_system.lock(&path).map_err(|error| lock_error(&path, error))
}

/// Locks the store in `directory` for a caller that changes nothing; such callers share the lock.
/// There is no guard if the file system is read-only and has no lock file: nobody can have such a
/// store open.
pub(crate) fn take_lock_to_read(
    file_system: &dyn FileSystem,
    directory: &Path,
) -> Result<Option<LockGuard>> {
    let path = directory.join(LOCK_FILE);
    match file_system.lock_to_read(&path) {
        Err(error) if error.kind() == ReadOnlyFilesystem && !file_system.exists(&path) => Ok(None),
        locked => locked.map(Some).map_err(|error| lock_error(&path, error)),
    }
}

fn lock_error(path: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        WouldBlock => Error::Locked { path: path.to_path_buf() },
        _ => Error::io("lock", path, error),
    }
}

/// Returns an error if a directory without a manifest holds data: it must not count as an empty
/// store.
pub(crate) fn refuse_orphans(file_system: &dyn FileSystem, directory: &Path) -> Result<()> {
    for (folder, suffix) in [(JOURNAL_FOLDER, ".journal"), (LEDGER_FOLDER, ".table")] {
        let folder = directory.join(folder);
        let names = file_system.list(&folder);
        let names = names.map_err(|error| Error::io("list", &folder, error))?;
        if names.iter().any(|name| name.ends_with(suffix)) {
            return Err(Error::ManifestMissing { directory: directory.to_path_buf() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pellucid_io::simulated::SimulatedFileSystem;

    use super::*;

    /// Regression: a loss of power removed a new store in new directories, although its files were
    /// synced.
    #[test]
    fn new_folders_and_their_parents_survive_a_crash() {
        let directory = Path::new("/a/b/store");
        for seed in 0..20 {
            let files = SimulatedFileSystem::new();
            make_folders(&files, directory).unwrap();
            let after = files.crash(seed);
            for folder in [JOURNAL_FOLDER, LEDGER_FOLDER] {
                assert!(after.exists(&directory.join(folder)), "{folder}, seed {seed}");
            }
        }
    }

    /// The creator of the directory may have been interrupted before it synced the name.
    #[test]
    fn an_existing_directory_survives_a_crash() {
        let (directory, files) = (Path::new("/store"), SimulatedFileSystem::new());
        files.create_directory(directory).unwrap();
        make_folders(&files, directory).unwrap();
        assert!((0..20).all(|seed| files.crash(seed).exists(directory)));
    }
}
