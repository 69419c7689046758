//! The signals between writers and the background thread: work, room, failure, closing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pellucid_thread::{Condvar, Mutex};

use crate::error::{Error, Result};

/// The outcome of a wait for room.
pub(super) enum RoomState {
    /// There is room.
    Free,
    /// There is no room yet.
    Full,
    /// There is no room, and no thread that makes some.
    Unattended,
}

/// A job that lacked room on the disk or resources of the system, and is tried again.
struct PostponedJob {
    cause: Error,
    /// True if it is a flush: writers that wait for it then get the error.
    is_flush: bool,
    /// True once a writer got the error of the last attempt; unused if `is_lasting`.
    is_reported: bool,
    /// True if no attempt follows before the job around it ends: all writers get the error.
    is_lasting: bool,
}

#[derive(Default)]
struct BackgroundState {
    /// True while the background thread runs.
    has_thread: bool,
    /// The reason why all further writes are refused.
    failure: Option<Error>,
    /// The job that is put off for a while, until a job succeeds.
    postponed: Option<PostponedJob>,
}

/// The signals of a ledger.
///
/// A `wake` method is called after each change that a thread may wait for. It takes the lock under
/// which waiting threads check their condition, so no wake-up is lost.
pub(super) struct Signals {
    troubles: Mutex<BackgroundState>,
    work: Condvar,
    room: Condvar,
    has_failed: AtomicBool,
    is_closing: AtomicBool,
}

impl Signals {
    pub(super) fn new() -> Signals {
        Signals {
            troubles: Mutex::default(),
            work: Condvar::for_work(),
            room: Condvar::new(),
            has_failed: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        }
    }

    /// Notes whether the background thread runs.
    pub(super) fn set_thread(&self, has_thread: bool) {
        self.troubles.lock().has_thread = has_thread;
    }

    /// True if all further writes are refused.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// True once the ledger is closing.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Returns an error once the ledger is closing.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closing() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns the failure as an error, if there was one.
    pub(super) fn check(&self) -> Result<()> {
        self.troubles.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// The message of the failure, or the reason why a job is put off.
    pub(super) fn trouble(&self) -> Option<String> {
        let troubles = self.troubles.lock();
        let cause = troubles.postponed.as_ref().map(|job| &job.cause);
        troubles.failure.as_ref().or(cause).map(Error::to_string)
    }

    /// Asks jobs to end as soon as they can, and wakes all waiting threads.
    pub(super) fn close(&self) {
        let _lock = self.troubles.lock();
        self.is_closing.store(true, Ordering::Release);
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Refuses all further writes because of `error`. Not called for errors that pass, such as a
    /// full disk or a lack of descriptors, nor for [`Error::Closed`].
    pub(super) fn fail(&self, error: &Error) {
        let mut troubles = self.troubles.lock();
        if troubles.failure.is_none() {
            troubles.failure = Some(Error::Poisoned { cause: error.to_string() });
        }
        self.has_failed.store(true, Ordering::Release);
        self.room.notify_all();
    }

    /// Notes the outcome of a job, and whether a flush failed in it.
    pub(super) fn note_outcome<T>(&self, outcome: &Result<T>, has_flush_failed: bool) {
        match outcome {
            Ok(_) => self.troubles.lock().postponed = None,
            Err(Error::Closed) => {}
            Err(error) if error.passes() => {
                let (cause, is_flush) = (error.clone(), has_flush_failed);
                let job = PostponedJob { cause, is_flush, is_reported: false, is_lasting: false };
                self.troubles.lock().postponed = Some(job);
                self.room.notify_all();
            }
            Err(error) => self.fail(error),
        }
    }

    /// Notes a flush that is put off until the job around it ends.
    pub(super) fn put_off_flush(&self, cause: Error) {
        let job = PostponedJob { cause, is_flush: true, is_reported: false, is_lasting: true };
        self.troubles.lock().postponed = Some(job);
        self.room.notify_all();
    }

    /// True if the job that was put off last, and still is, was a flush.
    pub(super) fn is_flush_put_off(&self) -> bool {
        let troubles = self.troubles.lock();
        // After a failure, nothing is tried again.
        troubles.failure.is_none() && troubles.postponed.as_ref().is_some_and(|job| job.is_flush)
    }

    /// Wakes the background thread.
    pub(super) fn wake_work(&self) {
        let _lock = self.troubles.lock();
        self.work.notify_one();
    }

    /// Wakes all threads that do jobs.
    pub(super) fn wake_all_work(&self) {
        let _lock = self.troubles.lock();
        self.work.notify_all();
    }

    /// Wakes the writers that wait for room.
    pub(super) fn wake_room(&self) {
        let _lock = self.troubles.lock();
        self.room.notify_all();
    }

    /// Waits until `is_due`, and returns true; returns false once the ledger is closing. Checks
    /// again at least every `look_after`.
    pub(super) fn wait_for_work(&self, look_after: Duration, is_due: impl Fn() -> bool) -> bool {
        let mut lock = self.troubles.lock();
        loop {
            if self.is_closing() {
                return false;
            }
            if is_due() {
                return true;
            }
            (lock, _) = self.work.wait_timeout(lock, look_after);
        }
    }

    /// Waits while `is_waiting`, for `duration` at most.
    pub(super) fn wait_while(&self, duration: Duration, is_waiting: impl Fn() -> bool) {
        drop(self.work.wait_timeout_while(self.troubles.lock(), duration, |_| is_waiting()));
    }

    /// Waits until `is_free`, for `duration` at most. Returns an error if there will never be room,
    /// or if a flush is put off: to one writer for each attempt, to all if no attempt follows.
    pub(super) fn wait_for_room(
        &self,
        duration: Duration,
        is_free: impl Fn() -> bool,
    ) -> Result<RoomState> {
        let mut troubles = self.troubles.lock();
        if let Some(failure) = &troubles.failure {
            return Err(failure.clone());
        }
        if is_free() {
            return Ok(RoomState::Free);
        }
        self.check_open()?;
        if !troubles.has_thread {
            return Ok(RoomState::Unattended);
        }
        if let Some(job) = &mut troubles.postponed
            && job.is_flush
            && (job.is_lasting || !std::mem::replace(&mut job.is_reported, true))
        {
            // The next attempt may succeed: the caller may free some room until then.
            return Err(job.cause.clone());
        }
        self.work.notify_one();
        drop(self.room.wait_timeout(troubles, duration));
        Ok(RoomState::Full)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Regression: a replay went on after a flush had failed for good, because an earlier attempt
    /// was put off, and the store opened.
    #[test]
    fn no_flush_is_put_off_after_a_failure() {
        let (signals, path) = (Signals::new(), Path::new("table"));
        let outcome = |error: std::io::ErrorKind| -> Result<()> {
            Err(Error::io("write", path, error.into()))
        };
        signals.note_outcome(&outcome(std::io::ErrorKind::StorageFull), true);
        assert!(signals.is_flush_put_off() && !signals.has_failed());
        signals.note_outcome(&outcome(std::io::ErrorKind::Other), true);
        assert!(!signals.is_flush_put_off() && signals.has_failed());
    }
}
