//! The plan of a run: its load, its memory and its store.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::StudyError;
use crate::study::Scale;

/// The median length of a value; lengths have a log-normal distribution.
pub(super) const VALUE_MEDIAN_BYTES: f64 = 2048.0;
/// The standard deviation of the logarithm of a value's length.
pub(super) const VALUE_SPREAD: f64 = 0.8;
/// The shortest and the longest value in bytes.
pub(super) const VALUE_LENGTHS: std::ops::RangeInclusive<usize> = 128..=64 << 10;
/// The length of a head in bytes: the metadata that a document store keeps beside a value.
pub(super) const HEAD_BYTES: usize = 160;
/// The approximate size of a record in the journal, in bytes.
const RECORD_BYTES: f64 = 3_050.0;
/// Threads of the load.
const THREADS: usize = 4;
/// The engine uses one part in this many of the memory; the rest holds pages of its files. It is so
/// little that not all tables have a directory, so that look-ups by filter and index occur too.
const ENGINE_SHARE: u64 = 64;
/// The allowed memory of a run.
const MEMORY_BOUNDS_BYTES: std::ops::RangeInclusive<u64> = 32 << 20..=1 << 40;
/// The allowed length of a run.
const SECONDS_BOUNDS: std::ops::RangeInclusive<u64> = 2..=7 * 24 * 3_600;
/// The smallest and the largest segment: several of them should fit into memory.
const SEGMENT_BOUNDS_BYTES: (u64, u64) = (4 << 20, 64 << 20);
/// The disk space that a run may need, as a multiple of the bytes that it writes to the journal. It
/// includes tables, and the temporary space of merges and collections.
const DISK_FACTOR: f64 = 1.5;

/// The options of the study.
#[derive(Clone, Debug, Default)]
pub struct MergeTreeOptions {
    /// The size of the study; it sets the defaults of the other options.
    pub scale: Scale,
    /// The length of the load in seconds.
    pub seconds: Option<u64>,
    /// The memory of the store, including the pages of its files.
    pub memory_bytes: Option<u64>,
    /// The folder in which a temporary folder for the store is made; the system's temporary folder
    /// if `None`.
    pub data: Option<PathBuf>,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The length of the load in seconds.
    pub(super) seconds: u64,
    /// The limit of memory.
    pub(super) memory_bytes: u64,
    /// The engine's part of the memory.
    pub(super) engine_memory_bytes: u64,
    /// The size of a journal segment.
    pub(super) segment_bytes: u64,
    /// The size of the journal at the end.
    pub(super) target_bytes: u64,
    /// The rate of transactions.
    pub(super) transactions_per_second: f64,
    /// Threads of the load.
    pub(super) threads: usize,
    /// The folder of the store.
    pub(super) data: PathBuf,
    /// The control group to enter, if there is one.
    pub(super) group: Option<PathBuf>,
}

impl Plan {
    /// Makes the plan of a run whose store is in `data`.
    ///
    /// # Errors
    /// If the length or the memory is out of bounds.
    pub(super) fn of(options: &MergeTreeOptions, data: PathBuf) -> Result<Plan, StudyError> {
        // Seconds, memory, and the size of the journal as a multiple of the memory. In the
        // original, the data of the first of twelve hours fitted into the page cache.
        let (seconds, memory_bytes, growth) = match options.scale {
            Scale::Quick => (40, 256 << 20, 4),
            Scale::Default => (180, 1 << 30, 4),
            Scale::Full => (12 * 3_600, 8 << 30, 12),
        };
        let seconds = options.seconds.unwrap_or(seconds);
        let memory_bytes = options.memory_bytes.unwrap_or(memory_bytes);
        if !SECONDS_BOUNDS.contains(&seconds) || !MEMORY_BOUNDS_BYTES.contains(&memory_bytes) {
            return Err(StudyError::Options(
                "the study takes 2 seconds to 7 days, and 32M to 1T of memory".to_owned(),
            ));
        }
        let target_bytes = memory_bytes * growth;
        let puts_per_second = target_bytes as f64 / RECORD_BYTES / seconds as f64;
        let (least, most) = SEGMENT_BOUNDS_BYTES;
        Ok(Plan {
            seconds,
            memory_bytes,
            engine_memory_bytes: memory_bytes / ENGINE_SHARE,
            segment_bytes: (memory_bytes / 16).clamp(least, most),
            target_bytes,
            // Half of the transactions write.
            transactions_per_second: 2.0 * puts_per_second,
            threads: THREADS,
            data,
            group: None,
        })
    }

    /// The disk space that the run may need, in bytes.
    pub(super) fn disk_bytes(&self) -> u64 {
        (self.target_bytes as f64 * DISK_FACTOR) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(options: &MergeTreeOptions) -> Result<Plan, StudyError> {
        Plan::of(options, PathBuf::new())
    }

    #[test]
    fn every_scale_outgrows_its_memory() {
        for scale in [Scale::Quick, Scale::Default, Scale::Full] {
            let plan = plan(&MergeTreeOptions { scale, ..MergeTreeOptions::default() }).unwrap();
            assert!(plan.target_bytes >= 4 * plan.memory_bytes, "{plan:?}");
            let written = plan.transactions_per_second / 2.0 * plan.seconds as f64 * RECORD_BYTES;
            assert!((written / plan.target_bytes as f64 - 1.0).abs() < 0.01, "{plan:?}");
            assert!(plan.engine_memory_bytes >= 1 << 20 && plan.disk_bytes() > plan.target_bytes);
        }
    }

    #[test]
    fn options_out_of_bounds_are_refused() {
        let refused = |seconds, memory_bytes| {
            let options = MergeTreeOptions { seconds, memory_bytes, ..MergeTreeOptions::default() };
            plan(&options).unwrap_err().to_string()
        };
        assert!(refused(Some(0), None).contains("2 seconds"));
        assert!(refused(None, Some(1)).contains("32M"));
        assert!(refused(None, Some(u64::MAX)).contains("1T"));
    }
}
