//! Figures of the tree: what it holds, and what its background work has done and cost.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use super::options::LEVELS;

/// A job that runs beside requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackgroundJob {
    /// A memtable becomes a table of level 0.
    Flush,
    /// Tables of level `from` are merged into level `to`.
    Compaction {
        /// The upper level.
        from: u8,
        /// The level that the outcome goes to.
        to: u8,
    },
}

impl BackgroundJob {
    fn number(self) -> u8 {
        match self {
            BackgroundJob::Flush => 1,
            BackgroundJob::Compaction { from, to } => 2 + from * LEVELS as u8 + to,
        }
    }

    fn from_number(number: u8) -> Option<BackgroundJob> {
        match number {
            0 => None,
            1 => Some(BackgroundJob::Flush),
            _ => {
                let levels = number - 2;
                let (from, to) = (levels / LEVELS as u8, levels % LEVELS as u8);
                Some(BackgroundJob::Compaction { from, to })
            }
        }
    }
}

/// Sums over the jobs of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobStats {
    /// Jobs that were done.
    pub(crate) runs: u64,
    /// Of them, those that moved tables without rewriting them.
    pub(crate) moves: u64,
    /// Of them, those that two threads did at once.
    pub(crate) in_parts: u64,
    /// Entries read.
    pub(crate) entries_in: u64,
    /// Of them, those that were dropped.
    pub(crate) entries_dropped: u64,
    /// Bytes read from tables or memtables.
    pub(crate) bytes_in: u64,
    /// Bytes of the tables written.
    pub(crate) bytes_out: u64,
    /// Tables written.
    pub(crate) tables_out: u64,
    /// Time taken.
    pub(crate) duration_ns: u64,
    /// Bringing a memtable's entries into order: the fetch from memory.
    pub(crate) order_ns: u64,
    /// Reading entries in order from what goes in, by samples.
    pub(crate) merge_ns: u64,
    /// Putting entries into blocks, by samples.
    pub(crate) build_ns: u64,
    /// Building filters and indexes.
    pub(crate) filter_ns: u64,
    /// Writing to the file.
    pub(crate) write_ns: u64,
    /// Syncing the tables.
    pub(crate) sync_ns: u64,
    /// Waiting until the records that a table names are on the medium.
    pub(crate) journal_sync_ns: u64,
    /// Writing the manifest and what goes with it.
    pub(crate) commit_ns: u64,
}

/// Figures of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelStats {
    pub(crate) tables: u64,
    pub(crate) size_bytes: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    /// Blocks of its tables, and those that were checked since they were opened.
    pub(crate) blocks: u64,
    pub(crate) blocks_checked: u64,
    /// Memory of its tables' directories.
    pub(crate) directory_bytes: u64,
    /// Merges out of this level.
    pub(crate) compaction: JobStats,
}

/// Figures of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerStats {
    pub(crate) memtable_bytes: u64,
    pub(crate) memtable_entries: u64,
    pub(crate) sealed_memtables: u64,
    pub(crate) sealed_bytes: u64,
    pub(crate) levels: [LevelStats; LEVELS],
    pub(crate) flush: JobStats,
    /// Bytes by which levels are above their targets.
    pub(crate) debt_bytes: u64,
    /// Memory beside the page cache.
    pub(crate) memory: LedgerMemory,
    pub(crate) write_delay_ns: u64,
    /// Waits of writers for a flush, and their time.
    pub(crate) waits: u64,
    pub(crate) waited_ns: u64,
    pub(crate) snapshots: u64,
    pub(crate) flushed_sequence: u64,
    pub(crate) published_sequence: u64,
    /// The job that runs now.
    pub(crate) running: Option<BackgroundJob>,
    /// Why jobs are put off or have ended, if something is wrong.
    pub(crate) trouble: Option<String>,
}

/// Memory of the tree beside the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerMemory {
    /// Memtables with all that belongs to them.
    pub(crate) memtables_bytes: u64,
    /// Facts, indexes and directories of tables.
    pub(crate) tables_bytes: u64,
    /// The most that a job took for the table it wrote.
    pub(crate) jobs_peak_bytes: u64,
}

#[derive(Default)]
struct JobCounters {
    runs: AtomicU64,
    moves: AtomicU64,
    in_parts: AtomicU64,
    entries_in: AtomicU64,
    entries_dropped: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    tables_out: AtomicU64,
    duration_ns: AtomicU64,
    order_ns: AtomicU64,
    merge_ns: AtomicU64,
    build_ns: AtomicU64,
    filter_ns: AtomicU64,
    write_ns: AtomicU64,
    sync_ns: AtomicU64,
    journal_sync_ns: AtomicU64,
    commit_ns: AtomicU64,
}

impl JobCounters {
    fn add(&self, stats: &JobStats) {
        let pairs = [
            (&self.runs, stats.runs),
            (&self.moves, stats.moves),
            (&self.in_parts, stats.in_parts),
            (&self.entries_in, stats.entries_in),
            (&self.entries_dropped, stats.entries_dropped),
            (&self.bytes_in, stats.bytes_in),
            (&self.bytes_out, stats.bytes_out),
            (&self.tables_out, stats.tables_out),
            (&self.duration_ns, stats.duration_ns),
            (&self.order_ns, stats.order_ns),
            (&self.merge_ns, stats.merge_ns),
            (&self.build_ns, stats.build_ns),
            (&self.filter_ns, stats.filter_ns),
            (&self.write_ns, stats.write_ns),
            (&self.sync_ns, stats.sync_ns),
            (&self.journal_sync_ns, stats.journal_sync_ns),
            (&self.commit_ns, stats.commit_ns),
        ];
        for (counter, figure) in pairs {
            counter.fetch_add(figure, Ordering::Relaxed);
        }
    }

    fn read(&self) -> JobStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        JobStats {
            runs: read(&self.runs),
            moves: read(&self.moves),
            in_parts: read(&self.in_parts),
            entries_in: read(&self.entries_in),
            entries_dropped: read(&self.entries_dropped),
            bytes_in: read(&self.bytes_in),
            bytes_out: read(&self.bytes_out),
            tables_out: read(&self.tables_out),
            duration_ns: read(&self.duration_ns),
            order_ns: read(&self.order_ns),
            merge_ns: read(&self.merge_ns),
            build_ns: read(&self.build_ns),
            filter_ns: read(&self.filter_ns),
            write_ns: read(&self.write_ns),
            sync_ns: read(&self.sync_ns),
            journal_sync_ns: read(&self.journal_sync_ns),
            commit_ns: read(&self.commit_ns),
        }
    }
}

/// The counters of the tree's work.
#[derive(Default)]
pub(super) struct Counters {
    flush: JobCounters,
    compactions: [JobCounters; LEVELS],
    waits: AtomicU64,
    waited_ns: AtomicU64,
    running: AtomicU8,
}

impl Counters {
    pub(super) fn add_job(&self, job: BackgroundJob, stats: &JobStats) {
        match job {
            BackgroundJob::Flush => self.flush.add(stats),
            BackgroundJob::Compaction { from, .. } => {
                self.compactions[usize::from(from)].add(stats)
            }
        }
    }

    pub(super) fn add_wait(&self, duration: Duration) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Notes that `job` runs from now on, and returns the one that it interrupts.
    pub(super) fn begin(&self, job: Option<BackgroundJob>) -> Option<BackgroundJob> {
        let number = job.map_or(0, BackgroundJob::number);
        BackgroundJob::from_number(self.running.swap(number, Ordering::Relaxed))
    }

    /// Puts what was counted into `stats`.
    pub(super) fn read_into(&self, stats: &mut LedgerStats) {
        stats.flush = self.flush.read();
        for (level, counters) in stats.levels.iter_mut().zip(&self.compactions) {
            level.compaction = counters.read();
        }
        stats.waits = self.waits.load(Ordering::Relaxed);
        stats.waited_ns = self.waited_ns.load(Ordering::Relaxed);
        stats.running = BackgroundJob::from_number(self.running.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_numbers_return() {
        let merges = (0..LEVELS as u8).flat_map(|from| {
            (from + 1..LEVELS as u8).map(move |to| BackgroundJob::Compaction { from, to })
        });
        for job in merges.chain([BackgroundJob::Flush]) {
            assert_eq!(BackgroundJob::from_number(job.number()), Some(job));
        }
    }
}
