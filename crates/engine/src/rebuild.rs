//! Rebuilding the ledger from the journal, which holds everything that a store needs.

use std::path::Path;

use pellucid_io::CopyingFileSystem;

use crate::codec::{FILE_HEADER_LENGTH, FileHeader, FileKind};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::folder::{LEDGER_FOLDER, take_lock};
use crate::journal::{JOURNAL_FOLDER, check_journal, list_segments, segment_path, verify_segments};
use crate::ledger::Manifest;
use crate::options::EngineOptions;

/// Discards the manifest and all tables of the store in `directory`, which must not be open, and
/// builds new ones from the journal. This repairs damaged or lost tables and manifests. Returns the
/// highest sequence number found.
///
/// # Errors
/// If the store is open or incomplete, if there is no journal, or if a record in the middle of it
/// is damaged; the ledger is then not changed.
pub fn rebuild_ledger(directory: impl AsRef<Path>, options: EngineOptions) -> Result<u64> {
    let directory = directory.as_ref();
    let files = &*options.file_system;
    let lock = take_lock(files, directory)?;
    let former = match Manifest::read(files, directory) {
        // A newer release may have written more than this one would, and a part of a store lacks
        // data.
        Err(error @ (Error::Version { .. } | Error::Incomplete { .. })) => return Err(error),
        read => read.ok().flatten(),
    };
    let identity = match &former {
        Some(manifest) => manifest.store_identity,
        None => journal_identity(directory, &options)?,
    };
    let mut manifest = Manifest::empty(identity);
    manifest.edition = former.as_ref().map_or(0, |former| former.edition) + 1;
    // Expired entries stay expired, whatever the clock shows now.
    manifest.time_mark_ms = former.as_ref().map_or(0, |former| former.time_mark_ms);
    manifest.next_file_number = highest_file_number(directory, &options)? + 1;
    check(directory, &options, former.as_ref(), &manifest)?;
    manifest.write(files, directory).map_err(|failure| failure.error)?;
    drop(lock);
    let engine = Engine::open(directory, options)?;
    let last_sequence = engine.stats().published_sequence;
    engine.close()?;
    Ok(last_sequence)
}

/// The store identity in the header of the first readable segment.
pub(crate) fn journal_identity(directory: &Path, options: &EngineOptions) -> Result<u64> {
    let files = &*options.file_system;
    let mut last_error =
        Error::corruption(&directory.join(JOURNAL_FOLDER), 0, "there is no segment");
    for number in list_segments(files, directory)? {
        let path = segment_path(directory, number);
        let mut header = [0; FILE_HEADER_LENGTH];
        let read = files.open(&path, false).and_then(|file| file.read_exact_at(&mut header, 0));
        if let Err(error) = read {
            last_error = Error::io("read", &path, error);
            continue;
        }
        match FileHeader::decode(&header, FileKind::Journal, &path) {
            Ok(header) => return Ok(header.store_identity),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// The highest number of a table's file, so that no number is used twice.
fn highest_file_number(directory: &Path, options: &EngineOptions) -> Result<u64> {
    let folder = directory.join(LEDGER_FOLDER);
    if !options.file_system.exists(&folder) {
        return Ok(0);
    }
    let names = options.file_system.list(&folder);
    let names = names.map_err(|error| Error::io("list", &folder, error))?;
    let numbers = names.iter().filter_map(|name| {
        let digits = name.split('.').next()?;
        u64::from_str_radix(digits, 16).ok()
    });
    Ok(numbers.max().unwrap_or(0))
}

/// Checks the journal before anything is changed: against the `former` manifest if there is one,
/// and against the new one with which it will be opened.
fn check(
    directory: &Path,
    options: &EngineOptions,
    former: Option<&Manifest>,
    manifest: &Manifest,
) -> Result<()> {
    let (mapped, files) = (&*options.file_system, &CopyingFileSystem(&*options.file_system));
    let known = former.unwrap_or(manifest);
    for summary in verify_segments(files, directory, known, Err)? {
        let segment = summary.report;
        if let Some((offset, what)) = summary.problems.into_iter().next() {
            return Err(Error::corruption(&segment.path, offset, what));
        }
        if former.is_none() && summary.has_damaged_footer {
            let what = "the footer is damaged, and no manifest says whether the file was sealed";
            return Err(Error::corruption(&segment.path, segment.size_bytes, what));
        }
    }
    // This uses maps, because it opens all segments at once: with system calls, all would be in
    // memory.
    check_journal(mapped, directory, known)?;
    check_journal(mapped, directory, manifest)
}
