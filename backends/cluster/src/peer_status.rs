//! The status of one peer, shared by all event loops: connection state and counters.

use std::sync::PoisonError;
use std::sync::atomic::{
    AtomicU8, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use pellucid_thread::Mutex;

/// The state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PeerState {
    /// The first connection attempt has not started, or has not ended.
    New = 0,
    /// Connected: asks can be sent.
    Ready = 1,
    /// Unreachable: requests for its keys are refused until a connection attempt succeeds, or the
    /// peer itself connects to this node.
    Down = 2,
}

impl PeerState {
    /// The name of the state in `GET /v0/cluster`.
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
    /// Asks accepted for the peer.
    pub asked: N,
    /// Answers received in time.
    pub answered: N,
    /// Requests that failed because the peer was unreachable, so that it cannot have served them.
    pub unreachable: N,
    /// Requests whose answer did not arrive in time.
    pub late: N,
    /// Requests that had been sent, and were unanswered when the connection broke.
    pub lost: N,
    /// Requests refused because too many were in flight.
    pub refused: N,
    /// Asks from the peer that this node served.
    pub served: N,
    /// Connections to the peer that completed the handshake.
    pub connected: N,
    /// Connections to the peer that broke after the handshake.
    pub broken: N,
    /// Bytes sent to the peer.
    pub sent_bytes: N,
    /// Bytes received from the peer.
    pub received_bytes: N,
    /// Sum of the times from sending an ask to reading its answer.
    pub round_trip_total_ns: N,
    /// Asks in flight now.
    pub in_flight: N,
}

/// A snapshot of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// The worst state over the event loops.
    pub state: PeerState,
    /// The reason for [`PeerState::Down`]; none in any other state.
    pub reason: Option<String>,
    /// The counters of the peer.
    pub figures: PeerFigures,
}

/// The status of one peer, shared by all event loops.
pub(crate) struct PeerStatus {
    /// The state of each event loop's connection.
    states: Vec<AtomicU8>,
    /// The reason why the peer is down, or was refused as a caller; logged when it changes.
    reason: Mutex<Option<String>>,
    /// Number of connections by which the peer has proven itself to this node: a peer that connects
    /// is running, so it is worth a new attempt.
    inbound_connections: AtomicU64,
    pub(crate) counters: PeerFigures<AtomicU64>,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

impl PeerStatus {
    pub(crate) fn new(loops: usize) -> PeerStatus {
        let states = (0..loops).map(|_| AtomicU8::new(PeerState::New as u8)).collect();
        let (reason, inbound_connections) = (Mutex::new(None), AtomicU64::new(0));
        PeerStatus { states, reason, inbound_connections, counters: PeerFigures::default() }
    }

    /// Counts a connection by which the peer has proven itself.
    pub(crate) fn note_inbound_connection(&self) {
        self.inbound_connections.fetch_add(1, Release);
    }

    /// Number of connections by which the peer has proven itself.
    pub(crate) fn inbound_connections(&self) -> u64 {
        self.inbound_connections.load(Acquire)
    }

    /// True if every loop has connected to the peer, or failed to.
    pub(crate) fn is_tried(&self) -> bool {
        self.states.iter().all(|state| PeerState::of(state.load(Relaxed)) != PeerState::New)
    }

    /// Sets the state of one loop's connection. Returns true if the reason has changed.
    pub(crate) fn set(&self, index: usize, state: PeerState, reason: Option<&str>) -> bool {
        if let Some(place) = self.states.get(index) {
            place.store(state as u8, Relaxed);
        }
        self.explain(reason)
    }

    /// Sets the reason why there is no connection, or none if there is one. Returns true if the
    /// reason has changed.
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
            round_trip_total_ns: c.round_trip_total_ns.load(Relaxed),
            in_flight: c.in_flight.load(Relaxed),
        };
        let reason = if state == PeerState::Down { reason } else { None };
        PeerView { state, reason, figures }
    }
}
