//! The files that a load writes: `.html`, `.hgrm`, `.hlog`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pellucid_report::{Machine, Report, Section, command_line, hgrm, hlog, html};

use super::measured::Run;
use super::section;
use super::waterfall::waterfall;
use crate::Failure;

/// The files for results beside the terminal.
#[derive(Default)]
pub(crate) struct Outputs {
    pub(crate) html: Option<PathBuf>,
    pub(crate) hgrm: Option<PathBuf>,
    pub(crate) hlog: Option<PathBuf>,
}

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

    /// Writes the files and tells their names; one that cannot be written keeps no other from it.
    /// `notes` stand in the report.
    pub(super) fn write(&self, runs: &[&Run], notes: Vec<String>) -> Result<(), Failure> {
        let mut outcomes = Vec::new();
        if let Some(path) = &self.html {
            outcomes.push(save(path, html(&report(runs, notes)).as_bytes()));
        }
        for (index, run) in runs.iter().enumerate() {
            let result = &run.result;
            if let Some(path) = &self.hgrm {
                let path = numbered(path, index, runs.len());
                outcomes.push(save(&path, hgrm(&result.times.response).as_bytes()));
            }
            if let Some(path) = &self.hlog {
                let path = numbered(path, index, runs.len());
                let log = hlog(result.started.unix_ms(), &section::timeline(result));
                outcomes.push(log.map_err(Failure::work).and_then(|log| save(&path, &log)));
            }
        }
        Failure::all(outcomes)
    }
}

/// With several runs, the second one's file is `name-2.hgrm`.
fn numbered(path: &Path, index: usize, runs: usize) -> PathBuf {
    if runs < 2 || index == 0 {
        return path.to_owned();
    }
    let prefix = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{prefix}-{}.{extension}", index + 1))
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let told = replace(path, |file| file.write_all(bytes));
    told.map(|()| eprintln!("wrote {}", path.display())).map_err(|error| {
        let size = bytes.len();
        Failure::work(format!("cannot write the {size} bytes of {}: {error}", path.display()))
    })
}

/// Writes a file beside it and puts that in its place, so that a full disk does not cost what was
/// there before. A pipe or a terminal is written to as it is.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        return write(&mut File::create(path)?);
    }
    // Where the name is a link, what it leads to is replaced.
    let path = path.canonicalize()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.part"));
    let outcome = File::create(&part)
        .and_then(|mut file| write(&mut file).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&part, &path));
    if outcome.is_err() {
        // It may not even have been made.
        drop(std::fs::remove_file(&part));
    }
    outcome
}

fn report(runs: &[&Run], mut notes: Vec<String>) -> Report {
    let mut sections: Vec<Section> = runs.iter().map(|run| run.section()).collect();
    if let Some(first) = sections.first_mut().filter(|_| runs.len() > 1) {
        let all = runs.iter().map(|run| (&run.result, run.account.as_ref()));
        first.charts.insert(0, waterfall(&all.collect::<Vec<_>>()));
    }
    let failures = runs.iter().zip(&sections);
    notes.extend(
        failures.filter_map(|(run, section)| Some(format!("{}: {}", section.name, run.failure()?))),
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Report {
        title: "Pellucid load".to_owned(),
        command: command_line(),
        generated_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        machine: Machine::of_this_machine(env!("CARGO_PKG_VERSION"), Some(section::clock())),
        sections,
        notes,
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    /// A disk that was full under the report left neither it nor the one before.
    #[test]
    fn what_was_there_stays_until_all_is_written() {
        let folder = tempfile::TempDir::new().unwrap();
        let (path, link) = (folder.path().join("r.html"), folder.path().join("l.html"));
        std::fs::write(&path, "before").unwrap();
        let full = |file: &mut File| {
            file.write_all(b"half")?;
            Err(ErrorKind::StorageFull.into())
        };
        assert_eq!(replace(&path, full).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, |file| file.write_all(b"after")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "after");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
