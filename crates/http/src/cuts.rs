//! Counts, by reason, the connections that the server refused or ended, and the streams that it
//! ended.

use std::sync::atomic::{AtomicU64, Ordering};

/// The reason for which the server refused or ended a connection, or ended a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cut {
    /// The limit of open connections was reached.
    Full,
    /// The limit of open connections from its address was reached.
    Address,
    /// The limit of waiting TLS handshakes was reached.
    Handshakes,
    /// The system had no descriptor or memory for it.
    System,
    /// The server stops.
    Stopping,
    /// The connection was idle for too long.
    Idle,
    /// The TLS handshake took too long.
    HandshakeSlow,
    /// A request did not arrive within its time limit; it was answered with 408.
    RequestSlow,
    /// The client took nothing of a response for too long.
    ResponseStalled,
    /// The client took its responses too slowly.
    ResponseSlow,
    /// There was no memory for responses that the client does not take.
    Memory,
}

/// The number of reasons.
const CUTS: usize = 11;

impl Cut {
    /// The reasons to refuse a new connection.
    pub const OF_NEW_CONNECTIONS: [Cut; 5] =
        [Cut::Full, Cut::Address, Cut::Handshakes, Cut::System, Cut::Stopping];
    /// The reasons to end a connection.
    pub const OF_CONNECTIONS: [Cut; 7] = [
        Cut::Stopping,
        Cut::Idle,
        Cut::HandshakeSlow,
        Cut::RequestSlow,
        Cut::ResponseStalled,
        Cut::ResponseSlow,
        Cut::Memory,
    ];
    /// The reasons to end a stream of HTTP/2, and not its connection.
    pub const OF_STREAMS: [Cut; 4] =
        [Cut::RequestSlow, Cut::ResponseStalled, Cut::ResponseSlow, Cut::Memory];

    /// The name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cut::Full => "full",
            Cut::Address => "address",
            Cut::Handshakes => "handshakes",
            Cut::System => "system",
            Cut::Stopping => "stopping",
            Cut::Idle => "idle",
            Cut::HandshakeSlow => "handshake_slow",
            Cut::RequestSlow => "request_slow",
            Cut::ResponseStalled => "response_stalled",
            Cut::ResponseSlow => "response_slow",
            Cut::Memory => "memory",
        }
    }
}

/// The counts of all reasons since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutFigures {
    refused: [u64; CUTS],
    connections: [u64; CUTS],
    streams: [u64; CUTS],
}

impl CutFigures {
    /// New connections that were refused for this reason.
    #[must_use]
    pub fn refused(&self, cut: Cut) -> u64 {
        self.refused[cut as usize]
    }

    /// Connections that were ended for this reason.
    #[must_use]
    pub fn connections(&self, cut: Cut) -> u64 {
        self.connections[cut as usize]
    }

    /// Streams that were ended for this reason.
    #[must_use]
    pub fn streams(&self, cut: Cut) -> u64 {
        self.streams[cut as usize]
    }
}

/// The counters, which all event loops share: they count rare events, so that sharing costs
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct CutMeter {
    refused: [AtomicU64; CUTS],
    connections: [AtomicU64; CUTS],
    streams: [AtomicU64; CUTS],
}

impl CutMeter {
    pub(crate) fn refused(&self, cut: Cut) {
        self.refused[cut as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection(&self, cut: Cut) {
        self.connections[cut as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stream(&self, cut: Cut) {
        self.streams[cut as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> CutFigures {
        let now = |counters: &[AtomicU64; CUTS]| {
            std::array::from_fn(|cut| counters[cut].load(Ordering::Relaxed))
        };
        CutFigures {
            refused: now(&self.refused),
            connections: now(&self.connections),
            streams: now(&self.streams),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_apart() {
        let meter = CutMeter::default();
        meter.refused(Cut::Full);
        meter.connection(Cut::Idle);
        meter.connection(Cut::Idle);
        meter.stream(Cut::ResponseSlow);
        let figures = meter.figures();
        let of = |count: fn(&CutFigures, Cut) -> u64, cuts: &[Cut]| -> Vec<(&'static str, u64)> {
            let counts = cuts.iter().map(|cut| (cut.name(), count(&figures, *cut)));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(of(CutFigures::refused, &Cut::OF_NEW_CONNECTIONS), [("full", 1)]);
        assert_eq!(of(CutFigures::connections, &Cut::OF_CONNECTIONS), [("idle", 2)]);
        assert_eq!(of(CutFigures::streams, &Cut::OF_STREAMS), [("response_slow", 1)]);
    }
}
