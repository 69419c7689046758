//! Figures of an engine.

use crate::budget::Shares;
use crate::journal::Collected;
use crate::ledger::{BackgroundJob, JobStats, LedgerMemory, LedgerStats, LevelStats, Step};
use crate::tally::{Count, FOUND_PLACES, Tally};

pub use crate::tally::SAMPLED_EVERY;

/// What a record has beside the user's bytes: its header, the table's number, and on average half
/// of the padding (docs/format.md, Record); and its place.
const RECORD_OVERHEAD_BYTES: u64 = 40 + 2 + 4 + 4;

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
    /// How long those took, and how long writers waited for them.
    pub durability: DurabilityFigures,
    /// What was read since the store was opened.
    pub reads: ReadFigures,
    /// What was written since the store was opened.
    pub writes: WriteFigures,
    /// Figures of the ledger.
    pub ledger: LedgerFigures,
    /// Memory beside the page cache, by the shares of the setting.
    pub memory: MemoryFigures,
}

/// Memory that grows with the data, by the shares into which the engine divides its setting. What
/// is left of the setting is for what does not grow, and for what allocators leave unused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// The setting ([`crate::EngineOptions::memory_bytes`]).
    pub setting_bytes: u64,
    /// Memtables, their hash tables and orders; those that wait for their flush included. When it
    /// is used up, writers wait for a flush.
    pub memtables: MemoryShare,
    /// What is held of tables: facts, indexes, directories. When it is used up, tables do without
    /// directories and then without indexes in memory.
    pub tables: MemoryShare,
    /// What flushes and merges take while they run; in use is the most that one took so far for the
    /// table it wrote. When it is used up, tables end earlier.
    pub jobs: MemoryShare,
    /// Places of records in segments that are not sealed. When it is used up, segments end earlier.
    pub journal: MemoryShare,
}

/// A share of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryShare {
    /// What it may take, in bytes.
    pub limit_bytes: u64,
    /// What it takes, in bytes.
    pub used_bytes: u64,
}

impl MemoryFigures {
    pub(crate) fn of(shares: &Shares, ledger: &LedgerMemory, journal_bytes: u64) -> MemoryFigures {
        let share = |limit_bytes, used_bytes| MemoryShare { limit_bytes, used_bytes };
        MemoryFigures {
            setting_bytes: shares.setting_bytes,
            memtables: share(shares.memtables_bytes, ledger.memtables_bytes),
            tables: share(shares.tables_bytes, ledger.tables_bytes),
            jobs: share(shares.jobs_bytes, ledger.jobs_peak_bytes),
            journal: share(shares.journal_bytes, journal_bytes),
        }
    }
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
    /// Blocks of its tables.
    pub blocks: u64,
    /// Of them, those whose checksum was checked since their table was opened.
    pub blocks_checked: u64,
    /// Memory of the directories of its tables.
    pub directory_bytes: u64,
    /// What its tables were asked.
    pub reads: LevelReads,
    /// Merges out of this level into the next one.
    pub compaction: JobFigures,
}

/// What the tables of a level were asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelReads {
    /// Tables that were asked for a key.
    pub asked: u64,
    /// Of them, those that filter or directory ruled out.
    pub excluded: u64,
    /// Of them, those that filter or directory let pass although the key is not there.
    pub false_positives: u64,
    /// Of them, those that answered by filter and index, because they had no directory.
    pub by_index: u64,
    /// Blocks searched.
    pub blocks_searched: u64,
    /// Time of those that were sampled.
    pub time: SampledTime,
    /// Times of the steps within the tables, of as many others.
    pub steps: StepFigures,
}

/// Times of the steps of look-ups within tables, by samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepFigures {
    /// Asking the directory: for a table that has one, it stands for filter and index.
    pub directory: SampledTime,
    /// Asking the filter.
    pub filter: SampledTime,
    /// Finding the block by the index.
    pub index: SampledTime,
    /// Waiting for a block that is in the page cache, and checking its checksum if that is its
    /// first use.
    pub fetch_cached: SampledTime,
    /// Waiting for a block that is not in the page cache, and checking it.
    pub fetch_disk: SampledTime,
    /// Finding the entry within the block.
    pub search: SampledTime,
}

/// What durability cost since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurabilityFigures {
    /// Time of the syncs, in nanoseconds.
    pub sync_ns: u64,
    /// Writers that waited for a sync.
    pub waits: u64,
    /// How long they waited for their group's sync to begin, in nanoseconds.
    pub group_waited_ns: u64,
    /// How long they waited from then on, in nanoseconds.
    pub sync_waited_ns: u64,
}

/// The time of a sample: one in [`SAMPLED_EVERY`] of each thread's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampledTime {
    /// How many were timed.
    pub samples: u64,
    /// Their time, in nanoseconds.
    pub sum_ns: u64,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadFigures {
    /// Look-ups that found no entry.
    pub missing: FoundFigures,
    /// Look-ups that ended in a memtable.
    pub memtable: FoundFigures,
    /// Look-ups that ended in each level. A tombstone is found, too.
    pub levels: Vec<FoundFigures>,
    /// Values that the ledger held, or that are empty, so that no record had to be read.
    pub held_values: u64,
    /// Records read from the journal.
    pub records: u64,
    /// Bytes of their values.
    pub record_bytes: u64,
    /// Time of those that were sampled.
    pub record_time: SampledTime,
    /// Finding the place of a record, of as many others that were sampled.
    pub place_time: SampledTime,
    /// Reading and checking a record, of those of them that were in the page cache.
    pub cached_time: SampledTime,
    /// The same, of those that were not.
    pub disk_time: SampledTime,
}

/// Look-ups that ended in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundFigures {
    /// How many.
    pub count: u64,
    /// Time of those that were sampled.
    pub time: SampledTime,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFigures {
    /// Batches; a single write is one.
    pub batches: u64,
    /// Their entries.
    pub entries: u64,
    /// Bytes of their keys, heads and values.
    pub user_bytes: u64,
    /// Time in the journal of the batches that were sampled.
    pub append_time: SampledTime,
    /// Time in the memtable of the same batches, its sealing included where it was full.
    pub memtable_time: SampledTime,
    /// Waits for another writer.
    pub writer_waits: u64,
    /// How long they were, in nanoseconds.
    pub writer_waited_ns: u64,
    /// Delays because level 0 or sealed memtables had piled up.
    pub delays: u64,
    /// How long they were, in nanoseconds.
    pub delayed_ns: u64,
}

impl ReadFigures {
    pub(crate) fn of(tally: &Tally) -> ReadFigures {
        let found = |place: usize| FoundFigures {
            count: tally.sum(Count::Found(place)),
            time: sampled(tally, Count::FoundSamples(place), Count::FoundTicks(place)),
        };
        ReadFigures {
            missing: found(0),
            memtable: found(1),
            levels: (2..FOUND_PLACES).map(found).collect(),
            held_values: tally.sum(Count::HeldValues),
            records: tally.sum(Count::Records),
            record_bytes: tally.sum(Count::RecordBytes),
            record_time: sampled(tally, Count::RecordSamples, Count::RecordTicks),
            place_time: sampled(tally, Count::PlaceSamples, Count::PlaceTicks),
            cached_time: sampled(tally, Count::CachedSamples, Count::CachedTicks),
            disk_time: sampled(tally, Count::DiskSamples, Count::DiskTicks),
        }
    }
}

impl LevelReads {
    pub(crate) fn of(tally: &Tally, level: usize) -> LevelReads {
        LevelReads {
            asked: tally.sum(Count::Asked(level)),
            excluded: tally.sum(Count::Excluded(level)),
            false_positives: tally.sum(Count::False(level)),
            by_index: tally.sum(Count::Plain(level)),
            blocks_searched: tally.sum(Count::Blocks(level)),
            time: sampled(tally, Count::AskedSamples(level), Count::AskedTicks(level)),
            steps: StepFigures::of(tally, level),
        }
    }
}

impl StepFigures {
    fn of(tally: &Tally, level: usize) -> StepFigures {
        let of = |step: Step| {
            sampled(tally, Count::StepSamples(step, level), Count::StepTicks(step, level))
        };
        StepFigures {
            directory: of(Step::Directory),
            filter: of(Step::Filter),
            index: of(Step::Index),
            fetch_cached: of(Step::FetchCached),
            fetch_disk: of(Step::FetchDisk),
            search: of(Step::Search),
        }
    }
}

impl WriteFigures {
    pub(crate) fn of(tally: &Tally) -> WriteFigures {
        WriteFigures {
            batches: tally.sum(Count::Batches),
            entries: tally.sum(Count::Entries),
            user_bytes: tally.sum(Count::UserBytes),
            append_time: sampled(tally, Count::BatchSamples, Count::AppendTicks),
            memtable_time: sampled(tally, Count::BatchSamples, Count::MemtableTicks),
            writer_waits: tally.sum(Count::WriterWaits),
            writer_waited_ns: tally.sum_ns(Count::WriterWaitTicks),
            delays: tally.sum(Count::Delays),
            delayed_ns: tally.sum(Count::DelayNanoseconds),
        }
    }
}

fn sampled(tally: &Tally, samples: Count, ticks: Count) -> SampledTime {
    SampledTime { samples: tally.sum(samples), sum_ns: tally.sum_ns(ticks) }
}

impl EngineStats {
    /// Bytes written to files for each byte that the user gave, since the store was opened: the
    /// journal's records (nearly the user's bytes), tables, and what collection copied. `None`
    /// before the first write.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let merged: u64 = self.ledger.levels.iter().map(|level| level.compaction.bytes_out).sum();
        let tables = self.ledger.flush.bytes_out + merged;
        let records = self.writes.user_bytes + self.writes.entries * RECORD_OVERHEAD_BYTES;
        let written = records + tables + self.collected.copied_bytes;
        (self.writes.user_bytes > 0).then(|| written as f64 / self.writes.user_bytes as f64)
    }

    /// Bytes of all files for each byte that is not known to be dead. `None` in an empty store.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        let tables: u64 = self.ledger.levels.iter().map(|level| level.size_bytes).sum();
        let live = self.journal_bytes.saturating_sub(self.journal_dead_bytes);
        (live > 0).then(|| (self.journal_bytes + tables) as f64 / live as f64)
    }
}

/// Sums over the jobs of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFigures {
    /// Jobs that were done.
    pub runs: u64,
    /// Of them, those that moved tables without rewriting them.
    pub moves: u64,
    /// Of them, merges that two threads did at once, each its part of the keys, because merges were
    /// behind. The times by what was done are the sums of both.
    pub in_parts: u64,
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
    /// Bringing a memtable's entries into order: the fetch from memory, in nanoseconds.
    pub order_ns: u64,
    /// Reading entries in order from what goes in, by samples, in nanoseconds.
    pub merge_ns: u64,
    /// Putting entries into blocks, by samples, in nanoseconds.
    pub build_ns: u64,
    /// Building filters and indexes, in nanoseconds.
    pub filter_ns: u64,
    /// Writing to the file, in nanoseconds.
    pub write_ns: u64,
    /// Syncing the tables, in nanoseconds.
    pub sync_ns: u64,
    /// Waiting until the records that a table names are on the medium, in nanoseconds.
    pub journal_sync_ns: u64,
    /// Writing the manifest and what goes with it, in nanoseconds.
    pub commit_ns: u64,
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
            in_parts: stats.in_parts,
            entries_in: stats.entries_in,
            entries_dropped: stats.entries_dropped,
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
            tables_out: stats.tables_out,
            duration_ns: stats.duration_ns,
            order_ns: stats.order_ns,
            merge_ns: stats.merge_ns,
            build_ns: stats.build_ns,
            filter_ns: stats.filter_ns,
            write_ns: stats.write_ns,
            sync_ns: stats.sync_ns,
            journal_sync_ns: stats.journal_sync_ns,
            commit_ns: stats.commit_ns,
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
            blocks: stats.blocks,
            blocks_checked: stats.blocks_checked,
            directory_bytes: stats.directory_bytes,
            reads: LevelReads::default(),
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
            table_memory_bytes: stats.memory.tables_bytes,
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
