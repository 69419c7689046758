//! Backup of an open store, and restoring a backup.
//!
//! Sealed segments and tables never change. So a hard link to each is a copy that costs nothing,
//! and a manifest that names exactly these files makes a store of them. If the target is on another
//! file system, the files are copied.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pellucid_clock::Clock;
use pellucid_io::{FileSystem, LockGuard, MapMode};

use crate::error::{Error, Result};
use crate::file_copier::{CopyOptions, CopySource, FileCopier};
use crate::folder::{LEDGER_FOLDER, LOCK_FILE, make_folders, take_lock, take_lock_to_read};
use crate::journal::{JOURNAL_FOLDER, Segment, Span, list_segments, segment_path, verify_segment};
use crate::ledger::{Manifest, Table, table_path};
use crate::manifest::INCOMPLETE_FILE;
use crate::mapped_file::MappedFile;
use crate::open_store::OpenStore;

/// The contents of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// The sequence number of the last write that it holds; it also holds all writes before.
    pub sequence: u64,
    /// Files that are hard links to the store's own files and take no space.
    pub linked_files: u64,
    /// Files that were copied because they could not be linked, most often because the target is on
    /// another file system.
    pub copied_files: u64,
    /// The size of all files together, in bytes.
    pub size_bytes: u64,
}

impl Backup {
    fn of(copier: &FileCopier<'_>, sequence: u64) -> Backup {
        Backup {
            sequence,
            linked_files: copier.linked_files,
            copied_files: copier.copied_files,
            size_bytes: copier.done_bytes(),
        }
    }
}

/// Makes a backup of `store` in `target` ([`crate::Engine::backup_with`]).
pub(crate) fn backup(store: &OpenStore, target: &Path, options: CopyOptions<'_>) -> Result<Backup> {
    let (files, clock) = (&*store.options.file_system, store.options.clock);
    let _guard = claim(files, target)?;
    let _noted = store.activity.begin(crate::jobs::BACKUP, clock);
    let captured = capture(store)?;
    let mut copier = FileCopier::new(files, options, clock, captured.size_bytes());
    // A merge or garbage collection may remove a file before it is linked. Its bytes are still
    // mapped then, and are copied.
    for segment in &captured.segments {
        let (path, bytes) = (&segment.shared.path, segment.sealed_file());
        let source = CopySource { path, bytes, check: &|| segment.check_sealed() };
        copier.link_or_copy(&source, &target.join(JOURNAL_FOLDER))?;
    }
    for table in &captured.tables {
        let (blocks, path) = (table.blocks(), table_path(&store.directory, table.facts().number));
        let check = || blocks.check_all();
        let source = CopySource { path: &path, bytes: blocks.bytes(), check: &check };
        copier.link_or_copy(&source, &target.join(LEDGER_FOLDER))?;
    }
    finish(files, target, &captured.manifest)?;
    Ok(Backup::of(&copier, captured.sequence))
}

/// The state of the store at the moment of a backup.
struct CapturedState {
    sequence: u64,
    manifest: Manifest,
    tables: Vec<Arc<Table>>,
    /// The segments, all of them sealed.
    segments: Vec<Arc<Segment>>,
}

impl CapturedState {
    fn size_bytes(&self) -> u64 {
        let segments = self.segments.iter().map(|segment| segment.sealed_file().len());
        let tables = self.tables.iter().map(|table| table.blocks().bytes().len());
        segments.chain(tables).map(|bytes| bytes as u64).sum()
    }
}

/// Restores the backup in `from` into a new store in `to`, which must contain no files or not
/// exist. The backup must not be open, and is not changed. Files are linked if possible; the others
/// are copied as `options` say.
///
/// # Errors
/// [`Error::Occupied`] if the target is not empty; [`Error::Locked`] if the backup is open;
/// [`Error::Stopped`] if `options` stop the copying; and errors if the manifest or a file is
/// missing or cannot be read. The contents are not checked: [`crate::verify`] does that.
pub fn restore_with(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    files: &dyn FileSystem,
    options: CopyOptions<'_>,
) -> Result<Backup> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let _from_lock = take_lock_to_read(files, from)?;
    let manifest = Manifest::read_existing(files, from)?;
    let _to_lock = claim(files, to)?;
    let mut each = Vec::new();
    let mut sealed = HashSet::new();
    for facts in manifest.segments.iter().filter(|facts| facts.last_sequence != 0) {
        sealed.insert(facts.number);
        each.push(RestoredFile::of(files, segment_path(from, facts.number), JOURNAL_FOLDER, true)?);
    }
    // If the backup was opened as a store after it was made, it may have segments that are not
    // sealed. These are copied: a link would let both stores append to one file.
    let mut unsealed = Vec::new();
    let listed = list_segments(files, from)?;
    for number in listed.iter().filter(|number| !sealed.contains(number)) {
        let summary = verify_segment(files, from, &manifest, *number)?;
        unsealed.extend(summary.map(|summary| summary.span()));
        each.push(RestoredFile::of(files, segment_path(from, *number), JOURNAL_FOLDER, false)?);
    }
    for (_, facts) in &manifest.tables {
        each.push(RestoredFile::of(files, table_path(from, facts.number), LEDGER_FOLDER, true)?);
    }
    let total_bytes = each.iter().map(|file| file.length).sum();
    let mut copier = FileCopier::new(files, options, Clock::monotonic(), total_bytes);
    each.iter().try_for_each(|file| file.place(files, to, &mut copier))?;
    finish(files, to, &manifest)?;
    Ok(Backup::of(&copier, last_sequence(&manifest, unsealed)))
}

/// The last sequence number of a store after it is opened: the highest of the manifest and the
/// sealed segments, extended by the unsealed segments that follow without a gap.
fn last_sequence(manifest: &Manifest, mut unsealed: Vec<Span>) -> u64 {
    let sealed = manifest.segments.iter().map(|facts| facts.last_sequence);
    unsealed.sort_by_key(|span| span.first_sequence);
    unsealed.iter().fold(sealed.fold(manifest.flushed_sequence, u64::max), |last, span| {
        if span.first_sequence <= last + 1 { last.max(span.last_sequence) } else { last }
    })
}

/// Restores as [`restore_with`] does, as fast as the medium allows.
///
/// # Errors
/// As [`restore_with`].
pub fn restore(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    files: &dyn FileSystem,
) -> Result<Backup> {
    restore_with(from, to, files, CopyOptions::default())
}

/// A file of a backup that is restored.
struct RestoredFile {
    path: PathBuf,
    folder: &'static str,
    may_link: bool,
    length: u64,
}

impl RestoredFile {
    fn of(
        files: &dyn FileSystem,
        path: PathBuf,
        folder: &'static str,
        may_link: bool,
    ) -> Result<RestoredFile> {
        let length = files.open(&path, false).and_then(|file| file.length());
        let length = length.map_err(|error| Error::io("open", &path, error))?;
        Ok(RestoredFile { path, folder, may_link, length })
    }

    /// Links the file into the store if that is allowed; otherwise copies it.
    fn place(
        &self,
        files: &dyn FileSystem,
        store: &Path,
        copier: &mut FileCopier<'_>,
    ) -> Result<()> {
        let path = &self.path;
        let map = files.open(path, false).and_then(|file| file.map(self.length, MapMode::Read));
        let map = MappedFile::from(map.map_err(|error| Error::io("map", path, error))?);
        let (folder, check) = (store.join(self.folder), || map.check(0..map.length(), path));
        let source = CopySource { path, bytes: map.bytes(), check: &check };
        match self.may_link {
            true => copier.link_or_copy(&source, &folder),
            false => copier.copy(&source, &folder),
        }
    }
}

/// Creates the folders of a store in `directory`, which must contain no files or not exist, and
/// locks it. It counts as incomplete until [`finish`].
pub(crate) fn claim(files: &dyn FileSystem, directory: &Path) -> Result<LockGuard> {
    for folder in [directory, &directory.join(JOURNAL_FOLDER), &directory.join(LEDGER_FOLDER)] {
        if !files.exists(folder) {
            continue;
        }
        let names = files.list(folder).map_err(|error| Error::io("list", folder, error))?;
        if names.iter().any(|name| name != LOCK_FILE && name != INCOMPLETE_FILE) {
            return Err(Error::Occupied { directory: directory.to_path_buf() });
        }
    }
    make_folders(files, directory)?;
    let lock = take_lock(files, directory)?;
    let path = directory.join(INCOMPLETE_FILE);
    let noted = files.create(&path).and_then(|file| file.sync());
    let noted = noted.and_then(|()| files.sync_directory(directory));
    noted.map_err(|error| Error::io("create", &path, error))?;
    Ok(lock)
}

/// Makes the names of the files durable, and then writes the manifest, which makes a store of them.
pub(crate) fn finish(files: &dyn FileSystem, directory: &Path, manifest: &Manifest) -> Result<()> {
    for folder in [directory.join(JOURNAL_FOLDER), directory.join(LEDGER_FOLDER)] {
        let synced = files.sync_directory(&folder);
        synced.map_err(|error| Error::io("sync", &folder, error))?;
    }
    manifest.write(files, directory).map_err(|failure| failure.error)?;
    // Beside a manifest the file says nothing, and the next opening removes it.
    let _ = files.remove(&directory.join(INCOMPLETE_FILE));
    Ok(())
}

/// Flushes, seals the active segment, and captures the set of files of the store. Most of the work
/// is done while writes go on; they wait only for the last flush, the seal and the capture.
fn capture(store: &OpenStore) -> Result<CapturedState> {
    // Flush and sync once before writes have to wait, so that little is left to do while they wait.
    store.writer.seal_memtable()?;
    store.ledger.wait_for_flushes()?;
    let sync = store.journal.sync();
    sync.sync_to(sync.appended_sequence())?;
    store.writer.at_rest(|sequence| {
        let (manifest, tables, list) = store.ledger.capture(|| {
            let list = store.journal.segments().list();
            let facts = list.segments.iter().map(|segment| segment.facts()).collect();
            (facts, list)
        });
        assert_eq!(manifest.flushed_sequence, sequence, "everything was flushed");
        CapturedState { sequence, manifest, tables, segments: list.segments.clone() }
    })
}
