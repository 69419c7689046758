//! RocksDB's own account of a request as parts of `execute`.
//!
//! RocksDB keeps a `PerfContext` for each thread: nanoseconds of what it did since the last reset.
//! Its figures overlap (the time in files holds that of reading their blocks), so each part is what
//! the figures inside it do not have. The time for locks is left out: it lies within the order of
//! writers, and elsewhere, so that counting it would count twice. What is not named here is
//! `unaccounted`.
//!
//! Not in the C interface: its `IOStatsContext`, whose times lie in those of the log and of blocks,
//! and figures by level, so that filters and blocks are counted for all levels together.

use std::cell::RefCell;
use std::convert::Infallible;

use pellucid_account::{EngineCounts, PARTS_MAX, Part, Timeline};
use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};

/// The names of the parts, by slot.
pub const NAMES: [&str; PARTS_MAX] = [
    "stall",
    "writer_order",
    "write_ahead_log",
    "memtable",
    "files",
    "block_read",
    "snapshot",
    "unused_7",
];

thread_local! {
    static CONTEXT: RefCell<Option<PerfContext>> = const { RefCell::new(None) };
}

/// Runs a request on this thread with RocksDB's clocks on, if the request keeps an account.
pub(crate) fn accounted<T>(timeline: &mut Timeline, work: impl FnOnce() -> T) -> T {
    let Ok(result) = tried(timeline, || Ok::<T, Infallible>(work()));
    result
}

/// As [`accounted`], for work that says by its error that another thread has to do it: the time
/// until then is no part of anything.
pub(crate) fn tried<T, E>(
    timeline: &mut Timeline,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if !timeline.is_on() {
        return work();
    }
    CONTEXT.with_borrow_mut(|context| {
        let context = context.get_or_insert_with(PerfContext::default);
        set_perf_stats(PerfStatsLevel::EnableTimeExceptForMutex);
        context.reset();
        let result = work();
        set_perf_stats(PerfStatsLevel::Disable);
        let result = result?;
        let times = parts_ns(|metric| context.metric(metric));
        add_counts(&mut timeline.counts, |metric| context.metric(metric));
        let clock = timeline.clock();
        let now = clock.now();
        for (slot, ns) in times.into_iter().enumerate().filter(|(_, ns)| *ns > 0) {
            timeline.add_part(Part::new(slot as u8), clock.ticks(ns), now);
        }
        Ok(result)
    })
}

/// Nanoseconds by slot.
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

/// Adds what reads counted. In which level a key was found is not known.
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
    fn counts_add_up_and_end_at_the_most_that_is_told() {
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
