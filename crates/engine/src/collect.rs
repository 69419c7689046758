//! Collection of the journal: what nobody can ask for any more makes room.
//!
//! A run of neighbouring segments is read from its beginning to its end. Each record that is still
//! needed is copied, under its sequence number, into one new segment, which then takes the run's
//! place in the manifest. The ledger is read and never written: the sequence number by which it
//! names a record stays the same.
//!
//! # What may go
//!
//! A record is needed if the newest entry of its key, as of what is durable, is its own, or if a
//! snapshot sees it. Of the others, one that a newer entry hides goes. If the ledger has no entry
//! of the key at all, a plain value goes, too: what hid it is a **marker**, a tombstone or a value
//! that has expired, and its record is still there. A marker goes only if no segment below can hold
//! a plain value of its key, or a rebuilt ledger would bring that back. A segment cannot if none of
//! its bytes are dead, or if it was collected when the marker was already there (its clean sequence
//! number). So the newest record of each key that the journal holds always tells the truth.
//!
//! What the ledger dropped because a newer entry hides it is known to go without being read
//! (`journal/gone.rs`): the newer one's record is there, or a marker that hides both. Only if it
//! can expire is it judged by what it says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, Weak};
use std::time::Duration;

use pellucid_thread::{Condvar, Job, Mutex, schedule_for_background, start_job};

use crate::engine::{Engine, Inner, lock};
use crate::error::{Error, Result};
use crate::jobs;
use crate::journal::{CollectedWriter, Limits, Record, RecordKind, Run};
use crate::ledger::Pinned;

/// The name of the thread.
const COLLECT_THREAD: &str = "pellucid-collect";
/// Record bytes that are looked at in one go; between two, everything else goes first.
const SLICE_BYTES: u64 = 256 << 10;
/// What a record that is known to be needed by nobody counts for in a slice, in bytes: it is not
/// read.
const GONE_COSTS_BYTES: u64 = 8;
/// The share of dead bytes from which on a segment is collected in the background. Each byte that
/// is freed costs at most two thirds of one that is copied; at half it would be a whole one, for a
/// tenth less of disk (keys overwritten at random).
const DEAD_SHARE_BACKGROUND: f64 = 0.6;
/// The share from which on [`Engine::collect`] collects a segment.
const DEAD_SHARE_ON_CALL: f64 = 0.1;
/// [`Engine::collect`] ends when one in so many bytes of the journal is dead: what is left is
/// spread so thin that freeing a byte would cost the copying of two and more.
const DEAD_LEFT_ONE_IN: u64 = 14;
/// The thread looks for work this often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the thread rests after each slice: at most 128 MiB are looked at in a second.
const SLICE_REST: Duration = Duration::from_millis(2);
/// How long the thread waits at a time while flushes and merges are behind.
const DEBT_REST: Duration = Duration::from_millis(20);
/// The most of these waits in a row; then it goes on, because a full disk helps nobody.
const DEBT_RESTS_MAX: u32 = 500;

/// What a collection has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Segments that were collected.
    pub segments: u64,
    /// Bytes written for what is left of them.
    pub copied_bytes: u64,
    /// Bytes by which the journal's files are smaller.
    pub freed_bytes: u64,
}

/// Who collects, and whether it shall end.
pub(crate) struct Collector {
    /// Held while a run is collected; whether the store was closed.
    is_closed: Mutex<bool>,
    is_stopping: AtomicBool,
    /// Wakes the thread when it shall stop.
    stop: Mutex<()>,
    stopped: Condvar,
    /// What went wrong last, on the thread.
    trouble: Mutex<Option<String>>,
}

impl Default for Collector {
    fn default() -> Collector {
        Collector {
            is_closed: Mutex::default(),
            is_stopping: AtomicBool::default(),
            stop: Mutex::default(),
            stopped: Condvar::for_work(),
            trouble: Mutex::default(),
        }
    }
}

impl Collector {
    /// Has the thread, and whoever else collects, end with the present slice.
    pub(crate) fn stop(&self) {
        let _stop = lock(&self.stop);
        self.is_stopping.store(true, Ordering::Release);
        self.stopped.notify_all();
    }

    /// Returns once nobody collects any more, for good.
    pub(crate) fn close(&self) {
        self.stop();
        *lock(&self.is_closed) = true;
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn rest(&self, duration: Duration) {
        let stop = lock(&self.stop);
        if !self.is_stopping() {
            let _ =
                self.stopped.wait_timeout(stop, duration).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What went wrong last.
    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    /// Kept although the ledger names it no more, for what it hides.
    KeptAsMarker,
    Gone,
}

/// What the fates of the records of a slice depend on.
struct Judge {
    pinned: Pinned,
    /// The newest entries up to it are durable, published and in tables.
    at_sequence: u64,
    /// Markers up to it have nothing to hide.
    marker_sequence: u64,
    /// The time by which values have expired.
    now_ms: u64,
    /// The key that was looked up last, and the sequence number of its newest entry: where one key
    /// is written all the time, its records lie side by side.
    last: Option<(Vec<u8>, Option<u64>)>,
}

impl Judge {
    /// The sequence number of the newest entry of `key`.
    fn newest(&mut self, key: &[u8]) -> Result<Option<u64>> {
        if let Some((last, newest)) = &self.last
            && last == key
        {
            return Ok(*newest);
        }
        let newest = self.pinned.get(key, self.at_sequence)?.map(|entry| entry.sequence);
        let (mut last, _) = self.last.take().unwrap_or_default();
        last.clear();
        last.extend_from_slice(key);
        self.last = Some((last, newest));
        Ok(newest)
    }

    fn fate(&mut self, record: &Record<'_>) -> Result<Fate> {
        let newest = self.newest(record.key)?;
        if newest == Some(record.sequence) {
            return Ok(Fate::Kept);
        }
        let hidden_from = newest.filter(|newest| *newest > record.sequence).unwrap_or(u64::MAX);
        let snapshots = self.pinned.view.snapshots.iter();
        for snapshot in snapshots.filter(|at| (record.sequence..hidden_from).contains(at)) {
            let seen = self.pinned.get(record.key, *snapshot)?;
            if seen.is_some_and(|entry| entry.sequence == record.sequence) {
                return Ok(Fate::Kept);
            }
        }
        // A value that has not expired was hidden by something else.
        let has_expired = record.expires_at_ms != 0 && record.expires_at_ms <= self.now_ms;
        let is_marker = record.kind == RecordKind::Delete || has_expired;
        Ok(match newest {
            Some(newest) if newest > record.sequence => Fate::Gone,
            // The ledger holds something older, but not this: nothing that this rule knows.
            Some(_) => Fate::Kept,
            None if !is_marker || record.sequence <= self.marker_sequence => Fate::Gone,
            None => Fate::KeptAsMarker,
        })
    }
}

impl Engine {
    /// Collects the segments of the journal of which most is dead, one after another, until no more
    /// than a fourteenth of the journal is, or no segment is left of which a tenth is, and returns
    /// when that is done. What was flushed counts, and is dead once a merge has dropped it: after
    /// [`Engine::flush`] and [`Engine::compact`], that is all that can go. The engine does it by
    /// itself, in the background, once 60 % of a segment is dead.
    ///
    /// ```
    /// # use pellucid_account::Timeline;
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let mut options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # options.background = false;
    /// # options.segment_size_bytes = 4096;
    /// # let engine = Engine::open("/store", options)?;
    /// # let table = engine.table("t")?;
    /// # let mut timeline = Timeline::off();
    /// for _ in 0..100 {
    ///     engine.put(table, b"key", &[7; 500])?;
    /// }
    /// engine.flush()?;
    /// let collected = engine.collect()?;
    /// assert!(collected.freed_bytes > 40_000);
    /// assert!(engine.get(table, b"key")?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Exhausted`] and failures of the file system leave everything
    /// as before.
    pub fn collect(&self) -> Result<Collected> {
        let inner = &*self.inner;
        let before = inner.collected();
        // Each run takes at least one segment with it.
        for _ in 0..=inner.journal.segments().segments.len() {
            let (dead_bytes, all_bytes) = inner.journal.dead_and_all_bytes();
            let is_done = dead_bytes <= all_bytes / DEAD_LEFT_ONE_IN;
            if is_done || !inner.collect_one(DEAD_SHARE_ON_CALL, || {})? {
                break;
            }
        }
        inner.journal.give_up_spares(&lock(&inner.writer).appender);
        let after = inner.collected();
        Ok(Collected {
            segments: after.segments - before.segments,
            copied_bytes: after.copied_bytes - before.copied_bytes,
            freed_bytes: after.freed_bytes - before.freed_bytes,
        })
    }
}

impl Inner {
    /// What was collected since the store was opened.
    pub(crate) fn collected(&self) -> Collected {
        let counters = &self.journal.collection;
        Collected {
            segments: counters.segments.load(Ordering::Relaxed),
            copied_bytes: counters.copied_bytes.load(Ordering::Relaxed),
            freed_bytes: counters.freed_bytes.load(Ordering::Relaxed),
        }
    }

    /// Collects the run that frees the largest share, if one is worth it, and says whether it did.
    /// `rest` is called between slices.
    fn collect_one(&self, dead_share: f64, rest: impl Fn()) -> Result<bool> {
        let is_closed = lock(&self.collector.is_closed);
        if *is_closed || self.collector.is_stopping() {
            return Err(Error::Closed);
        }
        self.journal.check_poison()?;
        let judge = self.judge(0, u64::MAX);
        let marker_sequence = judge.marker_sequence;
        drop(judge);
        let limits = Limits {
            flushed_sequence: self.ledger.flushed_sequence(),
            marker_sequence,
            dead_share,
        };
        let Some(run) = self.journal.pick_run(&limits) else { return Ok(false) };
        let _noted = self.activity.begin(jobs::COLLECTION, self.options.clock);
        if let Err(error) = self.copy_run(&run, marker_sequence, rest) {
            self.journal.abandon(&run, &error);
            return Err(error);
        }
        self.ledger.write_manifest()?;
        Ok(true)
    }

    /// What decides now, about segments from `first_sequence` on; markers above `marker_sequence`
    /// stay in any case.
    fn judge(&self, first_sequence: u64, marker_sequence: u64) -> Judge {
        let durable = self.journal.durable_sequence();
        // What only memtables know hides nothing yet. Its dead bytes are not counted either, and a
        // key that is written all the time has its hundreds of thousands of versions there.
        let flushed = self.ledger.flushed_sequence();
        let pinned = self.ledger.pin();
        // After the pinning: then the dead bytes count all that the pinned ledger has dropped.
        let clean_below = self.journal.markers_clean_below(first_sequence);
        let at_sequence = durable.min(flushed).min(pinned.view.published);
        let oldest = pinned.view.snapshots.first().copied().unwrap_or(u64::MAX);
        let marker_sequence = marker_sequence.min(at_sequence).min(oldest).min(clean_below);
        Judge { pinned, at_sequence, marker_sequence, now_ms: self.time.now_ms(), last: None }
    }

    /// Copies what is needed of `run`, and lets it take the run's place. No marker above
    /// `marker_sequence` had gone from the view when this began.
    fn copy_run(&self, run: &Run, marker_sequence: u64, rest: impl Fn()) -> Result<()> {
        let mut writer = CollectedWriter::create(&self.journal, run)?;
        let mut judge = self.judge(run.first_sequence, marker_sequence);
        let mut markers = Vec::new();
        let mut slice_bytes = 0;
        for segment in &run.segments {
            for (sequence, offset) in segment.entries() {
                if slice_bytes >= SLICE_BYTES {
                    slice_bytes = 0;
                    // Let go while it rests: it keeps tables and memtables alive.
                    drop(judge);
                    rest();
                    if self.collector.is_stopping() {
                        return Err(Error::Closed);
                    }
                    judge = self.judge(run.first_sequence, marker_sequence);
                }
                if segment.is_gone(sequence) {
                    slice_bytes += GONE_COSTS_BYTES;
                    continue;
                }
                let (record, bytes) = segment.checked_bytes(offset)?;
                if record.sequence != sequence {
                    let what = format!("expected sequence {sequence}, found {}", record.sequence);
                    return Err(Error::corruption(&segment.shared.path, offset, what));
                }
                slice_bytes += bytes.len() as u64;
                match judge.fate(&record)? {
                    Fate::Gone => {}
                    Fate::Kept => {
                        writer.add(&record, bytes)?;
                    }
                    Fate::KeptAsMarker => {
                        markers.push((sequence, writer.add(&record, bytes)?));
                    }
                }
            }
        }
        drop(judge);
        // A place that could not be read would be a record that is left behind.
        run.segments.iter().try_for_each(|segment| segment.check_places())?;
        let collected = writer.finish(run, marker_sequence)?;
        // Everything that was gone when it was judged is in the books by now.
        drop(self.ledger.pin());
        self.journal.install(run, collected, &markers);
        Ok(())
    }

    /// Waits while flushes and merges are behind, and leaves the machine to others for a moment.
    fn rest_between_slices(&self) {
        self.collector.rest(SLICE_REST);
        for _ in 0..DEBT_RESTS_MAX {
            if self.collector.is_stopping() || !self.ledger.has_debt() {
                return;
            }
            self.collector.rest(DEBT_REST);
        }
    }

    fn collect_in_background(&self) {
        loop {
            self.rest_between_slices();
            let outcome = self.collect_one(DEAD_SHARE_BACKGROUND, || self.rest_between_slices());
            let (trouble, is_done) = match outcome {
                Ok(more) => (None, !more),
                Err(Error::Closed) => return,
                Err(error) => (Some(error.to_string()), true),
            };
            *lock(&self.collector.trouble) = trouble;
            if is_done {
                return;
            }
        }
    }
}

/// Starts the thread that collects. It holds the engine only while it works.
pub(crate) fn start_thread(inner: &std::sync::Arc<Inner>) -> Result<std::thread::JoinHandle<()>> {
    let engine: Weak<Inner> = std::sync::Arc::downgrade(inner);
    let collector = std::sync::Arc::clone(&inner.collector);
    let work = move || {
        static COLLECTION: Job = Job::new("collection");
        let _job = start_job(&COLLECTION);
        // Where it is refused, requests wait for this thread as long as the kernel likes.
        let _ = schedule_for_background();
        while !collector.is_stopping() {
            collector.rest(LOOK_INTERVAL);
            match engine.upgrade() {
                Some(engine) => engine.collect_in_background(),
                None => return,
            }
        }
    };
    let thread = std::thread::Builder::new().name(COLLECT_THREAD.to_owned());
    let started = thread.spawn(work);
    started.map_err(|error| Error::io("start a thread for", &inner.directory, error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pellucid_io::simulated::SimulatedFileSystem;

    use super::*;
    use crate::catalogue::TableId;
    use crate::ledger::VERSIONS_LOOKED_AT;
    use crate::options::EngineOptions;

    const VALUE_LENGTH: usize = 500;

    fn put_often(engine: &Engine, table: TableId, key: &[u8], times: u32) {
        for _ in 0..times {
            let value = [7; VALUE_LENGTH];
            engine.put(table, key, &value).unwrap();
        }
    }

    /// A counter that was written a million times kept a processor busy: for each of its records,
    /// the collection went through all versions of it that were in memory.
    #[test]
    fn a_key_that_is_written_all_the_time_is_not_gone_through_for_each_record() {
        let options = EngineOptions {
            file_system: Arc::new(SimulatedFileSystem::new()),
            segment_size_bytes: 8 << 10,
            memory_bytes: 16 << 20,
            background: false,
            identity_seed: Some(1),
            ..EngineOptions::default()
        };
        let engine = Engine::open("/store", options).unwrap();
        let table = engine.table("t").unwrap();
        put_often(&engine, table, b"rarely", 1);
        put_often(&engine, table, b"hot", 300);
        engine.flush().unwrap();
        // A part of what only the memtable knows is on the medium, and the rest is not.
        put_often(&engine, table, b"hot", 200);
        engine.wait_durable(engine.stats().published_sequence).unwrap();
        put_often(&engine, table, b"hot", 200);
        let stats = engine.stats();
        let in_memory = (stats.ledger.memtable_bytes, stats.ledger.sealed_memtables);
        assert!(
            in_memory.0 > 400 * 32 && in_memory.1 == 0,
            "they are in one memtable: {in_memory:?}"
        );
        assert!(stats.durable_sequence > stats.flushed_sequence);
        VERSIONS_LOOKED_AT.set(0);
        let collected = engine.collect().unwrap();
        assert!(collected.freed_bytes > 290 * VALUE_LENGTH as u64, "{collected:?}");
        let looked_at = VERSIONS_LOOKED_AT.get();
        assert!(looked_at <= 300, "{looked_at} versions for some 300 records");
    }
}
