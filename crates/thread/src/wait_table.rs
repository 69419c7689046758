//! The table of waits under way, with their requests; any thread can read it.
//!
//! A profile shows past waits. This table shows the cause for which a hanging request waits now.
//! Entries are made when a thread is about to sleep anyway, or when a request is put into a queue,
//! so that they cost the path without waits nothing. The table has no lock, because it also has the
//! waits for locks.

use std::fmt;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use pellucid_clock::Clock;

use crate::activity::with_thread;

/// The capacity of the table.
pub const WAITS_MAX: usize = 4_096;
/// The most slots that are tried for a free one; a wait that finds none is not shown.
const LOOKS_MAX: usize = 16;
/// The state of a free slot. States above [`WRITING`] identify an entry.
const FREE: u64 = 0;
/// The state of a slot that is being written.
const WRITING: u64 = 1;

/// The cause of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitKind {
    /// A lock that another thread holds.
    Lock,
    /// A condition variable that another thread will signal.
    Condition,
    /// Another thread that will continue the request, or verifies its password.
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

/// A wait that was under way when the table was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The owner's number of the request; zero for none.
    pub request: u64,
    /// The cause.
    pub kind: WaitKind,
    /// The place in the source code.
    pub place: &'static Location<'static>,
    /// The beginning, as a reading of [`monotonic_ns`].
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
/// The number of entries so far; it also selects the slot that the next one tries first.
static ENTRIES: AtomicU64 = AtomicU64::new(0);

/// An entry of the table, which is removed when this is dropped.
#[must_use = "the wait is over when this is dropped"]
pub struct WaitGuard {
    slot: Option<&'static Slot>,
}

impl WaitGuard {
    /// Enters a wait of this thread's request, which begins now.
    #[track_caller]
    pub fn begin(kind: WaitKind) -> WaitGuard {
        let request = with_thread(|thread| thread.request.load(Ordering::Relaxed));
        WaitGuard::enter(Wait {
            request,
            kind,
            place: Location::caller(),
            since_ns: monotonic_ns(),
        })
    }

    pub(crate) fn enter(wait: Wait) -> WaitGuard {
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
        WaitGuard { slot }
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.state.store(FREE, Ordering::Release);
        }
    }
}

/// All waits that are under way now.
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

/// A reading of the monotonic clock, to compare with [`Wait::since_ns`]. A signal handler may call
/// it.
#[must_use]
pub fn monotonic_ns() -> u64 {
    // The ticks of this clock are nanoseconds.
    Clock::monotonic().now().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::set_request;

    /// The waits of these requests. Other tests have waits of other requests at the same time.
    fn seen(requests: std::ops::Range<u64>) -> Vec<Wait> {
        waits().into_iter().filter(|wait| requests.contains(&wait.request)).collect()
    }

    #[test]
    fn a_wait_is_shown_while_it_lasts() {
        set_request(7_001);
        let waiting = WaitGuard::begin(WaitKind::Sync);
        let found = seen(7_001..7_002);
        assert_eq!((found.len(), found[0].kind), (1, WaitKind::Sync));
        assert!(found[0].place.file().ends_with("wait_table.rs"), "{:?}", found[0].place);
        assert!(found[0].since_ns <= monotonic_ns());
        drop(waiting);
        assert!(seen(7_001..7_002).is_empty());
    }

    #[test]
    fn concurrent_entries_are_never_torn() {
        const WAITS: u64 = if cfg!(miri) { 10 } else { 5_000 };
        let place = Location::caller();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3_u64)
                .map(|worker| {
                    scope.spawn(move || {
                        for number in 0..WAITS {
                            let request = 1_000_000 + number * 3 + worker;
                            let kind = KINDS[request as usize % KINDS.len()];
                            drop(WaitGuard::enter(Wait {
                                request,
                                kind,
                                place,
                                since_ns: request,
                            }));
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
