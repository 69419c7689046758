//! Group commit: one sync covers everything that was written before it.
//!
//! Whoever waits for durability and finds no sync running does it himself, for all who wait; the
//! others find, when it is their turn, that it has been done. Those who do not want to wait leave a
//! callback with the thread `pellucid-sync`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_clock::Ticks;
use pellucid_thread::{HandedOver, Indivisible, Job, WaitKind, Waiting, start_job};

use super::{Journal, lock};
use crate::engine::{DurableCallback, SyncTimes};
use crate::error::{Error, Result};
use crate::jobs;
use crate::stats::DurabilityFigures;

/// The name of the thread that syncs for those who left a callback.
const SYNC_THREAD: &str = "pellucid-sync";

/// What durability cost, in ticks of the journal's clock.
#[derive(Default)]
pub(super) struct WaitTimes {
    /// All syncs for those who waited.
    sync_ticks: AtomicU64,
    /// Those who waited, until their sync began and from then on.
    waiters: AtomicU64,
    group_wait_ticks: AtomicU64,
    sync_wait_ticks: AtomicU64,
}

impl WaitTimes {
    /// Counts one who wanted durability at `asked` and has it by the sync of `times`.
    fn count(&self, asked: Ticks, times: SyncTimes) {
        // A sync that had ended before is none that anybody waited for.
        if times.ended <= asked {
            return;
        }
        let began = times.begun.max(asked);
        self.waiters.fetch_add(1, Ordering::Relaxed);
        self.group_wait_ticks.fetch_add(times.begun.since(asked), Ordering::Relaxed);
        self.sync_wait_ticks.fetch_add(times.ended.since(began), Ordering::Relaxed);
    }
}

/// One who left a callback.
struct Waiter {
    sequence: u64,
    asked: Ticks,
    put_down: HandedOver,
    callback: DurableCallback,
}

/// Those who left a callback.
#[derive(Default)]
pub(super) struct Waiters {
    callbacks: Vec<Waiter>,
    is_running: bool,
    is_stopping: bool,
}

impl Journal {
    /// Returns once everything up to `sequence`, as far as it was written, is on the medium.
    pub(crate) fn sync_to(&self, sequence: u64) -> Result<SyncTimes> {
        let mut last = lock(&self.syncing);
        let covered = self.appended_sequence();
        if self.durable_sequence() >= sequence.min(covered) {
            return Ok(*last);
        }
        self.check_poison()?;
        let _whole = Indivisible::begin();
        let job = self.activity.begin(jobs::SYNC, self.clock);
        let begun = self.clock.now();
        self.sync_segments()?;
        self.durable.fetch_max(covered, Ordering::AcqRel);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        *last = SyncTimes { begun, ended: self.clock.now(), job: job.id() };
        self.waits.sync_ticks.fetch_add(last.ended.since(begun), Ordering::Relaxed);
        Ok(*last)
    }

    /// As [`Journal::sync_to`], for a writer, whose wait is counted.
    pub(crate) fn wait_durable(&self, sequence: u64) -> Result<SyncTimes> {
        let asked = self.clock.now();
        let _waiting = Waiting::begin(WaitKind::Sync);
        let times = self.sync_to(sequence)?;
        self.waits.count(asked, times);
        Ok(times)
    }

    /// What durability cost so far.
    pub(crate) fn durability(&self) -> DurabilityFigures {
        let ns = |ticks: &AtomicU64| self.clock.nanoseconds(ticks.load(Ordering::Relaxed));
        DurabilityFigures {
            sync_ns: ns(&self.waits.sync_ticks),
            waits: self.waits.waiters.load(Ordering::Relaxed),
            group_waited_ns: ns(&self.waits.group_wait_ticks),
            sync_waited_ns: ns(&self.waits.sync_wait_ticks),
        }
    }

    /// Syncs all segments that may hold something new, the oldest first: no record may reach the
    /// medium as acknowledged before those that precede it.
    fn sync_segments(&self) -> Result<()> {
        let list = self.segments();
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

    /// Calls back once everything up to `sequence` is on the medium, or cannot get there any more:
    /// on the sync thread, or at once on this one.
    pub(crate) fn when_durable(&self, sequence: u64, callback: DurableCallback) {
        let mut waiters = lock(&self.waiters);
        if !waiters.is_running || waiters.is_stopping || self.durable_sequence() >= sequence {
            drop(waiters);
            callback(self.wait_durable(sequence));
            return;
        }
        let put_down = HandedOver::put_down(WaitKind::Sync);
        waiters.callbacks.push(Waiter { sequence, asked: self.clock.now(), put_down, callback });
        drop(waiters);
        self.waiters_changed.notify_one();
    }

    /// Starts the sync thread.
    pub(crate) fn start_sync_thread(self: &Arc<Self>) -> Result<std::thread::JoinHandle<()>> {
        let journal = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name(SYNC_THREAD.to_owned())
            .spawn(move || journal.serve_waiters())
            .map_err(|error| Error::io("start a thread for", &self.directory, error))?;
        lock(&self.waiters).is_running = true;
        Ok(thread)
    }

    /// Asks the sync thread to serve those who wait already, and to end.
    pub(crate) fn stop_sync_thread(&self) {
        lock(&self.waiters).is_stopping = true;
        self.waiters_changed.notify_all();
    }

    fn serve_waiters(&self) {
        static SYNC: Job = Job::new("sync");
        let _job = start_job(&SYNC);
        loop {
            let mut waiters = lock(&self.waiters);
            while waiters.callbacks.is_empty() && !waiters.is_stopping {
                waiters = self
                    .waiters_changed
                    .wait(waiters)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
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
                    self.waits.count(asked, *times);
                }
                callback(outcome.clone());
            }
        }
    }
}
