//! RocksDB's own measurements of a request, as parts of `execute`.
//!
//! RocksDB has a `PerfContext` for each thread, with nanoseconds since the last reset. Its metrics
//! overlap: for example, the time in files includes the time of reading their blocks. So the time
//! of an inner metric is subtracted from the outer one. Times for locks are left out, because they
//! are part of other metrics, such as the order of writers, and would count twice. All other time
//! is `unaccounted`.
//!
//! The C interface does not offer the `IOStatsContext`, whose times are part of those of the log
//! and of blocks, nor metrics by level. So filters and blocks are counted for all levels together.

use std::cell::RefCell;

use pellucid_account::{EngineCounts, PARTS_MAX, Part, Timeline};
use pellucid_store::{Result, StoreError};
use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};

/// The names of the parts, by slot.
pub const NAMES: [&str; PARTS_MAX] = [
    "stall", "writer_order", "write_ahead_log", "memtable", "files", "block_read", "snapshot",
    "unused_7",
];

thread_local! {
    static CONTEXT: RefCell<Option<PerfContext>> = const { RefCell::new(None) };
}

/// Runs a request on this thread, and measures it with RocksDB's metrics if its timeline is on.
/// After [`StoreError::NotInMemory`], another thread has to do the work, and nothing is added to
/// the timeline.
pub(crate) fn accounted<T>(timeline: &mut Timeline, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if !timeline.is_on() {
        return work();
    }
    CONTEXT.with_borrow_mut(|context| {
        let context = context.get_or_insert_with(PerfContext::default);
        set_perf_stats(PerfStatsLevel::EnableTimeExceptForMutex);
        context.reset();
        let result = work();
        set_perf_stats(PerfStatsLevel::Disable);
        if matches!(result, Err(StoreError::NotInMemory)) {
            return result;
        }
        let times = parts_ns(|metric| context.metric(metric));
        add_counts(&mut timeline.counts, |metric| context.metric(metric));
        let clock = timeline.clock();
        let now = clock.now();
        for (slot, ns) in times.into_iter().enumerate().filter(|(_, ns)| *ns > 0) {
            timeline.add_part(Part::new(slot as u8), clock.ticks(ns), now);
        }
        result
    })
}

/// The nanoseconds of each part, by slot.
fn parts_ns(metric: impl Fn(PerfMetric) -> u64) -> [u64; 7] {
    use PerfMetric as M;
    let blocks =
        metric(M::BlockReadTime) + metric(M::BlockChecksumTime) + metric(M::BlockDecompressTime);
    let files = metric(M::GetFromOutputFilesTime).saturating_sub(blocks);
    [
        metric(M::WriteDelayTime),
        metric(M::WritePreAndPostProcessTime),
        metric(M::WriteWalTime),
        metric(M::WriteMemtableTime) + metric(M::GetFromMemtableTime),
        files,
        blocks,
        metric(M::GetSnapshotTime),
    ]
}

/// Adds the counts of a read. RocksDB does not tell in which level a key was found.
fn add_counts(counts: &mut EngineCounts, metric: impl Fn(PerfMetric) -> u64) {
    use PerfMetric as M;
    let add = |sum: &mut u8, more: u64| {
        *sum = sum.saturating_add(u8::try_from(more).unwrap_or(u8::MAX));
    };
    let (passed, excluded) = (metric(M::BloomSstHitCount), metric(M::BloomSstMissCount));
    add(&mut counts.tables, passed + excluded);
    add(&mut counts.filters_excluded, excluded);
    add(&mut counts.blocks, metric(M::BlockReadCount) + metric(M::BlockCacheHitCount));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_to_the_largest_value_of_their_type() {
        let mut counts = EngineCounts { blocks: 7, ..EngineCounts::default() };
        add_counts(&mut counts, |metric| match metric {
            PerfMetric::BloomSstHitCount => 1,
            PerfMetric::BloomSstMissCount => 2,
            PerfMetric::BlockCacheHitCount => 1_000,
            _ => 0,
        });
        assert_eq!((counts.tables, counts.filters_excluded, counts.blocks), (3, 2, u8::MAX));
    }

    #[test]
    fn time_in_blocks_counts_once() {
        let ns = parts_ns(|metric| match metric {
            PerfMetric::GetFromOutputFilesTime => 100,
            PerfMetric::BlockReadTime => 60,
            PerfMetric::BlockChecksumTime => 10,
            _ => 0,
        });
        assert_eq!(ns, [0, 0, 0, 0, 30, 70, 0]);
    }
}
