//! The status of one peer, shared by all event loops: connection state and counters.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use pellucid_thread::Mutex;

/// Limit of the reasons that are remembered as logged, so that each is logged once.
const LOGGED_MAX: usize = 16;

/// The state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerState {
    /// The first connection attempt has not started, or has not ended.
    New,
    /// Connected: asks can be sent.
    Ready,
    /// Unreachable: requests for its keys are refused until a connection attempt succeeds, or the
    /// peer itself connects to this node.
    Down,
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
    /// The reason for [`PeerState::Down`], of the first event loop in this state; none in any other
    /// state.
    pub reason: Option<String>,
    /// The counters of the peer.
    pub figures: PeerFigures,
}

/// The status of one peer, shared by all event loops.
pub(crate) struct PeerStatus {
    known: Mutex<ConnectionStates>,
    /// Number of connections by which the peer has proven itself to this node: a peer that connects
    /// is running, so it is worth a new attempt.
    inbound_connections: AtomicU64,
    pub(crate) counters: PeerFigures<AtomicU64>,
}

/// What the event loops know of a peer.
struct ConnectionStates {
    /// The state of each event loop's connection, and the reason why it is down.
    loops: Vec<(PeerState, Option<String>)>,
    /// The logged reasons why connections are down, until all are there again.
    down_logged: Vec<String>,
    /// The logged reasons why the peer was refused as a caller, until it is accepted.
    refused_logged: Vec<String>,
}

/// Remembers that a reason is logged. Returns false if it was logged before.
fn is_news(logged: &mut Vec<String>, reason: &str) -> bool {
    if logged.iter().any(|known| known == reason) {
        return false;
    }
    if logged.len() == LOGGED_MAX {
        logged.remove(0);
    }
    logged.push(reason.to_owned());
    true
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

impl PeerStatus {
    pub(crate) fn new(loops: usize) -> PeerStatus {
        let loops = vec![(PeerState::New, None); loops];
        let known = ConnectionStates { loops, down_logged: Vec::new(), refused_logged: Vec::new() };
        let (known, inbound_connections) = (Mutex::new(known), AtomicU64::new(0));
        PeerStatus { known, inbound_connections, counters: PeerFigures::default() }
    }

    /// Counts a connection by which the peer has proven itself.
    pub(crate) fn note_inbound_connection(&self) {
        self.known.lock().refused_logged.clear();
        self.inbound_connections.fetch_add(1, Release);
    }

    /// Number of connections by which the peer has proven itself.
    pub(crate) fn inbound_connections(&self) -> u64 {
        self.inbound_connections.load(Acquire)
    }

    /// True if every loop has connected to the peer, or failed to.
    pub(crate) fn is_tried(&self) -> bool {
        self.known.lock().loops.iter().all(|(state, _)| *state != PeerState::New)
    }

    /// Notes that one loop has no connection. Returns true if the reason has to be logged.
    pub(crate) fn note_down(&self, index: usize, reason: &str) -> bool {
        let known = &mut *self.known.lock();
        if let Some(of_loop) = known.loops.get_mut(index) {
            *of_loop = (PeerState::Down, Some(reason.to_owned()));
        }
        is_news(&mut known.down_logged, reason)
    }

    /// Notes that one loop has a connection. Returns true if that has to be logged: it was the last
    /// one without.
    pub(crate) fn note_ready(&self, index: usize) -> bool {
        let known = &mut *self.known.lock();
        if let Some(of_loop) = known.loops.get_mut(index) {
            *of_loop = (PeerState::Ready, None);
        }
        let is_down = known.loops.iter().any(|(state, _)| *state == PeerState::Down);
        !is_down && !std::mem::take(&mut known.down_logged).is_empty()
    }

    /// Notes that the peer was refused as a caller. Returns true if the reason has to be logged.
    pub(crate) fn note_refused(&self, reason: &str) -> bool {
        is_news(&mut self.known.lock().refused_logged, reason)
    }

    pub(crate) fn view(&self) -> PeerView {
        let known = self.known.lock();
        let state = known.loops.iter().map(|(state, _)| *state).max().unwrap_or(PeerState::New);
        let reason = known.loops.iter().find_map(|(_, reason)| reason.clone());
        drop(known);
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
        PeerView { state, reason, figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: all loops had one reason. A loop that connected erased the reason of another,
    /// and loops with different reasons were logged in turn, again and again.
    #[test]
    fn each_loop_keeps_its_reason_and_each_reason_is_logged_once() {
        let status = PeerStatus::new(2);
        let view = || (status.view().state, status.view().reason);
        assert!(!status.note_ready(0) && !status.is_tried());
        assert_eq!(view(), (PeerState::Ready, None));
        assert!(status.note_down(1, "no route") && status.note_down(0, "refused"));
        assert!(!status.note_down(1, "no route") && !status.note_down(0, "refused"));
        assert!(!status.note_ready(0), "the other is down");
        assert_eq!(view(), (PeerState::Down, Some("no route".to_owned())));
        assert!(status.note_refused("another list") && !status.note_refused("another list"));
        assert_eq!(view().1, Some("no route".to_owned()), "a refusal is another matter");
        assert!(status.note_ready(1) && !status.note_ready(0));
        assert_eq!(view(), (PeerState::Ready, None));
        assert!(status.note_down(0, "refused") && !status.note_refused("another list"));
        status.note_inbound_connection();
        assert!(status.note_refused("another list"));
    }

    #[test]
    fn the_number_of_remembered_reasons_is_limited() {
        let status = PeerStatus::new(1);
        (0..=LOGGED_MAX).for_each(|number| assert!(status.note_refused(&number.to_string())));
        assert!(!status.note_refused("1") && status.note_refused("0"));
        assert_eq!(status.known.lock().refused_logged.len(), LOGGED_MAX);
    }
}
