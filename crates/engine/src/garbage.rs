//! Garbage collection of the journal: frees the space of records that no reader can ask for any
//! more.
//!
//! A run of neighbouring segments is read from start to end. Each record that is still needed is
//! copied, under its sequence number, into one new segment, which then replaces the run in the
//! manifest. The ledger is read and never written, because the sequence number by which it points
//! to a record stays the same.
//!
//! # The rule
//!
//! A record is needed if it is the newest of its key, as of the durable state, or if a snapshot
//! sees it. Otherwise it is dropped if a newer entry hides it. If the ledger has no entry of the
//! key at all, a plain value is dropped, too: a **marker** hides it, which is a tombstone or an
//! expired value, and the record of the marker is still there. A marker is dropped only if no older
//! segment can hold a plain value of its key; otherwise a rebuilt ledger would bring that value
//! back. A segment cannot hold one if none of its bytes are dead, or if it was collected when the
//! marker was already there (its clean sequence number). So the newest record of each key in the
//! journal is always the right one.
//!
//! If the ledger dropped an entry because a newer one hides it, its record can be dropped without
//! being read (`journal/unneeded_records.rs`): the record of the newer entry is there, or a marker
//! hides both. Only a record that can expire is read and judged.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pellucid_account::Activity;
use pellucid_clock::Clock;
use pellucid_thread::{Job, JoinHandle, Mutex, MutexGuard, schedule_for_background, start_job};

use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::jobs;
use crate::journal::{
    GarbageLimits, Journal, Record, RecordKind, SegmentRewriter, SegmentRun, SpaceExcess,
};
use crate::ledger::{Ledger, PinnedTree};
use crate::shortage::Shortage;
use crate::stats::Collected;

/// The name of the thread.
const COLLECT_THREAD: &str = "pellucid-collect";
/// Bytes of records that are processed in one slice; between slices the thread rests.
const SLICE_BYTES: u64 = 256 << 10;
/// Bytes that count towards a slice for a record that is known to be unneeded: it is not read.
const UNNEEDED_COSTS_BYTES: u64 = 8;
/// The share of dead bytes from which on a segment is collected by [`crate::Engine::collect`] or on
/// a full disk.
const DEAD_SHARE_ON_CALL: f64 = 0.1;
/// The most merges that one attempt to make room on a full disk runs. Each is small enough for the
/// room that is left.
const MERGES_FOR_ROOM_MAX: u32 = 64;
/// [`crate::Engine::collect`] stops when at most one in this many bytes of the journal is dead: the
/// dead bytes are then spread so thin that freeing one costs the copying of more than two.
const DEAD_LEFT_ONE_IN: u64 = 14;
/// The interval at which the thread looks for work.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The rest of the thread after each slice: it processes at most 128 MiB per second.
const SLICE_REST: Duration = Duration::from_millis(2);
/// The rest of the thread, repeated while flushes and merges are behind.
const DEBT_REST: Duration = Duration::from_millis(20);
/// The most of these rests in a row. Then the thread continues, so that the disk does not fill up.
const DEBT_RESTS_MAX: u32 = 500;

/// The fate of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Keep,
    /// The ledger no longer names it, but it has to stay, because it hides older records.
    KeepAsMarker,
    Drop,
}

/// Judges the records of a slice.
struct LivenessCheck {
    pinned: PinnedTree,
    /// The state that is judged by: entries up to this sequence number are durable, published and
    /// in tables.
    at_sequence: u64,
    /// Markers up to this sequence number hide nothing any more.
    marker_sequence: u64,
    /// The time by which values have expired.
    now_ms: u64,
    /// The last key that was looked up, and the sequence number of its newest entry: if one key is
    /// written all the time, its records are neighbours.
    last: Option<(Vec<u8>, Option<u64>)>,
}

impl LivenessCheck {
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

    fn verdict(&mut self, record: &Record<'_>) -> Result<Verdict> {
        let newest = self.newest(record.key)?;
        if newest == Some(record.sequence) {
            return Ok(Verdict::Keep);
        }
        let hidden_from = newest.filter(|newest| *newest > record.sequence).unwrap_or(u64::MAX);
        let snapshots = self.pinned.view.snapshots.iter();
        for snapshot in snapshots.filter(|at| (record.sequence..hidden_from).contains(at)) {
            let seen = self.pinned.get(record.key, *snapshot)?;
            if seen.is_some_and(|entry| entry.sequence == record.sequence) {
                return Ok(Verdict::Keep);
            }
        }
        // If the ledger has no entry of the key, a value that has not expired was hidden by a
        // marker.
        let has_expired = record.expires_at_ms != 0 && record.expires_at_ms <= self.now_ms;
        let is_marker = record.kind == RecordKind::Delete || has_expired;
        Ok(match newest {
            Some(newest) if newest > record.sequence => Verdict::Drop,
            // The ledger holds an older entry, but not this one. The rule does not cover this: keep
            // the record.
            Some(_) => Verdict::Keep,
            None if !is_marker || record.sequence <= self.marker_sequence => Verdict::Drop,
            None => Verdict::KeepAsMarker,
        })
    }
}

/// The settings of collection by the thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectionRules {
    /// The share of dead bytes from which on a segment is collected.
    pub(crate) dead_share: f64,
    /// Bytes of the newest segments, which are not collected.
    pub(crate) kept_bytes: u64,
}

/// Collects the journal's garbage, on call and on a thread of its own.
pub(crate) struct GarbageCollector {
    journal: Arc<Journal>,
    ledger: Arc<Ledger>,
    /// The time by which entries expire.
    time: Arc<ExpiryClock>,
    clock: Clock,
    activity: Activity,
    rules: CollectionRules,
    /// Locked while a run is collected; true once the store was closed.
    is_closed: Mutex<bool>,
    is_stopping: AtomicBool,
    /// The last failure on the thread.
    trouble: Mutex<Option<String>>,
    has_thread: AtomicBool,
    /// The lack of room that writers ran into.
    shortage: Shortage,
}

impl GarbageCollector {
    pub(crate) fn new(
        journal: Arc<Journal>,
        ledger: Arc<Ledger>,
        time: Arc<ExpiryClock>,
        (clock, activity): (Clock, Activity),
        rules: CollectionRules,
    ) -> GarbageCollector {
        GarbageCollector {
            journal,
            ledger,
            time,
            clock,
            activity,
            rules,
            is_closed: Mutex::default(),
            is_stopping: AtomicBool::default(),
            trouble: Mutex::default(),
            has_thread: AtomicBool::default(),
            shortage: Shortage::new(clock),
        }
    }

    /// The journal's bytes beyond its bound.
    pub(crate) fn excess(&self) -> &SpaceExcess {
        self.journal.garbage().excess()
    }

    /// Makes the thread and every other caller stop after the current slice.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.excess().wake();
    }

    /// Stops collection for good; returns once no collection is running.
    pub(crate) fn close(&self) {
        self.stop();
        *self.is_closed.lock() = true;
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// True if the thread has to stop or to make room. A change is followed by a wake-up.
    fn is_called(&self) -> bool {
        self.is_stopping() || self.shortage.is_noted()
    }

    /// The last failure of the thread, or the damage because of which a segment is never collected.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone().or_else(|| self.journal.garbage().damage())
    }

    /// Collects segments until little of the journal is dead ([`crate::Engine::collect`]).
    pub(crate) fn collect(&self) -> Result<Collected> {
        drop(self.check_open()?);
        let garbage = self.journal.garbage();
        let before = garbage.collected();
        // Each run removes at least one segment.
        for _ in 0..=self.journal.segments().list().segments.len() {
            let (dead_bytes, all_bytes) = garbage.dead_and_all_bytes();
            let is_done = dead_bytes <= all_bytes / DEAD_LEFT_ONE_IN;
            if is_done || !self.collect_one(DEAD_SHARE_ON_CALL, 0, || {})? {
                break;
            }
        }
        let after = garbage.collected();
        Ok(Collected {
            segments: after.segments - before.segments,
            copied_bytes: after.copied_bytes - before.copied_bytes,
            freed_bytes: after.freed_bytes - before.freed_bytes,
        })
    }

    /// Takes the lock under which runs are collected; an error once the store is closing.
    fn check_open(&self) -> Result<MutexGuard<'_, bool>> {
        let is_closed = self.is_closed.lock();
        if *is_closed || self.is_stopping() { Err(Error::Closed) } else { Ok(is_closed) }
    }

    /// Collects the run that frees the largest share, if one has at least `dead_share` of dead
    /// bytes; returns true if it did. The newest `kept_bytes` stay. `rest` is called between
    /// slices.
    fn collect_one(&self, dead_share: f64, kept_bytes: u64, rest: impl Fn()) -> Result<bool> {
        let _one_at_a_time = self.check_open()?;
        self.journal.sync().check_poison()?;
        let judge = self.judge(0, u64::MAX);
        let marker_sequence = judge.marker_sequence;
        drop(judge);
        let kept_after = self.journal.segments().list().end_before_newest(kept_bytes);
        let limits = GarbageLimits {
            flushed_sequence: self.ledger.flushed_sequence().min(kept_after),
            marker_sequence,
            dead_share,
            free_bytes: self.journal.room().free_bytes(),
        };
        let Some(run) = self.journal.garbage().pick_run(&limits)? else { return Ok(false) };
        let _noted = self.activity.begin(jobs::COLLECTION, self.clock);
        if let Err(error) = self.copy_run(&run, marker_sequence, rest) {
            self.journal.garbage().abandon(&run, &error);
            return Err(error);
        }
        self.ledger.write_manifest()?;
        Ok(true)
    }

    /// A judge for the present state, about segments from `first_sequence` on. Markers above
    /// `marker_sequence` stay in any case.
    fn judge(&self, first_sequence: u64, marker_sequence: u64) -> LivenessCheck {
        let durable = self.journal.sync().durable_sequence();
        // Entries in memtables do not hide anything yet. The dead bytes do not count them either,
        // and a key that is written all the time would have hundreds of thousands of versions
        // there.
        let flushed = self.ledger.flushed_sequence();
        let pinned = self.ledger.pin();
        // Read after pinning: the dead bytes then count everything that the pinned ledger has
        // dropped.
        let clean_below = self.journal.garbage().markers_clean_below(first_sequence);
        let at_sequence = durable.min(flushed).min(pinned.view.published);
        let oldest = pinned.view.snapshots.first().copied().unwrap_or(u64::MAX);
        let marker_sequence = marker_sequence.min(at_sequence).min(oldest).min(clean_below);
        LivenessCheck {
            pinned,
            at_sequence,
            marker_sequence,
            now_ms: self.time.now_ms(),
            last: None,
        }
    }

    /// Copies the needed records of `run` into a new segment, which replaces the run. Markers above
    /// `marker_sequence` are kept: they may still have been in the ledger when this began.
    fn copy_run(&self, run: &SegmentRun, marker_sequence: u64, rest: impl Fn()) -> Result<()> {
        let mut writer = SegmentRewriter::create(self.journal.files(), run)?;
        let mut judge = self.judge(run.first_sequence, marker_sequence);
        let mut markers = Vec::new();
        let mut slice_bytes = 0;
        for segment in &run.segments {
            for (sequence, offset) in segment.entries() {
                if slice_bytes >= SLICE_BYTES {
                    slice_bytes = 0;
                    // Dropped before resting, because it keeps tables and memtables alive.
                    drop(judge);
                    rest();
                    if self.is_stopping() {
                        return Err(Error::Closed);
                    }
                    judge = self.judge(run.first_sequence, marker_sequence);
                }
                if segment.is_unneeded(sequence) {
                    slice_bytes += UNNEEDED_COSTS_BYTES;
                    continue;
                }
                let (record, bytes) = segment.record_and_bytes(sequence, offset)?;
                slice_bytes += bytes.len() as u64;
                let verdict = judge.verdict(&record)?;
                if verdict == Verdict::Drop {
                    continue;
                }
                writer.add(sequence, bytes)?;
                if verdict == Verdict::KeepAsMarker {
                    markers.push((sequence, bytes.len() as u64));
                }
            }
        }
        drop(judge);
        // A record whose offset cannot be read must not be left behind.
        run.segments.iter().try_for_each(|segment| segment.check_offsets())?;
        let collected = writer.finish(marker_sequence)?;
        self.journal.garbage().install(run, collected, &markers);
        Ok(())
    }

    /// True if room should be made for a write that found none, or little; `sequence` is the last
    /// write so far. The caller then calls [`GarbageCollector::make_room`].
    pub(crate) fn is_room_due(&self, sequence: u64) -> bool {
        self.shortage.is_due(sequence, self.has_thread.load(Ordering::Relaxed))
    }

    /// Makes room on the disk, or asks the thread to do it if there is one. Returns true if it was
    /// done here. `sequence` is the last write, if the memtable that overwrote older records was
    /// sealed.
    pub(crate) fn make_room(&self, sequence: Option<u64>) -> bool {
        self.shortage.note(sequence);
        if self.has_thread.load(Ordering::Relaxed) {
            self.excess().wake();
            return false;
        }
        self.end_shortage();
        true
    }

    fn end_shortage(&self) {
        // If this fails, the next write is refused and reports the reason.
        let _ = self.shortage.end(|| self.flush_merge_and_collect());
    }

    /// Frees space until there is enough or nothing more can be freed: first what is known to be
    /// dead, then what flushes and merges find to be dead.
    fn flush_merge_and_collect(&self) -> Result<()> {
        let room = self.journal.room();
        let mut may_find_more = true;
        for _ in 0..=MERGES_FOR_ROOM_MAX {
            match self.collect_until_ample() {
                Err(error) if !error.passes() => return Err(error),
                _ => {}
            }
            if !may_find_more || room.is_ample() {
                break;
            }
            may_find_more = self.ledger.merge_for_room()?;
        }
        room.forget_refused();
        Ok(())
    }

    /// Collects the segments that are worth it, one run after another, until there is enough room.
    fn collect_until_ample(&self) -> Result<()> {
        // Each run removes at least one segment, or is damaged and not tried again.
        for _ in 0..=self.journal.segments().list().segments.len() {
            if self.journal.room().is_ample() {
                break;
            }
            match self.collect_one(DEAD_SHARE_ON_CALL, 0, || {}) {
                Ok(true) => self.excess().take_heart(),
                Ok(false) => break,
                Err(Error::Corruption { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Rests for a moment, and as long as flushes and merges are behind. Does not rest while too
    /// much of the journal is dead, or while the disk is full.
    fn rest_between_slices(&self) {
        let rest = |longest| self.excess().wait(longest, || self.is_called());
        rest(SLICE_REST);
        for _ in 0..DEBT_RESTS_MAX {
            if self.is_called() || self.excess().bytes() > 0 || !self.ledger.has_debt() {
                return;
            }
            rest(DEBT_REST);
        }
    }

    fn collect_in_background(&self) {
        loop {
            self.rest_between_slices();
            let excess = self.excess();
            let is_pressed = excess.bytes() > 0;
            let CollectionRules { dead_share, kept_bytes } = self.rules;
            let dead_share = if is_pressed { excess.collected_share() } else { dead_share };
            let rest = || self.rest_between_slices();
            let outcome = self.collect_one(dead_share, kept_bytes, rest);
            match outcome {
                Ok(true) => excess.take_heart(),
                _ if is_pressed => excess.give_up(),
                _ => {}
            }
            let (trouble, is_done) = match outcome {
                Ok(more) => (None, !more),
                Err(Error::Closed) => return,
                Err(error) => (Some(error.to_string()), true),
            };
            *self.trouble.lock() = trouble;
            if is_done || self.shortage.is_noted() {
                return;
            }
        }
    }

    /// Starts the thread.
    pub(crate) fn start_thread(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let collector = Arc::clone(self);
        let work = move || {
            static COLLECTION: Job = Job::new("collection");
            let _job = start_job(&COLLECTION);
            // If the system refuses this, requests may have to wait for this thread to be scheduled
            // out.
            let _ = schedule_for_background();
            let excess = collector.excess();
            excess.work_off();
            while !collector.is_stopping() {
                excess.wait(LOOK_INTERVAL, || collector.is_called());
                if collector.shortage.is_noted() {
                    collector.end_shortage();
                }
                collector.collect_in_background();
            }
        };
        let thread = pellucid_thread::spawn(COLLECT_THREAD, work)?;
        self.has_thread.store(true, Ordering::Relaxed);
        Ok(thread)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use pellucid_account::Timeline;
    use pellucid_io::simulated::SimulatedFileSystem;

    use crate::batch::Operation;
    use crate::engine::Engine;
    use crate::ledger::VERSIONS_LOOKED_AT;
    use crate::open_store::OpenStore;
    use crate::options::EngineOptions;
    use crate::table_id::TableId;

    const VALUE_LENGTH: usize = 500;

    fn options() -> EngineOptions {
        EngineOptions {
            file_system: Arc::new(SimulatedFileSystem::new()),
            segment_size_bytes: 8 << 10,
            background: false,
            identity_seed: Some(1),
            ..EngineOptions::default()
        }
    }

    fn put_often(engine: &Engine, table: TableId, key: &[u8], times: u32) {
        for _ in 0..times {
            let value = [7; VALUE_LENGTH];
            engine.put(table, key, &value).unwrap();
        }
    }

    /// Regression: a counter that was written a million times kept a processor busy, because for
    /// each of its records the collection went through all versions in memory.
    #[test]
    fn versions_of_a_hot_key_are_not_searched_once_per_record() {
        let options = EngineOptions { memory_bytes: 16 << 20, ..options() };
        let engine = Engine::open("/store", options).unwrap();
        let table = engine.table("t").unwrap();
        put_often(&engine, table, b"rarely", 1);
        put_often(&engine, table, b"hot", 300);
        engine.flush().unwrap();
        // Some of the writes that only the memtable holds are on the medium, the others are not.
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

    /// Otherwise a follower that was away for a minute would have to read the whole table again.
    #[test]
    fn the_thread_leaves_the_newest_segments_alone() {
        for (kept_bytes, is_whole) in [(0, false), (64 << 10, true)] {
            let options = EngineOptions { kept_changes_bytes: kept_bytes, ..options() };
            let store = OpenStore::open(Path::new("/store"), options).unwrap();
            let store = Arc::new(store);
            let table = crate::tables::table(&store, "t").unwrap();
            for _ in 0..100 {
                let put = Operation::put(table, b"again", &[7; VALUE_LENGTH]);
                store.writer.write(&[put], 0, || Ok(()), &mut Timeline::off()).unwrap();
            }
            store.writer.flush().unwrap();
            let collector = &store.collector;
            while collector.collect_one(0.5, collector.rules.kept_bytes, || {}).unwrap() {}
            let list = store.journal.segments().list();
            let newest = store.ledger.published_sequence();
            assert_eq!(list.complete_since(newest) == 0, is_whole, "{kept_bytes} bytes");
        }
    }

    /// The dead share is a setting: less space costs more copying.
    #[test]
    fn a_smaller_dead_share_takes_less_space_and_copies_more() {
        let [(roomy_bytes, roomy_copied), (tight_bytes, tight_copied)] =
            [0.55, 0.2].map(|dead_share| {
                let options = EngineOptions {
                    segment_size_bytes: 16 << 10,
                    memory_bytes: 256 << 10,
                    dead_share,
                    ..options()
                };
                let store = Arc::new(OpenStore::open(Path::new("/store"), options).unwrap());
                let table = crate::tables::table(&store, "t").unwrap();
                for number in 0..6_000_u32 {
                    let key = (number.wrapping_mul(0x9e37_79b1) % 500).to_be_bytes();
                    let put = Operation::put(table, &key, &[7; VALUE_LENGTH]);
                    store.writer.write(&[put], 0, || Ok(()), &mut Timeline::off()).unwrap();
                    if number % 100 == 99 {
                        store.writer.flush().unwrap();
                        store.ledger.compact_all().unwrap();
                        store.collector.collect_in_background();
                    }
                }
                let garbage = store.journal.garbage();
                (garbage.dead_and_all_bytes().1, garbage.collected().copied_bytes)
            });
        assert!(tight_bytes < roomy_bytes, "{tight_bytes} and {roomy_bytes} bytes");
        assert!(tight_copied > roomy_copied, "{tight_copied} and {roomy_copied} bytes copied");
        let refused = EngineOptions { dead_share: 0.9, ..EngineOptions::default() };
        assert!(matches!(refused.check(), Err(crate::Error::Option { .. })));
    }
}
