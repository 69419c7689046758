//! RocksDB's own account of a request as parts of `execute`.
//!
//! RocksDB keeps a `PerfContext` for each thread: nanoseconds of what it did since the last reset.
//! Its figures overlap (the time in files holds that of reading their blocks), so each part is what
//! the figures inside it do not have. The time for locks is left out: it lies within the order of
//! writers, and elsewhere, so that counting it would count twice. Its `IOStatsContext` is not in
//! the C interface. What is not named here is `unaccounted`.

use std::cell::RefCell;
use std::convert::Infallible;

use pellucid_account::{PARTS_MAX, Part, Timeline};
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

#[cfg(test)]
mod tests {
    use super::*;

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
