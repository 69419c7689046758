//! Backup of a store that is open, and restoring one.
//!
//! Sealed segments and tables never change, so a second name for each is a copy that costs nothing;
//! a manifest that names just these makes a store of them. On another file system they are copied.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use pellucid_io::{FileSystem, MapMode};

use crate::error::{Error, Result};
use crate::folder::{LEDGER_FOLDER, LOCK_FILE, make_folders, take_lock};
use crate::journal::{JOURNAL_FOLDER, Segment, segment_path};
use crate::ledger::{Manifest, PinnedVersion, table_path};
use crate::mapped::Mapped;
use crate::open_store::OpenStore;

/// Bytes that are copied in one go where files cannot be linked.
const COPY_LENGTH: usize = 1 << 20;

/// The contents of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// The last write that it holds; it holds all before it, too.
    pub sequence: u64,
    /// Files that are second names of the store's own and take no room.
    pub linked_files: u64,
    /// Files that were copied, because the target is on another file system.
    pub copied_files: u64,
    /// Bytes of all files together.
    pub size_bytes: u64,
}

/// Makes a backup of `store` in `target` ([`crate::Engine::backup`]).
pub(crate) fn backup(store: &OpenStore, target: &Path) -> Result<Backup> {
    let files = &*store.options.file_system;
    claim(files, target)?;
    let _guard = take_lock(files, target)?;
    let _noted = store.activity.begin(crate::jobs::BACKUP, store.options.clock);
    let captured = capture(store)?;
    let mut backup = Backup { sequence: captured.sequence, ..Backup::default() };
    // A merge or garbage collection may remove a file before it has its second name. Its bytes are
    // still mapped then, and are copied.
    for segment in &captured.segments {
        let (path, bytes) = (&segment.shared.path, segment.sealed_file());
        if link_or_copy(files, path, &target.join(JOURNAL_FOLDER), bytes, &mut backup)? {
            segment.check_sealed()?;
        }
    }
    for (_, facts) in &captured.manifest.tables {
        let table = captured.version.table(facts.number);
        let bytes = table.map_or(&[][..], |table| table.blocks().bytes());
        let path = table_path(&store.directory, facts.number);
        if link_or_copy(files, &path, &target.join(LEDGER_FOLDER), bytes, &mut backup)? {
            table.map_or(Ok(()), |table| table.blocks().check_all())?;
        }
    }
    finish(files, target, &captured.manifest)?;
    Ok(backup)
}

/// The store at the moment of a backup.
struct Captured {
    sequence: u64,
    manifest: Manifest,
    version: PinnedVersion,
    /// All of them sealed.
    segments: Vec<Arc<Segment>>,
}

/// Makes a store in `to`, which must be empty or not exist, of the backup in `from`, which must not
/// be open and stays as it is. Links files where it can.
///
/// # Errors
/// [`Error::Occupied`] if the target is not empty; if the backup is damaged ([`crate::verify`]
/// tells more) or open; or if the file system fails.
pub fn restore(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    files: &dyn FileSystem,
) -> Result<Backup> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let _from_lock = take_lock(files, from)?;
    let manifest = Manifest::read(files, from)?
        .ok_or_else(|| Error::ManifestMissing { directory: from.to_path_buf() })?;
    claim(files, to)?;
    let _to_lock = take_lock(files, to)?;
    let mut backup = Backup::default();
    let mut named = HashSet::new();
    for facts in manifest.segments.iter().filter(|facts| facts.last_sequence != 0) {
        named.insert(facts.number);
        let path = segment_path(from, facts.number);
        place(files, &path, &to.join(JOURNAL_FOLDER), true, &mut backup)?;
    }
    // A store that was opened since its backup was made may have segments that are still growing:
    // they would grow under both names.
    for number in crate::journal::list_segments(files, from)? {
        if !named.contains(&number) {
            let path = segment_path(from, number);
            place(files, &path, &to.join(JOURNAL_FOLDER), false, &mut backup)?;
        }
    }
    for (_, facts) in &manifest.tables {
        let path = table_path(from, facts.number);
        place(files, &path, &to.join(LEDGER_FOLDER), true, &mut backup)?;
    }
    finish(files, to, &manifest)?;
    backup.sequence = manifest.segments.iter().map(|facts| facts.last_sequence).max().unwrap_or(0);
    Ok(backup)
}

/// Makes the folders of a store in `directory`, which must hold nothing yet.
pub(crate) fn claim(files: &dyn FileSystem, directory: &Path) -> Result<()> {
    for folder in [directory, &directory.join(JOURNAL_FOLDER), &directory.join(LEDGER_FOLDER)] {
        if !files.exists(folder) {
            continue;
        }
        let names = files.list(folder).map_err(|error| Error::io("list", folder, error))?;
        if names.iter().any(|name| name != LOCK_FILE) {
            return Err(Error::Occupied { directory: directory.to_path_buf() });
        }
    }
    make_folders(files, directory)
}

/// Gives the file at `path` a place in `folder`: a second name if it may have one.
fn place(
    files: &dyn FileSystem,
    path: &Path,
    folder: &Path,
    may_link: bool,
    backup: &mut Backup,
) -> Result<()> {
    let open = || {
        let file = files.open(path, false)?;
        let length = file.length()?;
        file.map(length, MapMode::Read)
    };
    let map = open().map_err(|error| Error::io("open", path, error))?;
    let map = Mapped::from(map);
    if may_link {
        if !link_or_copy(files, path, folder, map.bytes(), backup)? {
            return Ok(());
        }
    } else {
        copy(files, path, folder, map.bytes(), backup)?;
    }
    map.check(0..map.length(), path)
}

/// Gives the file at `path`, which holds `bytes`, a second name in `folder`, or copies it there:
/// true if that had to be, and the bytes were read.
fn link_or_copy(
    files: &dyn FileSystem,
    path: &Path,
    folder: &Path,
    bytes: &[u8],
    backup: &mut Backup,
) -> Result<bool> {
    let target = folder.join(path.file_name().unwrap_or_default());
    if files.hard_link(path, &target).is_err() {
        copy(files, path, folder, bytes, backup)?;
        return Ok(true);
    }
    backup.linked_files += 1;
    backup.size_bytes += bytes.len() as u64;
    Ok(false)
}

fn copy(
    files: &dyn FileSystem,
    path: &Path,
    folder: &Path,
    bytes: &[u8],
    backup: &mut Backup,
) -> Result<()> {
    let target = folder.join(path.file_name().unwrap_or_default());
    let write = || {
        let copy = files.create(&target)?;
        for (index, piece) in bytes.chunks(COPY_LENGTH).enumerate() {
            copy.write_all_at(piece, (index * COPY_LENGTH) as u64)?;
        }
        copy.sync()
    };
    write().map_err(|error| Error::io("write", &target, error))?;
    backup.copied_files += 1;
    backup.size_bytes += bytes.len() as u64;
    Ok(())
}

/// Makes the names durable, and then the manifest that makes a store of the files.
fn finish(files: &dyn FileSystem, directory: &Path, manifest: &Manifest) -> Result<()> {
    for folder in [directory.join(JOURNAL_FOLDER), directory.join(LEDGER_FOLDER)] {
        let synced = files.sync_directory(&folder);
        synced.map_err(|error| Error::io("sync", &folder, error))?;
    }
    manifest.write(files, directory).map_err(|failure| failure.error)
}

/// Writes everything to tables, seals the segment that grows, and notes the files of the store as
/// it is then. Writes wait meanwhile.
fn capture(store: &OpenStore) -> Result<Captured> {
    // Most of the data that has to get to the medium does so before anybody waits for it.
    store.writer.seal_memtable()?;
    store.ledger.wait_for_flushes()?;
    let sync = store.journal.sync();
    sync.sync_to(sync.appended_sequence())?;
    store.writer.at_rest(|sequence| {
        let (manifest, version, list) = store.ledger.capture(|| {
            let list = store.journal.segments().list();
            let facts = list.segments.iter().map(|segment| segment.facts()).collect();
            (facts, list)
        });
        assert_eq!(manifest.flushed_sequence, sequence, "everything was flushed");
        Captured { sequence, manifest, version, segments: list.segments.clone() }
    })
}
