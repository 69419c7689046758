//! Followers: streams that wait for the next change, and the thread that wakes them.
//!
//! Writers do not notify followers, because that would cost time in each write. Instead, the thread
//! reads the newest sequence number every two milliseconds while a stream waits, and sleeps
//! otherwise.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_clock::{Clock, Ticks};
use pellucid_http::BodyWaker;
use pellucid_store::Store;
use pellucid_thread::{Condvar, Job, Mutex, start_job};

use crate::answer::LoopMessage;
use crate::places::Places;

/// The limit of streams that follow at the same time.
const FOLLOWERS_MAX: usize = 1_000;
/// The interval at which the newest sequence number is read.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// The time after which a stream looks again for memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(50);
/// The time without output after which a stream sends its position, so that the client knows that
/// it is alive.
const SILENCE_MAX_NS: u64 = 15_000_000_000;

static FOLLOWING: Job = Job::new("changes");

/// A stream that waits.
struct WaitingStream {
    awaited: AwaitedEvent,
    /// The time at which it began to wait; for a change, that of its last output.
    since: Ticks,
    reminder: BodyWaker<LoopMessage>,
}

/// The event for which a stream waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum AwaitedEvent {
    /// A change after this sequence number, or the end of a long silence.
    Change(u64),
    /// The next look, because no worker was free, or the collection changes.
    Look,
    /// Room for a document in the memory of all streams.
    Memory,
}

/// The state that the thread and all streams share.
struct FollowerState {
    store: Arc<dyn Store>,
    clock: Clock,
    sleepers: Mutex<Vec<WaitingStream>>,
    changed: Condvar,
    is_stopping: AtomicBool,
}

/// The streams that follow, and the thread that wakes them. Dropping it ends the thread.
pub(super) struct Followers {
    shared: Arc<FollowerState>,
    /// The places of streams, each taken while a stream follows.
    pub(super) places: Places,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Followers {
    pub(super) fn start(store: Arc<dyn Store>, clock: Clock) -> io::Result<Followers> {
        let shared = Arc::new(FollowerState {
            store,
            clock,
            sleepers: Mutex::default(),
            changed: Condvar::for_work(),
            is_stopping: AtomicBool::new(false),
        });
        let looking = Arc::clone(&shared);
        let run = move || {
            let _job = start_job(&FOLLOWING);
            looking.look_until_stopped();
        };
        let thread = std::thread::Builder::new().name("pellucid-changes".to_owned()).spawn(run)?;
        let places = Places::new(FOLLOWERS_MAX);
        Ok(Followers { shared, places, thread: Mutex::new(Some(thread)) })
    }

    /// Wakes all streams, which then end with the sequence number that they have reached, and ends
    /// the thread.
    pub(super) fn stop(&self) {
        let sleepers = self.shared.sleepers();
        self.shared.is_stopping.store(true, Ordering::Release);
        drop(sleepers);
        self.shared.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic has been reported where it happened.
            let _ = thread.join();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.shared.is_stopping.load(Ordering::Acquire)
    }

    pub(super) fn now(&self) -> Ticks {
        self.shared.clock.now()
    }

    /// Returns true if a stream whose last output was at `since` was silent for too long.
    pub(super) fn is_silent(&self, since: Ticks) -> bool {
        self.shared.waited_ns(since, self.now()) >= SILENCE_MAX_NS
    }

    /// Returns true if a stream that has waited since `since` is to be woken.
    pub(super) fn is_due(&self, awaited: AwaitedEvent, since: Ticks) -> bool {
        self.shared.is_due(awaited, since, self.shared.newest_sequence(), self.now())
    }

    /// Registers a stream that waits since `since`. `reminder` wakes it.
    pub(super) fn wait(
        &self,
        awaited: AwaitedEvent,
        since: Ticks,
        reminder: BodyWaker<LoopMessage>,
    ) {
        let mut sleepers = self.shared.sleepers();
        if self.is_stopping() {
            // The thread has ended, or is about to.
            return reminder.go_on();
        }
        sleepers.push(WaitingStream { awaited, since, reminder });
        // With others before it, the thread looks soon anyway.
        if sleepers.len() == 1 {
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl FollowerState {
    fn sleepers(&self) -> pellucid_thread::MutexGuard<'_, Vec<WaitingStream>> {
        self.sleepers.lock()
    }

    fn newest_sequence(&self) -> u64 {
        let feed = self.store.local().and_then(|local| local.change_feed());
        feed.map_or(0, |feed| feed.newest_sequence())
    }

    fn is_due(&self, awaited: AwaitedEvent, since: Ticks, newest: u64, now: Ticks) -> bool {
        let waited_ns = self.waited_ns(since, now);
        let is_over = |interval: Duration| u128::from(waited_ns) >= interval.as_nanos();
        match awaited {
            AwaitedEvent::Change(sequence) => sequence < newest || waited_ns >= SILENCE_MAX_NS,
            // Woken at once, it would keep its event loop busy until a worker is free.
            AwaitedEvent::Look => is_over(LOOK_INTERVAL),
            AwaitedEvent::Memory => is_over(MEMORY_INTERVAL),
        }
    }

    fn waited_ns(&self, since: Ticks, now: Ticks) -> u64 {
        self.clock.nanoseconds(now.since(since))
    }

    /// The loop of the thread.
    fn look_until_stopped(&self) {
        let mut sleepers = self.sleepers();
        loop {
            let is_stopping = self.is_stopping.load(Ordering::Acquire);
            let (newest, now) = (self.newest_sequence(), self.clock.now());
            sleepers.retain(|sleeper| {
                let WaitingStream { awaited, since, .. } = *sleeper;
                let is_woken = is_stopping || self.is_due(awaited, since, newest, now);
                if is_woken {
                    sleeper.reminder.go_on();
                }
                !is_woken
            });
            if is_stopping {
                return;
            }
            sleepers = match sleepers.is_empty() {
                true => self.changed.wait(sleepers),
                false => {
                    let waited = self.changed.wait_timeout(sleepers, LOOK_INTERVAL);
                    waited.0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use pellucid_clock::SimulatedClock;
    use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_stream_that_waits_for_a_change_is_woken_after_a_long_silence() {
        let folder = TempDir::new().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let followers = Followers::start(Arc::new(store), clock).unwrap();
        let (awaited, since) = (AwaitedEvent::Change(5), clock.now());
        let is_due = |newest, waited_ns| {
            followers.shared.is_due(awaited, since, newest, Ticks(since.0 + waited_ns))
        };
        assert!(is_due(6, 0));
        assert!(!is_due(5, SILENCE_MAX_NS - 1));
        assert!(is_due(5, SILENCE_MAX_NS));
    }
}
