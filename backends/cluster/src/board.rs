//! The state of one peer, over all event loops.

use std::sync::PoisonError;
use std::sync::atomic::{
    AtomicU8, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use pellucid_thread::Mutex;

/// The state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PeerState {
    /// No connection was tried yet, or the first one is being made.
    New = 0,
    /// Connected: asks are sent.
    Ready = 1,
    /// Not to be reached: requests for its keys are refused until it is, or has called itself.
    Down = 2,
}

impl PeerState {
    /// Its name in `GET /v0/cluster`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PeerState::New => "connecting",
            PeerState::Ready => "ready",
            PeerState::Down => "down",
        }
    }

    fn of(number: u8) -> PeerState {
        match number {
            0 => PeerState::New,
            1 => PeerState::Ready,
            _ => PeerState::Down,
        }
    }
}

/// Counters of one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerFigures<N = u64> {
    /// Asks sent to it.
    pub asked: N,
    /// Answers that came in time.
    pub answered: N,
    /// Requests refused at once, as it is not to be reached.
    pub unreachable: N,
    /// Requests whose answer did not come in time.
    pub late: N,
    /// Requests that were under way when the connection broke.
    pub lost: N,
    /// Requests refused because too many were under way.
    pub refused: N,
    /// Asks of the peer that were served here.
    pub served: N,
    /// Connections made to it.
    pub connected: N,
    /// Connections to it that broke.
    pub broken: N,
    /// Bytes sent to it.
    pub sent_bytes: N,
    /// Bytes that came from it.
    pub received_bytes: N,
    /// Time between asks sent and answers read, added up.
    pub round_trip_ns: N,
    /// Asks under way now.
    pub in_flight: N,
}

/// A peer at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// The worst state over the event loops.
    pub state: PeerState,
    /// Why it is down.
    pub reason: Option<String>,
    /// Its counters.
    pub figures: PeerFigures,
}

/// See the module.
pub(crate) struct Board {
    states: Vec<AtomicU8>,
    /// Why it is down, or why it was refused as a caller; logged when it becomes another.
    reason: Mutex<Option<String>>,
    /// Times that it has called and proven itself: whoever calls is there.
    calls: AtomicU64,
    pub(crate) counters: PeerFigures<AtomicU64>,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

impl Board {
    pub(crate) fn new(loops: usize) -> Board {
        let states = (0..loops).map(|_| AtomicU8::new(PeerState::New as u8)).collect();
        let (reason, calls) = (Mutex::new(None), AtomicU64::new(0));
        Board { states, reason, calls, counters: PeerFigures::default() }
    }

    /// Notes that the peer has called and proven itself.
    pub(crate) fn note_call(&self) {
        self.calls.fetch_add(1, Release);
    }

    /// Times that it has.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Acquire)
    }

    /// True if every loop has connected to it, or failed to.
    pub(crate) fn is_tried(&self) -> bool {
        self.states.iter().all(|state| PeerState::of(state.load(Relaxed)) != PeerState::New)
    }

    /// Notes the state of one loop's connection. True if the reason is another than before.
    pub(crate) fn set(&self, index: usize, state: PeerState, reason: Option<&str>) -> bool {
        if let Some(place) = self.states.get(index) {
            place.store(state as u8, Relaxed);
        }
        self.explain(reason)
    }

    /// Notes why there is no connection. True if it is another reason than before.
    pub(crate) fn explain(&self, reason: Option<&str>) -> bool {
        let mut known = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() == reason {
            return false;
        }
        *known = reason.map(str::to_owned);
        true
    }

    pub(crate) fn view(&self) -> PeerView {
        let states = self.states.iter().map(|state| PeerState::of(state.load(Relaxed)));
        let state = states.max().unwrap_or(PeerState::New);
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let c = &self.counters;
        let figures = PeerFigures {
            asked: c.asked.load(Relaxed),
            answered: c.answered.load(Relaxed),
            unreachable: c.unreachable.load(Relaxed),
            late: c.late.load(Relaxed),
            lost: c.lost.load(Relaxed),
            refused: c.refused.load(Relaxed),
            served: c.served.load(Relaxed),
            connected: c.connected.load(Relaxed),
            broken: c.broken.load(Relaxed),
            sent_bytes: c.sent_bytes.load(Relaxed),
            received_bytes: c.received_bytes.load(Relaxed),
            round_trip_ns: c.round_trip_ns.load(Relaxed),
            in_flight: c.in_flight.load(Relaxed),
        };
        let reason = if state == PeerState::Down { reason } else { None };
        PeerView { state, reason, figures }
    }
}
