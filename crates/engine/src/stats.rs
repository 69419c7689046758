//! Figures of an engine.

use crate::collect::Collected;
use crate::ledger::{BackgroundJob, JobStats, LedgerStats, LevelStats};

/// Figures of an engine, taken together without stopping it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// The highest sequence number that readers see.
    pub published_sequence: u64,
    /// The highest sequence number known to be on the medium.
    pub durable_sequence: u64,
    /// The highest sequence number up to which every record is in tables.
    pub flushed_sequence: u64,
    /// Segments of the journal.
    pub segments: u64,
    /// Bytes of the journal's files.
    pub journal_bytes: u64,
    /// Bytes of the journal that no key needs any more, as far as merges have noticed.
    pub journal_dead_bytes: u64,
    /// Bytes of the journal of tombstones and expired values that the ledger names no more; they go
    /// once nothing that they hide is left.
    pub journal_marker_bytes: u64,
    /// What was collected since the store was opened.
    pub collected: Collected,
    /// Why the last collection in the background came to nothing, if it did.
    pub collection_trouble: Option<String>,
    /// Syncs of the journal for those who waited for durability.
    pub syncs: u64,
    /// Figures of the ledger.
    pub ledger: LedgerFigures,
}

/// Figures of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFigures {
    /// Bytes in memtables, sealed ones included.
    pub memtable_bytes: u64,
    /// Memtables that wait for their flush.
    pub sealed_memtables: u64,
    /// Memory that open tables hold beside the page cache.
    pub table_memory_bytes: u64,
    /// The levels, the youngest first.
    pub levels: Vec<LevelFigures>,
    /// Flushes of memtables.
    pub flush: JobFigures,
    /// Bytes by which levels are above their targets: what merges are behind.
    pub debt_bytes: u64,
    /// The delay that each write takes now, in proportion to the debt.
    pub write_delay_ns: u64,
    /// How often writers waited for a flush.
    pub waits: u64,
    /// How long writers waited for flushes, in nanoseconds.
    pub waited_ns: u64,
    /// Snapshots and scans that are held.
    pub snapshots: u64,
    /// The job that runs now.
    pub running: Option<Job>,
    /// Why jobs are put off or have ended, if something is wrong.
    pub trouble: Option<String>,
}

/// Figures of one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelFigures {
    /// Tables in it.
    pub tables: u64,
    /// Bytes of their files.
    pub size_bytes: u64,
    /// Their entries.
    pub entries: u64,
    /// Of them, those that say that a key is gone.
    pub tombstones: u64,
    /// Merges out of this level into the next one.
    pub compaction: JobFigures,
}

/// Sums over the jobs of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFigures {
    /// Jobs that were done.
    pub runs: u64,
    /// Of them, those that moved tables without rewriting them.
    pub moves: u64,
    /// Entries read.
    pub entries_in: u64,
    /// Of them, those that were dropped.
    pub entries_dropped: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Tables written.
    pub tables_out: u64,
    /// Time taken, in nanoseconds.
    pub duration_ns: u64,
}

/// A job that runs beside requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// A memtable becomes a table of level 0.
    Flush,
    /// Tables of one level are merged into another.
    Compaction {
        /// The upper level.
        from: u8,
        /// The level that the outcome goes to.
        to: u8,
    },
}

impl From<JobStats> for JobFigures {
    fn from(stats: JobStats) -> JobFigures {
        JobFigures {
            runs: stats.runs,
            moves: stats.moves,
            entries_in: stats.entries_in,
            entries_dropped: stats.entries_dropped,
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
            tables_out: stats.tables_out,
            duration_ns: stats.duration_ns,
        }
    }
}

impl From<LevelStats> for LevelFigures {
    fn from(stats: LevelStats) -> LevelFigures {
        LevelFigures {
            tables: stats.tables,
            size_bytes: stats.size_bytes,
            entries: stats.entries,
            tombstones: stats.tombstones,
            compaction: stats.compaction.into(),
        }
    }
}

impl From<BackgroundJob> for Job {
    fn from(job: BackgroundJob) -> Job {
        match job {
            BackgroundJob::Flush => Job::Flush,
            BackgroundJob::Compaction { from, to } => Job::Compaction { from, to },
        }
    }
}

impl From<LedgerStats> for LedgerFigures {
    fn from(stats: LedgerStats) -> LedgerFigures {
        LedgerFigures {
            memtable_bytes: stats.memtable_bytes + stats.sealed_bytes,
            sealed_memtables: stats.sealed_memtables,
            table_memory_bytes: stats.table_memory_bytes,
            levels: stats.levels.into_iter().map(LevelFigures::from).collect(),
            flush: stats.flush.into(),
            debt_bytes: stats.debt_bytes,
            write_delay_ns: stats.write_delay_ns,
            waits: stats.waits,
            waited_ns: stats.waited_ns,
            snapshots: stats.snapshots,
            running: stats.running.map(Job::from),
            trouble: stats.trouble,
        }
    }
}
