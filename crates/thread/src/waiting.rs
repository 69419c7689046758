//! The waits under way and their requests: a table that readers look at from aside.
//!
//! A profile says afterwards where waits were; this says of a request that hangs what it hangs on.
//! Entries are made where a thread is about to sleep anyway, or where a request is put in a queue,
//! so that they cost the path without waits nothing. No lock guards them: waits for locks are
//! among them.

use std::fmt;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use pellucid_clock::Clock;

use crate::activity::with_thread;

/// Waits that the table has room for.
pub const WAITS_MAX: usize = 4_096;
/// Places that are looked at for a free one; a wait that finds none is not shown.
const LOOKS_MAX: usize = 16;
/// States of a place: free, or being written; any higher number is one entry's.
const FREE: u64 = 0;
const WRITING: u64 = 1;

/// The cause of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitKind {
    /// A lock that another thread holds.
    Lock,
    /// A condition that another thread's progress brings about.
    Condition,
    /// A thread that takes the request up, or verifies its password.
    Thread,
    /// A sync that makes writes durable.
    Sync,
    /// Another node of the cluster.
    Node,
}

const KINDS: [WaitKind; 5] =
    [WaitKind::Lock, WaitKind::Condition, WaitKind::Thread, WaitKind::Sync, WaitKind::Node];

impl fmt::Display for WaitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitKind::Lock => "lock",
            WaitKind::Condition => "condition",
            WaitKind::Thread => "thread",
            WaitKind::Sync => "sync",
            WaitKind::Node => "node",
        })
    }
}

/// A wait that was under way when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The number of the request, as its owner counts them; zero for none.
    pub request: u64,
    /// The cause.
    pub kind: WaitKind,
    /// The place in the program.
    pub place: &'static Location<'static>,
    /// Its beginning, by the monotonic clock.
    pub since_ns: u64,
}

struct Slot {
    state: AtomicU64,
    request: AtomicU64,
    kind: AtomicU64,
    place: AtomicPtr<Location<'static>>,
    since_ns: AtomicU64,
}

static TABLE: [Slot; WAITS_MAX] = [const {
    Slot {
        state: AtomicU64::new(FREE),
        request: AtomicU64::new(0),
        kind: AtomicU64::new(0),
        place: AtomicPtr::new(ptr::null_mut()),
        since_ns: AtomicU64::new(0),
    }
}; WAITS_MAX];
/// Entries so far, and where the next one looks first.
static ENTRIES: AtomicU64 = AtomicU64::new(0);

/// An entry of the table, for as long as this lives.
#[must_use = "the wait is over when this is dropped"]
pub struct Waiting {
    slot: Option<&'static Slot>,
}

impl Waiting {
    /// This thread's request waits from now on.
    #[track_caller]
    pub fn begin(kind: WaitKind) -> Waiting {
        let request = with_thread(|thread| thread.request.load(Ordering::Relaxed));
        Waiting::enter(Wait { request, kind, place: Location::caller(), since_ns: monotonic_ns() })
    }

    pub(crate) fn enter(wait: Wait) -> Waiting {
        let number = ENTRIES.fetch_add(1, Ordering::Relaxed);
        let claim = |slot: &&'static Slot| {
            let claimed = Ordering::Acquire;
            slot.state.compare_exchange(FREE, WRITING, claimed, Ordering::Relaxed).is_ok()
        };
        let place = |look: usize| &TABLE[(number as usize).wrapping_add(look) % WAITS_MAX];
        let slot = (0..LOOKS_MAX).map(place).find(claim);
        if let Some(slot) = slot {
            slot.request.store(wait.request, Ordering::Relaxed);
            slot.kind.store(wait.kind as u64, Ordering::Relaxed);
            slot.place.store(ptr::from_ref(wait.place).cast_mut(), Ordering::Relaxed);
            slot.since_ns.store(wait.since_ns, Ordering::Relaxed);
            slot.state.store(number + 2, Ordering::Release);
        }
        Waiting { slot }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.state.store(FREE, Ordering::Release);
        }
    }
}

/// All that is waited for now.
#[must_use]
pub fn waits() -> Vec<Wait> {
    TABLE.iter().filter_map(Slot::look).collect()
}

impl Slot {
    fn look(&self) -> Option<Wait> {
        let state = self.state.load(Ordering::Acquire);
        if state <= WRITING {
            return None;
        }
        let request = self.request.load(Ordering::Relaxed);
        let kind = self.kind.load(Ordering::Relaxed);
        let place = self.place.load(Ordering::Relaxed);
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if self.state.load(Ordering::Relaxed) != state {
            return None;
        }
        // SAFETY: only addresses of statics are ever stored, or null.
        let place = unsafe { place.as_ref() }?;
        Some(Wait { request, kind: *KINDS.get(kind as usize)?, place, since_ns })
    }
}

/// The monotonic clock, of which [`Wait::since_ns`] speaks.
#[must_use]
pub fn monotonic_ns() -> u64 {
    // It ticks in nanoseconds.
    Clock::monotonic().now().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::set_request;

    /// Waits of these requests: other tests have some of their own.
    fn seen(requests: std::ops::Range<u64>) -> Vec<Wait> {
        waits().into_iter().filter(|wait| requests.contains(&wait.request)).collect()
    }

    #[test]
    fn a_wait_is_seen_while_it_lasts() {
        set_request(7_001);
        let waiting = Waiting::begin(WaitKind::Sync);
        let found = seen(7_001..7_002);
        assert_eq!((found.len(), found[0].kind), (1, WaitKind::Sync));
        assert!(found[0].place.file().ends_with("waiting.rs"), "{:?}", found[0].place);
        assert!(found[0].since_ns <= monotonic_ns());
        drop(waiting);
        assert!(seen(7_001..7_002).is_empty());
    }

    #[test]
    fn many_threads_enter_and_leave_and_no_entry_is_torn() {
        const WAITS: u64 = if cfg!(miri) { 10 } else { 5_000 };
        let place = Location::caller();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3_u64)
                .map(|worker| {
                    scope.spawn(move || {
                        for number in 0..WAITS {
                            let request = 1_000_000 + number * 3 + worker;
                            let kind = KINDS[request as usize % KINDS.len()];
                            drop(Waiting::enter(Wait { request, kind, place, since_ns: request }));
                        }
                    })
                })
                .collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                for wait in seen(1_000_000..2_000_000) {
                    assert_eq!(wait.since_ns, wait.request);
                    assert_eq!(wait.kind, KINDS[wait.request as usize % KINDS.len()]);
                }
            }
        });
        assert!(seen(1_000_000..2_000_000).is_empty());
    }
}
