//! Inspection of a store that is not open: its contents, and whether all of it is intact. Nothing
//! is changed, so a damaged store can be inspected any number of times.

use std::path::{Path, PathBuf};

use pellucid_io::{CopyingFileSystem, FileSystem};

use crate::definition_report::{DefinitionReport, read_definitions};
use crate::error::{Error, Result};
use crate::folder::take_lock_to_read;
use crate::journal::{SegmentReport, SegmentSummary, check_journal, segment_path, verify_segments};
use crate::ledger::{Manifest, Table};

/// The most problems that a report lists. [`Report::problems_left_off`] counts the rest.
const PROBLEMS_MAX: usize = 10_000;

/// A part of a file that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// A description of the damage.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at offset {}: {}", self.path.display(), self.offset, self.what)
    }
}

/// The report on a table of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReport {
    /// The number of the file.
    pub number: u64,
    /// The level.
    pub level: u8,
    /// The number of entries.
    pub entries: u64,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
    /// The lowest sequence number in it.
    pub lowest_sequence: u64,
    /// The highest sequence number in it.
    pub highest_sequence: u64,
}

/// The contents of a store, and its damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The identity of the store.
    pub store_identity: u64,
    /// The sequence number up to which every record is in the tables.
    pub flushed_sequence: u64,
    /// The journal's segments, in order.
    pub segments: Vec<SegmentReport>,
    /// The ledger's tables.
    pub tables: Vec<TableReport>,
    /// The tables of objects and the indexes, by number, as far as the catalogue can be read.
    pub definitions: Vec<DefinitionReport>,
    /// The damage that was found.
    pub problems: Vec<Problem>,
    /// The number of problems beyond those listed.
    pub problems_left_off: u64,
}

impl Report {
    fn problem(&mut self, path: &Path, offset: u64, what: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { path: path.to_path_buf(), offset, what });
        } else {
            self.problems_left_off += 1;
        }
    }

    /// True if a problem in this file is listed.
    fn names(&self, path: &Path) -> bool {
        self.problems.iter().any(|problem| problem.path == path)
    }

    /// Sets the definitions, and notes the errors of those that cannot be read, unless they are
    /// listed.
    fn define(&mut self, read: (Vec<DefinitionReport>, Vec<Error>)) -> Result<()> {
        let (definitions, problems) = read;
        self.definitions = definitions;
        for error in problems {
            match &error {
                Error::Corruption { path, .. }
                | Error::Io { path, .. }
                | Error::Foreign { path }
                | Error::Version { path, .. }
                    if self.names(path) => {}
                _ => self.note(error)?,
            }
        }
        Ok(())
    }

    /// Notes an error about a file as a problem; returns errors about the store as a whole.
    fn note(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corruption { path, offset, what } => {
                self.problem(&path, offset, what);
                Ok(())
            }
            Error::Foreign { path } => {
                self.problem(&path, 16, "the file belongs to another store".to_owned());
                Ok(())
            }
            Error::Version { path, found } => {
                let what = format!("format version {found}: read it with a newer release");
                self.problem(&path, 8, what);
                Ok(())
            }
            Error::Io { operation, path, source }
            | Error::Exhausted { operation, path, source } => {
                self.problem(&path, 0, format!("could not {operation}: {source}"));
                Ok(())
            }
            error => Err(error),
        }
    }
}

/// Checks every record, block, footer, index and filter of the store in `directory`, which must not
/// be open. Damage is listed in [`Report::problems`], and is not an error.
///
/// ```
/// # use pellucid_engine::*;
/// # fn main() -> Result<()> {
/// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
/// # let options = EngineOptions { file_system: files.clone(), ..EngineOptions::default() };
/// # let engine = Engine::open("/store", options)?;
/// # engine.table("t")?;
/// # engine.close()?;
/// let report = verify("/store", &*files)?;
/// assert_eq!(report.problems, []);
/// assert_eq!(report.segments[0].last_sequence, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the store is open, if it has no manifest, or if the manifest cannot be read.
pub fn verify(directory: impl AsRef<Path>, files: &dyn FileSystem) -> Result<Report> {
    let directory = directory.as_ref();
    // Unreadable bytes are problems to report, and the bytes behind them are still checked.
    let (mapped, files) = (files, &CopyingFileSystem(files));
    let _lock = take_lock_to_read(files, directory)?;
    let manifest = Manifest::read_existing(files, directory)?;
    let mut report = describe(&manifest);
    let mut segments = verify_segments(files, directory, &manifest, |error| report.note(error))?;
    segments.sort_by_key(|segment| segment.report.first_sequence);
    for SegmentSummary { report: segment, problems, .. } in segments {
        for (offset, what) in problems {
            report.problem(&segment.path, offset, what);
        }
        report.segments.push(segment);
    }
    // This uses maps, because it opens all segments at once: with system calls, all would be in
    // memory.
    match check_journal(mapped, directory, &manifest) {
        // If a problem of that file is listed already, the opening refuses it for the same reason.
        Err(
            Error::Corruption { path, .. } | Error::Foreign { path } | Error::Version { path, .. },
        ) if report.names(&path) => {}
        checked => checked.or_else(|error| report.note(error))?,
    }
    for (_, facts) in &manifest.tables {
        let table = Table::open(files, directory, manifest.store_identity, facts.clone());
        let problems = match table {
            Ok(table) => table.blocks().problems().take(PROBLEMS_MAX).collect(),
            Err(error) => vec![error],
        };
        problems.into_iter().try_for_each(|problem| report.note(problem))?;
    }
    report.define(read_definitions(files, directory, &manifest))?;
    Ok(report)
}

/// Reads the manifest of the store in `directory`, and the catalogue. Only the parts that are read
/// for that are checked; damage in them is listed in [`Report::problems`]. The store may be open.
///
/// # Errors
/// If there is no manifest, or if it cannot be read.
pub fn stat(directory: impl AsRef<Path>, files: &dyn FileSystem) -> Result<Report> {
    let directory = directory.as_ref();
    let manifest = Manifest::read_existing(files, directory)?;
    let mut report = describe(&manifest);
    report.segments = manifest
        .segments
        .iter()
        .map(|facts| SegmentReport {
            path: segment_path(directory, facts.number),
            first_sequence: facts.first_sequence,
            last_sequence: facts.last_sequence,
            records: (facts.last_sequence + 1).saturating_sub(facts.first_sequence),
            size_bytes: facts.size_bytes,
            is_sealed: facts.last_sequence != 0,
        })
        .collect();
    report.define(read_definitions(files, directory, &manifest))?;
    Ok(report)
}

fn describe(manifest: &Manifest) -> Report {
    let tables = manifest.tables.iter().map(|(level, facts)| TableReport {
        number: facts.number,
        level: *level,
        entries: facts.entries,
        size_bytes: facts.size_bytes,
        lowest_sequence: facts.lowest_sequence,
        highest_sequence: facts.highest_sequence,
    });
    Report {
        store_identity: manifest.store_identity,
        flushed_sequence: manifest.flushed_sequence,
        tables: tables.collect(),
        ..Report::default()
    }
}
