//! The files that a load writes: `.html`, `.hgrm`, `.hlog`.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pellucid_account::OperationAccount;
use pellucid_load::{Judgement, LoadResult};
use pellucid_report::{Chart, Machine, Report, Section, hgrm, hlog, html};

use super::section;
use super::waterfall::waterfall;
use crate::Failure;

/// Where results go beside the terminal.
#[derive(Default)]
pub(crate) struct Outputs {
    pub(crate) html: Option<PathBuf>,
    pub(crate) hgrm: Option<PathBuf>,
    pub(crate) hlog: Option<PathBuf>,
}

/// A run, what it may be taken for, the server's account of it, and what else is to be shown.
pub(super) type Measured<'run> =
    (&'run LoadResult, Judgement, Option<OperationAccount>, Vec<Chart>);

impl Outputs {
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.html, &self.hgrm, &self.hlog].into_iter().flatten()
    }

    /// Makes sure that the files can be written before a long run ends in an error about them. What
    /// is in them stays until there is something to put in its place.
    pub(super) fn check(&self) -> Result<(), Failure> {
        for path in self.all() {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.map_err(|error| {
                Failure::usage(format!("cannot write {}: {error}", path.display()))
            })?;
        }
        Ok(())
    }

    /// Writes the files and returns their names.
    pub(super) fn write(&self, runs: &[Measured<'_>]) -> Result<Vec<&Path>, Failure> {
        let mut written = Vec::new();
        if let Some(path) = &self.html {
            save(path, html(&report(runs)).as_bytes())?;
            written.push(path.as_path());
        }
        for (index, (result, ..)) in runs.iter().enumerate() {
            if let Some(path) = &self.hgrm {
                save(&numbered(path, index, runs.len()), hgrm(&result.response_time).as_bytes())?;
            }
            if let Some(path) = &self.hlog {
                let intervals = section::timeline(result);
                let log = hlog(result.started.unix_ms(), &intervals).map_err(Failure::work)?;
                save(&numbered(path, index, runs.len()), &log)?;
            }
        }
        written.extend(self.hgrm.as_deref());
        written.extend(self.hlog.as_deref());
        Ok(written)
    }
}

/// With several runs, the second one's file is `name-2.hgrm`.
fn numbered(path: &Path, index: usize, runs: usize) -> PathBuf {
    if runs < 2 || index == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{}.{extension}", index + 1))
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let outcome = File::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        // A full disk may show only here; a pipe or a terminal has nothing to sync.
        file.sync_all().or_else(|error| match error.kind() {
            ErrorKind::InvalidInput => Ok(()),
            _ => Err(error),
        })
    });
    outcome.map_err(|error| {
        let size = bytes.len();
        Failure::work(format!(
            "cannot write the {size} bytes of {}: {error}; the figures are on the terminal only",
            path.display()
        ))
    })
}

fn report(runs: &[Measured<'_>]) -> Report {
    let mut sections: Vec<Section> = runs.iter().map(section::of).collect();
    if let Some(first) = sections.first_mut().filter(|_| runs.len() > 1) {
        let all = runs.iter().map(|(run, _, account, _)| (*run, account.as_ref()));
        first.charts.insert(0, waterfall(&all.collect::<Vec<_>>()));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Report {
        title: "Pellucid load".to_owned(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        generated_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        machine: Machine::of_this_machine(env!("CARGO_PKG_VERSION"), Some(section::clock())),
        sections,
        notes: Vec::new(),
    }
}
