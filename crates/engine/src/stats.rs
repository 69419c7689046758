//! The figures of an engine, in one table: everything that is counted. It produces the fields of
//! [`Engine::stats`], and the figures page, the metrics and the log of a server (`figures`).
//!
//! [`Engine::stats`]: crate::Engine::stats

use pellucid_clock::Clock;

use crate::figures::{
    Elapsed, Figure, FigureValue, Metric, Number, Sampled, SampledTime, counters, figures, place,
    shown,
};

/// The bytes of a record beside the user's bytes: its header, the table number, and on average half
/// of the padding (docs/format.md, Record); and its entry in the footer's offset index.
const RECORD_OVERHEAD_BYTES: u64 = 40 + 2 + 4 + 4;

/// The levels, the youngest first.
type Levels = Vec<LevelFigures>;
/// Look-ups by the level in which they ended.
type FoundByLevel = Vec<FoundFigures>;

figures! {
    /// Figures of an engine, taken together without stopping it.
    EngineStats {
        /// The highest sequence number that readers see.
        published_sequence: Number at "state/published_sequence",
        /// The highest sequence number known to be on the medium.
        durable_sequence: Number at "state/durable_sequence",
        /// The highest sequence number up to which every record is in tables.
        flushed_sequence: Number at "state/flushed_sequence",
        /// Segments of the journal.
        segments: Number at "state/journal_segments",
        /// Bytes of the journal's files.
        journal_bytes: Number at "state/journal_bytes",
        /// Bytes of the journal that no key needs any more, as far as merges have found out.
        journal_dead_bytes: Number at "state/journal_dead_bytes",
        /// Bytes of the journal's tombstones and expired values that the ledger no longer names.
        /// They are freed once they hide nothing any more.
        journal_marker_bytes: Number at "state/journal_marker_bytes",
        /// Syncs of the journal for callers that waited for durability, flushes and backups.
        syncs: Number at "writes/syncs",
        /// Garbage collection since the store was opened.
        collected: Collected at "background/collection",
        /// The time that syncs took, and the time that writers waited for them.
        durability: DurabilityFigures at "writes",
        /// Reads since the store was opened.
        reads: ReadFigures,
        /// Writes since the store was opened.
        writes: WriteFigures,
        /// Figures of the ledger.
        ledger: LedgerFigures at "",
        /// Memory beside the page cache, by the shares of the memory budget.
        memory: MemoryFigures at "state/memory",
        beside {
            /// The error of the last collection in the background, if it failed.
            pub collection_trouble: Option<String>,
        }
    }
}

figures! {
    /// Memory that grows with the data, by the shares into which the engine divides its budget. The
    /// rest of the budget is for memory that does not grow, and for what allocators leave unused.
    #[derive(Copy)]
    MemoryFigures {
        /// The budget ([`crate::EngineOptions::memory_bytes`]).
        setting_bytes: Number,
        /// Memtables with their hash tables and sort orders, including those that wait for their
        /// flush. When the share is used up, writers wait for a flush.
        memtables: MemoryShare,
        /// The parts of tables that are held in memory: facts, indexes, directories. When the share
        /// is used up, tables go without directories in memory, and then without indexes.
        tables: MemoryShare,
        /// The memory of running flushes and merges; the used bytes are the most that one took so
        /// far for the table that it wrote. When the share is used up, tables end earlier.
        jobs: MemoryShare,
        /// Offsets of records in segments that are not sealed. When the share is used up, segments
        /// end earlier.
        journal: MemoryShare,
    }
}

figures! {
    /// A share of the memory budget.
    #[derive(Copy)]
    MemoryShare {
        /// The limit, in bytes.
        limit_bytes: Number,
        /// The use, in bytes.
        used_bytes: Number,
    }
}

figures! {
    /// Figures of the ledger.
    LedgerFigures {
        /// Bytes of the memtables.
        memtable_bytes: Number at "state/memtable_bytes" as "memtable_bytes",
        /// Memtables that wait for their flush.
        sealed_memtables: Number at "state/sealed_memtables" as "sealed_memtables",
        /// Memory of the tables beside the page cache.
        table_memory_bytes: Number at "state/table_memory_bytes" as "table_memory_bytes",
        /// Bytes that compactions are behind.
        debt_bytes: Number at "state/compaction_debt_bytes" as "compaction_debt_bytes",
        /// The delay that each write takes now, in proportion to the compaction debt.
        write_delay_ns: Number at "state/write_delay_ns",
        /// How often writers waited for a flush.
        waits: Number at "writes/waits/memtables_full/count",
        /// How long writers waited for flushes, in nanoseconds.
        waited_ns: Number at "writes/waits/memtables_full/sum_ns",
        /// Snapshots and scans that are held.
        snapshots: Number at "state/snapshots",
        /// Flushes of memtables.
        flush: JobFigures at "background/flush",
        /// The levels, the youngest first.
        levels: Levels at "",
        beside {
            /// The name of the flush or merge that runs now, as in [`crate::jobs::NAMES`].
            pub running: Option<&'static str>,
            /// The reason why jobs are put off or have ended, if something is wrong.
            pub trouble: Option<String>,
        }
    }
}

figures! {
    /// Figures of one level.
    #[derive(Copy)]
    LevelFigures {
        /// Tables of a level.
        tables: Number at "state/levels/#/tables" as "level_tables",
        /// Bytes of a level's tables.
        size_bytes: Number at "state/levels/#/size_bytes" as "level_bytes",
        /// Entries of a level's tables.
        entries: Number at "state/levels/#/entries",
        /// Entries of a level's tables that are tombstones.
        tombstones: Number at "state/levels/#/tombstones",
        /// Blocks of a level's tables.
        blocks: Number at "state/levels/#/blocks",
        /// Blocks of a level's tables whose checksum was checked since their table was opened.
        blocks_checked: Number at "state/levels/#/blocks_checked",
        /// Memory of the directories of a level's tables.
        directory_bytes: Number at "state/levels/#/directory_bytes" as "level_directory_bytes",
        /// Look-ups in the level's tables.
        reads: LevelReads at "reads/levels/#",
        /// Merges out of this level into the next one.
        compaction: JobFigures at "background/compactions/#",
    }
}

counters! {
    /// Look-ups in the tables of a level.
    #[derive(Copy)]
    LevelReads from LevelCounters {
        /// Tables asked for a key.
        asked: Number as "tables_asked_total",
        /// Tables that a filter or directory ruled out.
        excluded: Number as "tables_excluded_total",
        /// Tables that a filter or directory let pass in vain.
        false_positives: Number as "false_positives_total",
        /// Tables that had no directory and answered by filter and index.
        by_index: Number as "index_searches_total",
        /// Blocks of tables searched.
        blocks_searched: Number as "blocks_searched_total",
        /// Time of the sampled searches in tables.
        time: Sampled,
        /// Times of the steps within tables, for other samples of the same number.
        steps: Steps,
    }
}

counters! {
    /// Times of the steps of look-ups within tables, by samples. A table with a directory has that
    /// step in place of filter and index.
    #[derive(Copy)]
    StepFigures from Steps {
        /// Asking the directory for the place of the key, or for its absence.
        directory: Sampled,
        /// Asking the filter whether the key may be there.
        filter: Sampled,
        /// Finding the block by the index.
        index: Sampled,
        /// Waiting for a block that is in the page cache, and checking its checksum if that is its
        /// first use.
        fetch_cached: Sampled,
        /// Waiting for a block that is not in the page cache, and checking it.
        fetch_disk: Sampled,
        /// Finding the entry within the block.
        search: Sampled,
    }
}

counters! {
    /// What durability cost since the store was opened.
    #[derive(Copy)]
    DurabilityFigures from DurabilityCounters {
        /// Time of the syncs, in nanoseconds.
        sync_ns: Elapsed,
        /// Writers that waited for a sync.
        waits: Number at "waits/group/count" at "waits/sync/count",
        /// The time that they waited for their group's sync to begin, in nanoseconds.
        group_waited_ns: Elapsed at "waits/group/sum_ns",
        /// The time that they waited from then on, in nanoseconds.
        sync_waited_ns: Elapsed at "waits/sync/sum_ns",
    }
}

counters! {
    /// Reads.
    ReadFigures from RecordCounters {
        /// Values that the ledger held, or that are empty, so that no record had to be read.
        held_values: Number at "journal/held_values",
        /// Records read from the journal.
        records: Number at "journal/records" as "journal_records_read_total",
        /// Bytes of records read from the journal.
        record_bytes: Number at "journal/bytes" as "journal_read_bytes_total",
        /// Time of the sampled record reads.
        record_time: Sampled at "journal/time",
        /// Finding the offset of a record, for other samples of the same number.
        place_time: Sampled at "journal/place",
        /// Reading and checking a record that was in the page cache, for the same samples.
        cached_time: Sampled at "journal/read_cached",
        /// Reading and checking a record that was not in the page cache, for the same samples.
        disk_time: Sampled at "journal/read_disk",
    } and {
        /// Look-ups that found no entry.
        missing: FoundFigures at "look_ups/missing",
        /// Look-ups that ended in a memtable.
        memtable: FoundFigures at "look_ups/memtable",
        /// Look-ups that ended in each level. A tombstone is found, too.
        levels: FoundByLevel at "look_ups/level_",
    }
}

counters! {
    /// Look-ups that ended in one place.
    #[derive(Copy)]
    FoundFigures from FoundCounters {
        /// Look-ups by where they ended.
        count: Number as "look_ups_total",
        /// Time of the sampled look-ups.
        time: Sampled,
    }
}

counters! {
    /// Writes.
    #[derive(Copy)]
    WriteFigures from WriteCounters {
        /// Batches written.
        batches: Number as "batches_total",
        /// Entries written.
        entries: Number as "entries_written_total",
        /// Bytes of keys, heads and values written, with those of index entries.
        user_bytes: Number as "payload_written_bytes_total",
        /// Time that sampled batches took in the journal.
        append_time: Sampled at "journal_append",
        /// Time that the same batches took in the memtable, including its sealing where it was
        /// full.
        memtable_time: Sampled at "memtable",
        /// Waits for another writer.
        writer_waits: Number at "waits/other_writer/count",
        /// Time of these waits, in nanoseconds.
        writer_waited_ns: Elapsed at "waits/other_writer/sum_ns",
        /// Delays of writes because level 0 or sealed memtables had piled up.
        delays: Number at "waits/merges_behind/count",
        /// Time of these delays, in nanoseconds.
        delayed_ns: Number at "waits/merges_behind/sum_ns",
    }
}

figures! {
    /// Sums over the jobs of one kind.
    #[derive(Copy)]
    JobFigures {
        /// Flushes, and merges out of a level.
        runs: Number as "job_runs_total",
        /// Jobs that moved tables without rewriting them.
        moves: Number,
        /// Merges that two threads did at once, each a part of the keys, because merges were
        /// behind. The times of the stages are then sums over both threads.
        in_parts: Number,
        /// Entries read.
        entries_in: Number,
        /// Entries dropped.
        entries_dropped: Number,
        /// Bytes read by jobs.
        bytes_in: Number as "job_read_bytes_total",
        /// Bytes written by jobs.
        bytes_out: Number as "job_written_bytes_total",
        /// Tables written by jobs.
        tables_out: Number as "job_tables_total",
        /// Time taken, in nanoseconds.
        duration_ns: Number,
        /// Bringing a memtable's entries into order, which fetches them from memory, in
        /// nanoseconds.
        order_ns: Number at "stages/order_ns",
        /// Reading the entries of the inputs in order, by samples, in nanoseconds.
        merge_ns: Number at "stages/merge_ns",
        /// Putting entries into blocks, by samples, in nanoseconds.
        build_ns: Number at "stages/build_ns",
        /// Building filters and indexes, in nanoseconds.
        filter_ns: Number at "stages/filter_ns",
        /// Writing to the file, in nanoseconds.
        write_ns: Number at "stages/write_ns",
        /// Syncing the tables, in nanoseconds.
        sync_ns: Number at "stages/sync_ns",
        /// Waiting until the journal records of a table's entries are on the medium, in
        /// nanoseconds.
        journal_sync_ns: Number at "stages/journal_sync_ns",
        /// Writing the manifest and the work that goes with it, in nanoseconds.
        commit_ns: Number at "stages/commit_ns",
    }
}

counters! {
    /// Sums over all collections since the store was opened.
    #[derive(Copy)]
    Collected from CollectedCounters {
        /// Segments of the journal that garbage collection has freed.
        segments: Number as "segments_collected_total",
        /// Bytes that garbage collection of the journal has copied.
        copied_bytes: Number as "collection_copied_bytes_total",
        /// Bytes that garbage collection of the journal has freed.
        freed_bytes: Number as "collection_freed_bytes_total",
    }
}

impl JobFigures {
    /// The times of the writers of tables, in nanoseconds.
    pub(crate) fn writers_ns(&self) -> u64 {
        self.filter_ns + self.write_ns + self.sync_ns
    }
}

impl EngineStats {
    /// Calls `each` with each number, its path among all figures, and its metric.
    pub fn each(&self, mut each: impl FnMut(FigureValue<'_>)) {
        self.show("", None, &mut each);
    }

    /// Bytes written to files per byte of keys, heads and values, since the store was opened:
    /// records of the journal, tables, and records that garbage collection copied. `None` before
    /// the first write.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let merged: u64 = self.ledger.levels.iter().map(|level| level.compaction.bytes_out).sum();
        let tables = self.ledger.flush.bytes_out + merged;
        let records = self.writes.user_bytes + self.writes.entries * RECORD_OVERHEAD_BYTES;
        let written = records + tables + self.collected.copied_bytes;
        (self.writes.user_bytes > 0).then(|| written as f64 / self.writes.user_bytes as f64)
    }

    /// Bytes of all files per byte of the journal that is not known to be dead. `None` for an empty
    /// store.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        let tables: u64 = self.ledger.levels.iter().map(|level| level.size_bytes).sum();
        let live = self.journal_bytes.saturating_sub(self.journal_dead_bytes);
        (live > 0).then(|| (self.journal_bytes + tables) as f64 / live as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_a_place_of_its_own() {
        let level = LevelFigures { tables: 3, ..LevelFigures::default() };
        let mut stats = EngineStats { syncs: 7, ..EngineStats::default() };
        stats.ledger.levels = vec![level; 2];
        stats.reads.levels = vec![FoundFigures::default(); 2];
        let (mut places, mut metrics) = (Vec::new(), Vec::new());
        stats.each(|shown| {
            metrics.extend(shown.metric.map(|metric| (shown.path.to_owned(), metric.help)));
            places.push((shown.path.to_owned(), shown.value));
        });
        let shows = |path: &str, value| places.contains(&(path.to_owned(), value));
        assert!(shows("writes/syncs", 7) && shows("state/levels/1/tables", 3), "{places:?}");
        assert!(shows("reads/look_ups/level_1/time/samples", 0), "{places:?}");
        assert!(metrics.contains(&("reads/levels/0/asked".to_owned(), "Tables asked for a key.")));
        let count = places.len();
        places.sort_unstable();
        places.dedup_by(|one, other| one.0 == other.0);
        assert_eq!(places.len(), count);
    }
}
