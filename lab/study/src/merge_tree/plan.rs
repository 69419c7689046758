//! The size of a run, as the child is told.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::StudyError;
use crate::study::Scale;

/// Mean length of a value: a log-normal distribution around the median.
pub(super) const VALUE_MEDIAN_BYTES: f64 = 2048.0;
pub(super) const VALUE_SPREAD: f64 = 0.8;
/// The shortest and the longest value.
pub(super) const VALUE_LENGTHS: std::ops::RangeInclusive<usize> = 128..=64 << 10;
/// Length of a head: what a document store keeps of an object beside its value.
pub(super) const HEAD_BYTES: usize = 160;
/// About what a record takes in the journal.
const RECORD_BYTES: f64 = 3_050.0;
/// Threads that put the load on.
const THREADS: usize = 4;
/// The engine has this part of the memory for itself; what is left holds pages of its files. It is
/// so little that not all tables have a directory, so that the other way of a look-up, by filter
/// and index, is seen as well.
const ENGINE_SHARE: u64 = 64;
/// Bounds of the memory of a run.
const MEMORY_BOUNDS_BYTES: std::ops::RangeInclusive<u64> = 32 << 20..=1 << 40;
/// Bounds of the length of a run.
const SECONDS_BOUNDS: std::ops::RangeInclusive<u64> = 2..=7 * 24 * 3_600;
/// Bounds of a segment: some of them shall fit into memory.
const SEGMENT_BOUNDS_BYTES: (u64, u64) = (4 << 20, 64 << 20);
/// The bytes that a run may need on disk for each byte that it writes to the journal: tables, and
/// what is merged or collected meanwhile.
const DISK_FACTOR: f64 = 1.5;

/// The user's choice.
#[derive(Clone, Debug, Default)]
pub struct MergeTreeOptions {
    /// The size, unless the following say otherwise.
    pub scale: Scale,
    /// The length of the load.
    pub seconds: Option<u64>,
    /// The memory that the store has, pages of its files included.
    pub memory_bytes: Option<u64>,
    /// The folder in which the store is made, in one of its own that is removed afterwards;
    /// otherwise the folder for temporary files.
    pub data: Option<PathBuf>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The length of the load.
    pub(super) seconds: u64,
    /// The bound of memory.
    pub(super) memory_bytes: u64,
    /// Of it, the engine's own.
    pub(super) engine_memory_bytes: u64,
    /// Size of a journal segment.
    pub(super) segment_bytes: u64,
    /// The size of the journal in the end.
    pub(super) target_bytes: u64,
    /// Transactions that are begun in each second.
    pub(super) transactions_per_second: f64,
    /// Threads that put the load on.
    pub(super) threads: usize,
    /// The folder of the store.
    pub(super) data: PathBuf,
    /// The control group to enter.
    pub(super) group: Option<PathBuf>,
}

impl Plan {
    /// The plan of a run whose store is in `data`.
    pub(super) fn of(options: &MergeTreeOptions, data: PathBuf) -> Result<Plan, StudyError> {
        // Seconds, memory, and by how much the store outgrows it. In the original the first of
        // twelve hours fitted into the page cache.
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
            // Every other transaction writes.
            transactions_per_second: 2.0 * puts_per_second,
            threads: THREADS,
            data,
            group: None,
        })
    }

    /// The bytes that the run may need on disk.
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
    fn what_makes_no_sense_is_refused() {
        let refused = |seconds, memory_bytes| {
            let options = MergeTreeOptions { seconds, memory_bytes, ..MergeTreeOptions::default() };
            plan(&options).unwrap_err().to_string()
        };
        assert!(refused(Some(0), None).contains("2 seconds"));
        assert!(refused(None, Some(1)).contains("32M"));
        assert!(refused(None, Some(u64::MAX)).contains("1T"));
    }
}
