//! Counts, by reason, the connections that the server refused or ended, and the streams that it
//! ended.

use std::ops::Index;
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
    pub const OF_STREAMS: [DisconnectReason; 3] = [
        DisconnectReason::RequestSlow,
        DisconnectReason::ResponseStalled,
        DisconnectReason::ResponseSlow,
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

/// Counts by reason since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisconnectCounts([u64; CUTS]);

impl Index<DisconnectReason> for DisconnectCounts {
    type Output = u64;

    fn index(&self, cut: DisconnectReason) -> &u64 {
        &self.0[cut as usize]
    }
}

/// The counts of all reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisconnectFigures {
    /// New connections that were refused.
    pub refused: DisconnectCounts,
    /// Connections that were ended.
    pub connections: DisconnectCounts,
    /// Streams that were ended.
    pub streams: DisconnectCounts,
}

/// Counters by reason. All event loops share them: they count rare events, so that sharing costs
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct DisconnectCounters([AtomicU64; CUTS]);

impl DisconnectCounters {
    pub(crate) fn add(&self, cut: DisconnectReason) {
        self.0[cut as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> DisconnectCounts {
        DisconnectCounts(self.0.each_ref().map(|counter| counter.load(Ordering::Relaxed)))
    }
}

/// The counters of all reasons.
#[derive(Debug, Default)]
pub(crate) struct DisconnectMeter {
    pub(crate) refused: DisconnectCounters,
    pub(crate) connections: DisconnectCounters,
    pub(crate) streams: DisconnectCounters,
}

impl DisconnectMeter {
    pub(crate) fn figures(&self) -> DisconnectFigures {
        DisconnectFigures {
            refused: self.refused.now(),
            connections: self.connections.now(),
            streams: self.streams.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_apart() {
        let meter = DisconnectMeter::default();
        meter.refused.add(DisconnectReason::Full);
        meter.connections.add(DisconnectReason::Idle);
        meter.connections.add(DisconnectReason::Idle);
        meter.streams.add(DisconnectReason::ResponseSlow);
        let figures = meter.figures();
        let of = |counts: &DisconnectCounts, cuts: &[DisconnectReason]| -> Vec<_> {
            let counts = cuts.iter().map(|cut| (cut.name(), counts[*cut]));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(of(&figures.refused, &DisconnectReason::OF_NEW_CONNECTIONS), [("full", 1)]);
        assert_eq!(of(&figures.connections, &DisconnectReason::OF_CONNECTIONS), [("idle", 2)]);
        assert_eq!(of(&figures.streams, &DisconnectReason::OF_STREAMS), [("response_slow", 1)]);
    }
}
