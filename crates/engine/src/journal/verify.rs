//! Offline checks of segments: every record and every footer, without changing anything.

use std::path::{Path, PathBuf};

use pellucid_io::FileSystem;

use super::footer::{Footer, NoFooter, decode_footer};
use super::record::{Record, RecordKind};
use super::scan::scan_records;
use super::segment::{JOURNAL_FOLDER, segment_number, segment_path};
use super::segment_selection::{Span, current_segments};
use crate::codec::{FileHeader, FileKind, checksum_seed};
use crate::error::{Error, Result};
use crate::ledger::{Manifest, SegmentMetadata};
use crate::mapped_file::{map_file, unreadable_parts};

/// The report on a segment of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// The file.
    pub path: PathBuf,
    /// The sequence number of the first record.
    pub first_sequence: u64,
    /// The sequence number of the last intact record.
    pub last_sequence: u64,
    /// The number of records. [`crate::stat`] does not read the file: it reports the number that
    /// the segment was written with, of which garbage collection may have left fewer.
    pub records: u64,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
    /// True if the segment is sealed; if not, the next opening replays it.
    pub is_sealed: bool,
}

/// The findings of a check of a segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentSummary {
    pub(crate) report: SegmentReport,
    number: u64,
    is_collected: bool,
    /// True if the segment names the mount in which it was made.
    pub(crate) has_mount: bool,
    /// True if the file ends with the magic of a footer, but the footer is invalid.
    pub(crate) has_damaged_footer: bool,
    /// Offset and description of each problem, up to [`PROBLEMS_MAX`].
    pub(crate) problems: Vec<(u64, String)>,
}

/// The most problems that are listed for one segment.
const PROBLEMS_MAX: usize = 100;

impl SegmentSummary {
    /// The sequence numbers that the segment covers.
    pub(crate) fn span(&self) -> Span {
        Span {
            number: self.number,
            first_sequence: self.report.first_sequence,
            last_sequence: self.report.last_sequence,
            is_collected: self.is_collected,
        }
    }

    fn problem(&mut self, offset: u64, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push((offset, what.into()));
        }
    }
}

/// The numbers of the segments in the store's directory, ascending.
pub(crate) fn list_segments(files: &dyn FileSystem, directory: &Path) -> Result<Vec<u64>> {
    let folder = directory.join(JOURNAL_FOLDER);
    let names = files.list(&folder).map_err(|error| Error::io("list", &folder, error))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Checks everything in segment `number` that can be checked without other segments; `None` if it
/// was made but never used. [`super::check_journal`] checks that the journal may end where it ends.
pub(crate) fn verify_segment(
    files: &dyn FileSystem,
    directory: &Path,
    manifest: &Manifest,
    number: u64,
) -> Result<Option<SegmentSummary>> {
    let path = segment_path(directory, number);
    let map = map_file(files, &path)?;
    let (bytes, size_bytes) = (map.bytes(), map.length() as u64);
    let facts = manifest.segments.iter().find(|facts| facts.number == number);
    let sealed_facts = facts.filter(|facts| facts.last_sequence != 0);
    let report = SegmentReport { path: path.clone(), size_bytes, ..Default::default() };
    let mut summary = SegmentSummary { report, number, ..Default::default() };
    for (offset, length) in unreadable_parts(&*map) {
        summary.problem(offset, format!("{length} bytes cannot be read from the medium"));
    }
    let identity = manifest.store_identity;
    let header =
        match FileHeader::decode_expected(bytes, FileKind::Journal, identity, number, &path) {
            Ok(header) => header,
            Err(Error::Corruption { offset, what, .. }) => {
                summary.problem(offset, what);
                return Ok(Some(summary));
            }
            Err(error) => {
                summary.problem(0, error.to_string());
                return Ok(Some(summary));
            }
        };
    if header.first_sequence == 0 && sealed_facts.is_none() {
        return Ok(Some(summary).filter(|summary| !summary.problems.is_empty()));
    }
    summary.report.first_sequence = header.first_sequence;
    summary.has_mount = header.mount_identity != [0; 16];
    let seed = checksum_seed(&[identity]);
    match decode_footer(bytes, identity, number, header.first_sequence) {
        Ok(footer) => verify_sealed(bytes, seed, &footer, &mut summary),
        Err(reason) => {
            // A loss of power while a segment is being sealed may leave a part of its footer.
            summary.has_damaged_footer = reason == NoFooter::Damaged;
            if sealed_facts.is_some() {
                summary.problem(size_bytes, "the footer is damaged");
            }
            let scanned = scan_records(bytes, seed, summary.report.first_sequence);
            summary.report.records = scanned.offsets.len() as u64;
            summary.report.last_sequence =
                (summary.report.first_sequence + summary.report.records).saturating_sub(1);
        }
    }
    if let Some(facts) = sealed_facts {
        check_facts(facts, &mut summary);
    }
    Ok(Some(summary))
}

/// Checks all segments that are part of the journal, without those that an interrupted garbage
/// collection left behind. `failed` gets the error of each segment that cannot be checked; if it
/// returns an error, the check ends with it.
pub(crate) fn verify_segments(
    files: &dyn FileSystem,
    directory: &Path,
    manifest: &Manifest,
    mut failed: impl FnMut(Error) -> Result<()>,
) -> Result<Vec<SegmentSummary>> {
    let mut summaries = Vec::new();
    for number in list_segments(files, directory)? {
        match verify_segment(files, directory, manifest, number) {
            Ok(summary) => summaries.extend(summary),
            Err(error) => failed(error)?,
        }
    }
    let spans: Vec<_> = summaries.iter().map(SegmentSummary::span).collect();
    let mut is_current = current_segments(&spans, manifest).into_iter();
    summaries.retain(|_| is_current.next().unwrap_or(true));
    Ok(summaries)
}

/// Checks each record that the footer names.
fn verify_sealed(bytes: &[u8], seed: u32, footer: &Footer, summary: &mut SegmentSummary) {
    summary.report.is_sealed = true;
    summary.report.last_sequence = footer.last_sequence;
    summary.report.records = u64::from(footer.count);
    summary.is_collected = footer.clean_sequence.is_some();
    for (distance, offset) in footer.entries(bytes) {
        let sequence = summary.report.first_sequence + distance;
        let end = footer.offset as usize;
        let record = bytes.get(offset as usize..end).unwrap_or_default();
        let decoded = Record::decode(record, seed);
        match decoded.and_then(|record| record.check_packed().map(|()| record)) {
            Ok(record) if record.kind != RecordKind::SyncMark && record.sequence == sequence => {}
            Ok(record) => {
                let what = format!("expected sequence {sequence}, found {}", record.sequence);
                summary.problem(offset, what);
            }
            Err(damage) => {
                summary.problem(offset, format!("sequence {sequence}: {}", damage.text()));
            }
        }
    }
}

fn check_facts(facts: &SegmentMetadata, summary: &mut SegmentSummary) {
    let agrees = facts.first_sequence == summary.report.first_sequence
        && facts.last_sequence == summary.report.last_sequence;
    if !agrees {
        let what = format!(
            "the manifest names sequences {} to {}, the file holds {} to {}",
            facts.first_sequence,
            facts.last_sequence,
            summary.report.first_sequence,
            summary.report.last_sequence
        );
        summary.problem(0, what);
    }
}
