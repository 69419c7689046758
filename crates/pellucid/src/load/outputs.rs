//! The output files of a load: `.html`, `.hgrm` and `.hlog`.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use clap::Args;
use pellucid_report::{Report, Section, hgrm, hlog, html};

use super::measured_run::Run;
use super::section;
use super::waterfall::waterfall;
use crate::Failure;
use crate::output_stream::OutputStream;

// The flags of files for results beside the terminal.
#[derive(Args)]
pub(crate) struct Outputs {
    /// Write a report that any browser shows.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
    /// Write the distribution of response times, as HdrHistogram's plotters read it.
    #[arg(long, value_name = "FILE.hgrm")]
    hgrm: Option<PathBuf>,
    /// Write response times over time as an interval log of HdrHistogram.
    #[arg(long, value_name = "FILE.hlog")]
    hlog: Option<PathBuf>,
}

impl Outputs {
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.html, &self.hgrm, &self.hlog].into_iter().flatten()
    }

    /// Checks before a long run that the files can be written, and that they are different ones.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let mut paths: Vec<_> = self.all().collect();
        paths.sort_unstable();
        if let Some(pair) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
            let path = pair[0].display();
            return Err(Failure::usage(format!("{path}: give each result a file of its own")));
        }
        self.all().try_for_each(|path| check_writable(path))
    }

    /// Writes all files and prints their names; a failure does not stop the others. `notes` appear
    /// in the report.
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

/// The path for the run with this index: with several runs, that of the second is `name-2.hgrm`.
fn numbered(path: &Path, index: usize, runs: usize) -> PathBuf {
    if runs < 2 || index == 0 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{}", index + 1));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Checks that [`save`] can open a file, and leaves no trace of that. A pipe is not opened: its
/// reader would take the end of the check for that of the output.
pub(crate) fn check_writable(path: &Path) -> Result<(), Failure> {
    if path.metadata().is_ok_and(|there| there.file_type().is_fifo()) {
        return Ok(());
    }
    OutputStream::file(path).map(drop).map_err(|failure| Failure::usage(failure.text))
}

/// Writes a file, which gets its name once it is complete, and prints the name.
pub(crate) fn save(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || {
        let mut out = OutputStream::file(path)?;
        // A report has to be complete, so a closed pipe is an error here.
        if !out.write(bytes)? {
            return Err(Failure::work("the reader has closed it"));
        }
        out.end()
    };
    write().map_err(|failure| failure.at(&format!("{} bytes", bytes.len())))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn report(runs: &[&Run], mut notes: Vec<String>) -> Report {
    let mut sections: Vec<Section> = runs.iter().map(|run| run.section()).collect();
    if let Some(first) = sections.first_mut().filter(|_| runs.len() > 1) {
        let all = runs.iter().map(|run| (&run.result, run.accounts.as_slice()));
        first.charts.insert(0, waterfall(&all.collect::<Vec<_>>()));
    }
    let failures = runs.iter().zip(&sections);
    notes.extend(
        failures.filter_map(|(run, section)| Some(format!("{}: {}", section.name, run.failure()?))),
    );
    section::report_of("Pellucid load", sections, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the second of several files without an extension was `out-2.`.
    #[test]
    fn a_number_stands_before_the_extension_if_there_is_one() {
        let second = |path: &str| numbered(Path::new(path), 1, 2);
        assert_eq!(second("a.b/out"), Path::new("a.b/out-2"));
        assert_eq!(second("a/out.old.hgrm"), Path::new("a/out.old-2.hgrm"));
        assert_eq!(numbered(Path::new("out"), 0, 2), Path::new("out"));
        assert_eq!(numbered(Path::new("out"), 0, 1), Path::new("out"));
    }
}
