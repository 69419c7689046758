//! Group commit: one sync covers everything that was written before it.
//!
//! A thread that waits for durability and finds no sync running makes one for all waiting threads.
//! The others find, when it is their turn, that it was already made. Threads that do not want to
//! wait leave a callback with the thread `pellucid-sync`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pellucid_account::Activity;
use pellucid_clock::{Clock, Ticks};
use pellucid_thread::{
    Condvar, CriticalSection, Job, JoinHandle, Mutex, ParkedWork, WaitGuard, WaitKind, start_job,
};

use super::segments::SegmentSet;
use crate::durability::{DurableCallback, SyncTimes};
use crate::error::{Error, Result};
use crate::jobs;
use crate::stats::{DurabilityCounters, DurabilityFigures};

/// The name of the thread that syncs for callers that left a callback.
const SYNC_THREAD: &str = "pellucid-sync";

/// A callback that waits for durability.
struct Waiter {
    sequence: u64,
    asked: Ticks,
    put_down: ParkedWork,
    callback: DurableCallback,
}

/// The callbacks that wait for durability.
#[derive(Default)]
struct Waiters {
    callbacks: Vec<Waiter>,
    is_running: bool,
    is_stopping: bool,
}

/// The last sequence numbers that are written and that are durable, and the syncs between the two.
pub(crate) struct GroupSync {
    segments: Arc<SegmentSet>,
    clock: Clock,
    /// The register of running jobs.
    activity: Activity,
    /// The last sequence number of the last complete batch.
    appended: AtomicU64,
    /// The highest sequence number known to be on the medium.
    durable: AtomicU64,
    syncs: AtomicU64,
    counters: DurabilityCounters,
    /// Locked during a sync; the times of the last one.
    syncing: Mutex<SyncTimes>,
    /// The first failure, after which no write is allowed.
    poison: OnceLock<String>,
    waiters: Mutex<Waiters>,
    waiters_changed: Condvar,
}

impl GroupSync {
    /// The state of a journal whose records up to `last_sequence` are on the medium.
    pub(super) fn new(
        segments: Arc<SegmentSet>,
        (clock, activity): (Clock, Activity),
        last_sequence: u64,
    ) -> GroupSync {
        GroupSync {
            segments,
            clock,
            activity,
            appended: AtomicU64::new(last_sequence),
            durable: AtomicU64::new(last_sequence),
            syncs: AtomicU64::new(0),
            counters: DurabilityCounters::default(),
            syncing: Mutex::new(SyncTimes::default()),
            poison: OnceLock::new(),
            waiters: Mutex::new(Waiters::default()),
            waiters_changed: Condvar::for_work(),
        }
    }

    /// The last sequence number of the last complete batch.
    pub(crate) fn appended_sequence(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// Notes that the batch that ends with `sequence` is complete. Called under the writer lock.
    #[inline]
    pub(super) fn note_appended(&self, sequence: u64) {
        self.appended.store(sequence, Ordering::Release);
    }

    /// The highest sequence number known to be on the medium.
    #[inline]
    pub(crate) fn durable_sequence(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Notes that everything up to `sequence` is on the medium.
    pub(super) fn note_durable(&self, sequence: u64) {
        self.durable.fetch_max(sequence, Ordering::AcqRel);
    }

    /// The number of syncs that were made for callers, flushes and backups.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Returns an error if an earlier failure left the state of the medium unknown.
    #[inline]
    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Makes `error` the failure after which nothing is written, unless there was one before;
    /// returns the error that writers get from now on.
    pub(super) fn poison(&self, error: &Error) -> Error {
        let cause = self.poison.get_or_init(|| error.to_string()).clone();
        Error::Poisoned { cause }
    }

    /// Waits until everything that was written up to `sequence` is on the medium; syncs if
    /// necessary.
    pub(crate) fn sync_to(&self, sequence: u64) -> Result<SyncTimes> {
        let mut last = self.syncing.lock();
        let covered = self.appended_sequence();
        if self.durable_sequence() >= sequence.min(covered) {
            return Ok(*last);
        }
        self.check_poison()?;
        let _whole = CriticalSection::begin();
        let job = self.activity.begin(jobs::SYNC, self.clock);
        let begun = self.clock.now();
        self.sync_segments()?;
        self.note_durable(covered);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        *last = SyncTimes { begun, ended: self.clock.now(), job: job.id() };
        self.counters.sync_ns.0.add(last.ended.since(begun));
        Ok(*last)
    }

    /// Waits as [`GroupSync::sync_to`] does, for a writer, and counts the wait.
    pub(crate) fn wait_durable(&self, sequence: u64) -> Result<SyncTimes> {
        let asked = self.clock.now();
        // Looked at before the lock, which the sync of newer writes may hold.
        if self.durable_sequence() >= sequence.min(self.appended_sequence()) {
            return Ok(SyncTimes { begun: asked, ended: asked, job: 0 });
        }
        let _waiting = WaitGuard::begin(WaitKind::Sync);
        let times = self.sync_to(sequence)?;
        self.count_wait(asked, times);
        Ok(times)
    }

    /// The cost of durability since the store was opened.
    pub(crate) fn durability(&self) -> DurabilityFigures {
        let mut figures = DurabilityFigures::default();
        self.counters.add_to(self.clock, &mut figures);
        figures
    }

    /// Counts the wait of a caller that asked at `asked` and was served by the sync of `times`.
    fn count_wait(&self, asked: Ticks, times: SyncTimes) {
        // If the sync had ended before, the caller did not wait.
        if times.ended <= asked {
            return;
        }
        let began = times.begun.max(asked);
        self.counters.waits.add(1);
        self.counters.group_waited_ns.0.add(times.begun.since(asked));
        self.counters.sync_waited_ns.0.add(times.ended.since(began));
    }

    /// Syncs all segments that may hold new records, the oldest first: a record must not become
    /// durable before those that precede it.
    fn sync_segments(&self) -> Result<()> {
        let list = self.segments.list();
        let is_synced =
            |index: &usize| list.segments[*index].shared.is_synced.load(Ordering::Acquire);
        let first = (0..list.segments.len()).rev().find(is_synced).map_or(0, |index| index + 1);
        for (index, segment) in list.segments.iter().enumerate().skip(first) {
            let shared = &segment.shared;
            if let Err(error) = shared.file.sync() {
                return Err(self.poison(&Error::io("sync", &shared.path, error)));
            }
            if index + 1 < list.segments.len() {
                shared.is_synced.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Calls `callback` once everything up to `sequence` is on the medium or a sync has failed: on
    /// the sync thread, or before this returns on the calling thread.
    pub(crate) fn when_durable(&self, sequence: u64, callback: DurableCallback) {
        let mut waiters = self.waiters.lock();
        if !waiters.is_running || waiters.is_stopping || self.durable_sequence() >= sequence {
            drop(waiters);
            callback(self.wait_durable(sequence));
            return;
        }
        let put_down = ParkedWork::put_down(WaitKind::Sync);
        waiters.callbacks.push(Waiter { sequence, asked: self.clock.now(), put_down, callback });
        drop(waiters);
        self.waiters_changed.notify_one();
    }

    /// Starts the sync thread.
    pub(super) fn start_thread(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let sync = Arc::clone(self);
        let thread = pellucid_thread::spawn(SYNC_THREAD, move || sync.serve_waiters())?;
        self.waiters.lock().is_running = true;
        Ok(thread)
    }

    /// Asks the sync thread to serve the callbacks that wait already, and to end.
    pub(super) fn stop_thread(&self) {
        self.waiters.lock().is_stopping = true;
        self.waiters_changed.notify_all();
    }

    fn serve_waiters(&self) {
        static SYNC: Job = Job::new("sync");
        let _job = start_job(&SYNC);
        loop {
            let mut waiters = self.waiters.lock();
            while waiters.callbacks.is_empty() && !waiters.is_stopping {
                waiters = self.waiters_changed.wait(waiters);
            }
            let callbacks = std::mem::take(&mut waiters.callbacks);
            drop(waiters);
            let Some(highest) = callbacks.iter().map(|waiter| waiter.sequence).max() else {
                return;
            };
            let outcome = self.sync_to(highest);
            for Waiter { asked, put_down, callback, .. } in callbacks {
                put_down.end();
                if let Ok(times) = &outcome {
                    self.count_wait(asked, *times);
                }
                callback(outcome.clone());
            }
        }
    }
}
