//! Flush: a sealed memtable becomes a table of level 0.

use pellucid_thread::{give_way, start_job};

use super::background::FLUSH;
use super::compaction::ENTRIES_A_SLICE;
use super::stages::Stages;
use super::state::{Edit, State, WrittenTable};
use super::stats::{BackgroundJob, JobStats};
use super::table::{TableWriter, WriterTimes};
use super::version::SealedMemtable;
use super::{Dropped, DroppedList, Verdict};
use crate::error::Result;
use crate::jobs;

impl State {
    /// Flushes the oldest sealed memtable, and says whether there was one. Under the lock on jobs.
    pub(super) fn flush_oldest(&self) -> Result<bool> {
        let oldest = self.version.load().sealed.last().cloned();
        let Some(sealed) = oldest else { return Ok(false) };
        let _job = start_job(&FLUSH);
        let interrupted = self.counters.begin(Some(BackgroundJob::Flush));
        let noted = self.options.activity.begin(jobs::FLUSH, self.options.clock);
        let outcome = self.flush(&sealed);
        drop(noted);
        self.counters.begin(interrupted);
        outcome.map(|()| true)
    }

    fn flush(&self, sealed: &SealedMemtable) -> Result<()> {
        let began = self.options.clock.stopwatch();
        let mut edit = Edit {
            flushed_sequence: Some(sealed.last_sequence),
            dropped: self.dropped_list(),
            ..Edit::default()
        };
        let mut stats = JobStats { runs: 1, ..JobStats::default() };
        if sealed.memtable.entries() > 0 {
            let number = self.take_file_number();
            let new = self.write_flushed(sealed, number, &mut edit.dropped, &mut stats);
            let written = new.and_then(|(new, times)| {
                stats.add_writer(times);
                let begun = self.options.clock.stopwatch();
                // A table must not be found after a crash that the journal's records did not
                // survive.
                self.link.make_durable(sealed.last_sequence)?;
                stats.journal_sync_ns = begun.elapsed_ns();
                self.open_new(vec![new])
            });
            let tables = written.inspect_err(|_| self.remove_tables(std::iter::once(number)))?;
            stats.tables_out = 1;
            stats.bytes_out = tables.iter().map(|table| table.facts().size_bytes).sum();
            edit.added = tables.into_iter().map(|table| (0, table)).collect();
        }
        let begun = self.options.clock.stopwatch();
        self.commit_files(&edit)?;
        stats.commit_ns = begun.elapsed_ns();
        stats.entries_in = sealed.memtable.entries();
        stats.entries_dropped = edit.dropped.count();
        stats.bytes_in = sealed.memtable.size_bytes();
        stats.duration_ns = began.elapsed_ns();
        self.counters.add_job(BackgroundJob::Flush, &stats);
        Ok(())
    }

    fn write_flushed(
        &self,
        sealed: &SealedMemtable,
        number: u64,
        dropped: &mut DroppedList,
        stats: &mut JobStats,
    ) -> Result<(WrittenTable, WriterTimes)> {
        let (identity, shape) = (self.store_identity, self.table_shape());
        let writer = TableWriter::create(&*self.fs, &self.directory, identity, number, shape)?;
        let mut writer = writer.with_memory(self.lend_memory());
        let mut retention = self.snapshots.retention(self.link.now_ms());
        let begun = self.options.clock.stopwatch();
        let mut cursor = sealed.memtable.cursor();
        stats.order_ns = begun.elapsed_ns();
        let mut stages = Stages::new(self.options.clock);
        let mut entries = 0_u64;
        cursor.seek_first();
        while let Some(entry) = cursor.entry() {
            let sample = stages.begin(|| writer.times().sum_ns());
            // Tombstones stay: what they hide is in other tables, or may come from an older
            // memtable.
            match retention.judge(&entry, || false) {
                Verdict::Kept => writer.add(&entry)?,
                verdict => dropped.push(&Dropped::of(&entry, verdict))?,
            }
            let sample = sample.map(|sample| stages.built(sample, writer.times().sum_ns(), stats));
            cursor.next();
            if let Some(sample) = sample {
                stages.merged(sample, stats);
            }
            entries += 1;
            if entries.is_multiple_of(ENTRIES_A_SLICE) {
                give_way();
            }
        }
        dropped.close()?;
        self.note_job_memory(writer.memory_bytes());
        let new = writer.finish()?;
        let times = new.times;
        Ok((self.written(new), times))
    }
}
