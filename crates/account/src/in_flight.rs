//! Requests under way: the one at which each event loop works, and those that left their loop.
//!
//! A loop publishes each stamp of its current request by one store to a cache line that only it
//! writes; other threads read that line. A request that is handed over or streamed is put into a
//! list of its loop instead, under a lock: the wait that follows is far longer than the lock takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_clock::Ticks;
use pellucid_thread::Mutex;
use slab::Slab;

use crate::phase::{Phase, Stamp};

/// The slot of an operation that is not known yet.
pub(crate) const OPERATION_UNKNOWN: u8 = u8::MAX;
/// Attempts of a reader that the loop overtakes.
const LOOKS_MAX: usize = 8;

/// The request at which one event loop works.
#[repr(align(64))]
pub(crate) struct CurrentRequest {
    /// The number of the request; zero while there is none.
    request: AtomicU64,
    received: AtomicU64,
    /// The slots of the operation and of the last stamp.
    doing: AtomicU64,
}

/// The place for timelines that belong to no loop.
pub(crate) static NOBODY: CurrentRequest = CurrentRequest::new();

/// Places whose recorders are gone, for reuse. Timelines hold a place by a `'static` reference, so
/// none is ever freed; there are as many as there were recorders at the same time.
static UNUSED: Mutex<Vec<&'static CurrentRequest>> = Mutex::new(Vec::new());

impl std::fmt::Debug for CurrentRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Present").field("look", &self.look()).finish()
    }
}

impl CurrentRequest {
    const fn new() -> CurrentRequest {
        CurrentRequest {
            request: AtomicU64::new(0),
            received: AtomicU64::new(0),
            doing: AtomicU64::new(0),
        }
    }

    pub(crate) fn take() -> &'static CurrentRequest {
        let unused = UNUSED.lock().pop();
        unused.unwrap_or_else(|| Box::leak(Box::new(CurrentRequest::new())))
    }

    pub(crate) fn give_back(&'static self) {
        self.rest();
        UNUSED.lock().push(self);
    }

    /// Notes that the loop begins to work at a request.
    #[inline(always)]
    pub(crate) fn begin(&self, request: u64, received: Ticks) {
        self.request.store(0, Ordering::Release);
        // Release: a reader that sees the new time also sees that the old request is over.
        self.received.store(received.0, Ordering::Release);
        self.request.store(request, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn note(&self, operation: u8, stamp: Stamp) {
        self.doing.store(u64::from(operation) << 8 | stamp as u64, Ordering::Relaxed);
    }

    /// Notes that the loop works at no request.
    #[inline(always)]
    pub(crate) fn rest(&self) {
        self.request.store(0, Ordering::Release);
    }

    /// The request at which the loop works. None if there is none, or if the loop overtakes the
    /// reader [`LOOKS_MAX`] times in a row: the answer would be out of date.
    pub(crate) fn look(&self) -> Option<InFlightRequest> {
        for _ in 0..LOOKS_MAX {
            let request = self.request.load(Ordering::Acquire);
            let received = Ticks(self.received.load(Ordering::Acquire));
            let doing = self.doing.load(Ordering::Acquire);
            if self.request.load(Ordering::Relaxed) == request {
                let stamp = crate::phase::STAMPS.get((doing & 0xff) as usize).copied();
                return (request != 0).then(|| InFlightRequest {
                    request,
                    operation: (doing >> 8) as u8,
                    received,
                    phase: stamp.unwrap_or(Stamp::Received).phase(),
                    is_on_loop: true,
                });
            }
        }
        None
    }
}

/// A request that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InFlightRequest {
    pub(crate) request: u64,
    pub(crate) operation: u8,
    pub(crate) received: Ticks,
    pub(crate) phase: Phase,
    /// True if its event loop works at it now; else it was handed over or is being streamed.
    pub(crate) is_on_loop: bool,
}

/// The requests of one loop that are handed over or streamed; the transport's limit of requests in
/// flight bounds them.
#[derive(Default)]
pub(crate) struct DetachedRequests {
    requests: Mutex<Slab<InFlightRequest>>,
}

impl DetachedRequests {
    pub(crate) fn put(self: &Arc<DetachedRequests>, request: InFlightRequest) -> InFlightGuard {
        let place = self.requests.lock().insert(request);
        InFlightGuard { away: Some(Arc::clone(self)), place }
    }

    pub(crate) fn look(&self) -> Vec<InFlightRequest> {
        self.requests.lock().iter().map(|(_, request)| *request).collect()
    }
}

/// The mark of a request that left its event loop. Dropping it says that the request is back.
#[derive(Default)]
#[must_use = "dropping it says that the request is back"]
pub struct InFlightGuard {
    away: Option<Arc<DetachedRequests>>,
    place: usize,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if let Some(away) = &self.away {
            away.requests.lock().remove(self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_shows_its_current_request() {
        let present = CurrentRequest::take();
        assert_eq!(present.look(), None);
        present.begin(7, Ticks(50));
        present.note(OPERATION_UNKNOWN, Stamp::Parsed);
        assert_eq!(present.look().map(|seen| seen.phase), Some(Phase::Route));
        present.note(3, Stamp::Started);
        let expected = InFlightRequest {
            request: 7,
            operation: 3,
            received: Ticks(50),
            phase: Phase::Execute,
            is_on_loop: true,
        };
        assert_eq!(present.look(), Some(expected));
        present.rest();
        assert_eq!(present.look(), None);
        present.give_back();
    }

    #[test]
    fn a_request_that_is_away_is_shown_until_it_is_back() {
        let away = Arc::new(DetachedRequests::default());
        let request = InFlightRequest {
            request: 9,
            operation: 1,
            received: Ticks(5),
            phase: Phase::Execute,
            is_on_loop: false,
        };
        let flight = away.put(request);
        assert_eq!(away.look(), [request]);
        drop(flight);
        assert_eq!(away.look(), []);
    }
}
