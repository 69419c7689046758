//! Followers: bodies of responses that wait for the next change, and the thread that looks for it.
//!
//! Writers know nothing of followers: that would cost each write something. The thread looks at the
//! newest sequence number every two milliseconds while anybody waits, and sleeps otherwise.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_clock::{Clock, Ticks};
use pellucid_http::Reminder;
use pellucid_store::Store;
use pellucid_thread::{Condvar, Job, Mutex, start_job};

use crate::answer::Later;

/// Streams that follow at the same time.
const FOLLOWERS_MAX: usize = 1_000;
/// The pause between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// The silence after which a stream tells how far it is, so that it is known to be alive.
const SILENCE_MAX_NS: u64 = 15_000_000_000;

static FOLLOWING: Job = Job::new("changes");

/// A body that waits.
struct Sleeper {
    /// It has all changes up to here.
    sequence: u64,
    silent_since: Ticks,
    reminder: Reminder<Later>,
}

struct Shared {
    store: Arc<dyn Store>,
    clock: Clock,
    sleepers: Mutex<Vec<Sleeper>>,
    changed: Condvar,
    is_stopping: AtomicBool,
    followers: AtomicUsize,
}

/// See the module. Dropping it ends the thread.
pub(super) struct Followers {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The place of a stream among all that follow.
pub(super) struct FollowerPlace(Arc<Shared>);

impl Drop for FollowerPlace {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Followers {
    pub(super) fn start(store: Arc<dyn Store>, clock: Clock) -> io::Result<Followers> {
        let shared = Arc::new(Shared {
            store,
            clock,
            sleepers: Mutex::default(),
            changed: Condvar::for_work(),
            is_stopping: AtomicBool::new(false),
            followers: AtomicUsize::new(0),
        });
        let looking = Arc::clone(&shared);
        let run = move || {
            let _job = start_job(&FOLLOWING);
            looking.look_until_stopped();
        };
        let thread = std::thread::Builder::new().name("pellucid-changes".to_owned()).spawn(run)?;
        Ok(Followers { shared, thread: Mutex::new(Some(thread)) })
    }

    /// A place for a further stream; nothing if there are too many.
    pub(super) fn place(&self) -> Option<FollowerPlace> {
        let before = self.shared.followers.fetch_add(1, Ordering::Relaxed);
        let place = FollowerPlace(Arc::clone(&self.shared));
        (before < FOLLOWERS_MAX).then_some(place)
    }

    /// Ends all streams that follow, each with the sequence number that it has come to.
    pub(super) fn stop(&self) {
        let sleepers = self.shared.sleepers();
        self.shared.is_stopping.store(true, Ordering::Release);
        drop(sleepers);
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
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

    /// True if a stream was silent for so long that it has to say something.
    pub(super) fn is_silence(&self, since: Ticks) -> bool {
        self.shared.is_silence(since, self.now())
    }

    /// True if there are changes behind `sequence`.
    pub(super) fn is_news(&self, sequence: u64) -> bool {
        self.shared.newest_sequence() > sequence
    }

    /// Has a body asked again that has all changes up to `sequence`: once there is another one, or
    /// it was silent for too long.
    pub(super) fn wait(&self, sequence: u64, silent_since: Ticks, reminder: Reminder<Later>) {
        let mut sleepers = self.shared.sleepers();
        if self.is_stopping() {
            // Nobody looks any more.
            return reminder.go_on();
        }
        sleepers.push(Sleeper { sequence, silent_since, reminder });
        self.shared.changed.notify_all();
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn sleepers(&self) -> pellucid_thread::MutexGuard<'_, Vec<Sleeper>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn newest_sequence(&self) -> u64 {
        let feed = self.store.local().and_then(|local| local.change_feed());
        feed.map_or(0, |feed| feed.newest_sequence())
    }

    fn is_silence(&self, since: Ticks, now: Ticks) -> bool {
        self.clock.nanoseconds(now.since(since)) >= SILENCE_MAX_NS
    }

    fn look_until_stopped(&self) {
        let mut sleepers = self.sleepers();
        loop {
            let is_stopping = self.is_stopping.load(Ordering::Acquire);
            let (newest, now) = (self.newest_sequence(), self.clock.now());
            sleepers.retain(|sleeper| {
                let is_woken = is_stopping
                    || sleeper.sequence < newest
                    || self.is_silence(sleeper.silent_since, now);
                if is_woken {
                    sleeper.reminder.go_on();
                }
                !is_woken
            });
            if is_stopping {
                return;
            }
            sleepers = match sleepers.is_empty() {
                true => self.changed.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
                false => {
                    let waited = self.changed.wait_timeout(sleepers, LOOK_INTERVAL);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_stream_beyond_the_bound_has_a_place_once_another_ends() {
        let folder = TempDir::new().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let followers = Followers::start(Arc::new(store), Clock::system()).unwrap();
        let mut places: Vec<_> = (0..FOLLOWERS_MAX).map(|_| followers.place().unwrap()).collect();
        assert!(followers.place().is_none());
        places.pop();
        assert!(followers.place().is_some());
    }
}
