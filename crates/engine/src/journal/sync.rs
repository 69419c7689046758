//! Group commit: one sync covers everything that was written before it.
//!
//! Whoever waits for durability and finds no sync running does it himself, for all who wait; the
//! others find, when it is their turn, that it has been done. Those who do not want to wait leave a
//! callback with the thread `pellucid-sync`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Journal, lock};
use crate::engine::{DurableCallback, SyncTimes};
use crate::error::{Error, Result};

/// The name of the thread that syncs for those who left a callback.
const SYNC_THREAD: &str = "pellucid-sync";

/// Those who left a callback.
#[derive(Default)]
pub(super) struct Waiters {
    callbacks: Vec<(u64, DurableCallback)>,
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
        let begun = self.clock.now();
        self.sync_segments()?;
        self.durable.fetch_max(covered, Ordering::AcqRel);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        *last = SyncTimes { begun, ended: self.clock.now() };
        Ok(*last)
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
            callback(self.sync_to(sequence));
            return;
        }
        waiters.callbacks.push((sequence, callback));
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
            let Some(highest) = callbacks.iter().map(|(sequence, _)| *sequence).max() else {
                return;
            };
            let outcome = self.sync_to(highest);
            for (_, callback) in callbacks {
                callback(outcome.clone());
            }
        }
    }
}
