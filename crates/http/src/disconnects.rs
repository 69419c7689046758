//! Counts, by reason, the connections that the server refused or ended, and the streams that it
//! ended.

use std::sync::atomic::{AtomicU64, Ordering};

/// The reason for which the server refused or ended a connection, or ended a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum DisconnectReason {
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

impl DisconnectReason {
    /// The reasons to refuse a new connection.
    pub const OF_NEW_CONNECTIONS: [DisconnectReason; 5] = [
        DisconnectReason::Full,
        DisconnectReason::Address,
        DisconnectReason::Handshakes,
        DisconnectReason::System,
        DisconnectReason::Stopping,
    ];
    /// The reasons to end a connection.
    pub const OF_CONNECTIONS: [DisconnectReason; 7] = [
        DisconnectReason::Stopping,
        DisconnectReason::Idle,
        DisconnectReason::HandshakeSlow,
        DisconnectReason::RequestSlow,
        DisconnectReason::ResponseStalled,
        DisconnectReason::ResponseSlow,
        DisconnectReason::Memory,
    ];
    /// The reasons to end a stream of HTTP/2, and not its connection.
    pub const OF_STREAMS: [DisconnectReason; 4] = [
        DisconnectReason::RequestSlow,
        DisconnectReason::ResponseStalled,
        DisconnectReason::ResponseSlow,
        DisconnectReason::Memory,
    ];

    /// The name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DisconnectReason::Full => "full",
            DisconnectReason::Address => "address",
            DisconnectReason::Handshakes => "handshakes",
            DisconnectReason::System => "system",
            DisconnectReason::Stopping => "stopping",
            DisconnectReason::Idle => "idle",
            DisconnectReason::HandshakeSlow => "handshake_slow",
            DisconnectReason::RequestSlow => "request_slow",
            DisconnectReason::ResponseStalled => "response_stalled",
            DisconnectReason::ResponseSlow => "response_slow",
            DisconnectReason::Memory => "memory",
        }
    }
}

/// The counts of all reasons since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisconnectFigures {
    refused: [u64; CUTS],
    connections: [u64; CUTS],
    streams: [u64; CUTS],
}

impl DisconnectFigures {
    /// New connections that were refused for this reason.
    #[must_use]
    pub fn refused(&self, cut: DisconnectReason) -> u64 {
        self.refused[cut as usize]
    }

    /// Connections that were ended for this reason.
    #[must_use]
    pub fn connections(&self, cut: DisconnectReason) -> u64 {
        self.connections[cut as usize]
    }

    /// Streams that were ended for this reason.
    #[must_use]
    pub fn streams(&self, cut: DisconnectReason) -> u64 {
        self.streams[cut as usize]
    }
}

/// The counters, which all event loops share: they count rare events, so that sharing costs
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct DisconnectMeter {
    refused: [AtomicU64; CUTS],
    connections: [AtomicU64; CUTS],
    streams: [AtomicU64; CUTS],
}

impl DisconnectMeter {
    pub(crate) fn refused(&self, cut: DisconnectReason) {
        self.refused[cut as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection(&self, cut: DisconnectReason) {
        self.connections[cut as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stream(&self, cut: DisconnectReason) {
        self.streams[cut as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> DisconnectFigures {
        let now = |counters: &[AtomicU64; CUTS]| {
            std::array::from_fn(|cut| counters[cut].load(Ordering::Relaxed))
        };
        DisconnectFigures {
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
        let meter = DisconnectMeter::default();
        meter.refused(DisconnectReason::Full);
        meter.connection(DisconnectReason::Idle);
        meter.connection(DisconnectReason::Idle);
        meter.stream(DisconnectReason::ResponseSlow);
        let figures = meter.figures();
        let of = |count: fn(&DisconnectFigures, DisconnectReason) -> u64,
                  cuts: &[DisconnectReason]|
         -> Vec<(&'static str, u64)> {
            let counts = cuts.iter().map(|cut| (cut.name(), count(&figures, *cut)));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(
            of(DisconnectFigures::refused, &DisconnectReason::OF_NEW_CONNECTIONS),
            [("full", 1)]
        );
        assert_eq!(
            of(DisconnectFigures::connections, &DisconnectReason::OF_CONNECTIONS),
            [("idle", 2)]
        );
        assert_eq!(
            of(DisconnectFigures::streams, &DisconnectReason::OF_STREAMS),
            [("response_slow", 1)]
        );
    }
}
