//! State that the event loops share: limits, certificates, and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pellucid_budget::Budget;
use pellucid_clock::Clock;

use crate::compression::{CompressionFigures, CompressionMeter};
use crate::disconnects::{DisconnectFigures, DisconnectMeter};
use crate::limits::Limits;
use crate::tls::{Certificates, TlsFigures, TlsMeter};

/// State that the event loops share. Its counters change once per connection or per hand-over, and
/// never for a request that is answered at once.
pub(crate) struct SharedState {
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    /// The certificates for new connections; none without TLS.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// The TLS counters of each loop.
    pub(crate) tls: Vec<TlsMeter>,
    pub(crate) compression: Arc<CompressionMeter>,
    pub(crate) cuts: DisconnectMeter,
    /// The number of open connections of each loop.
    pub(crate) loads: Vec<AtomicUsize>,
    pub(crate) connections_ever: AtomicU64,
    pub(crate) requests_in_flight: AtomicUsize,
    /// The budget of all incoming bodies together.
    pub(crate) bodies: Budget,
}

/// Figures of the transport, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStats {
    /// Connections open now.
    pub connections_open: usize,
    /// Connections accepted since the start.
    pub connections_ever: u64,
    /// Requests that wait for the store or are streamed.
    pub requests_in_flight: usize,
    /// Bytes held for bodies that are coming in.
    pub body_bytes: usize,
    /// Connections and streams that were refused or cut, by reason.
    pub cuts: DisconnectFigures,
    /// The cost of TLS.
    pub tls: TlsFigures,
    /// The cost of compression.
    pub compression: CompressionFigures,
}

impl SharedState {
    pub(crate) fn new(
        clock: Clock,
        limits: Limits,
        certificates: Option<Arc<Certificates>>,
        loops: usize,
    ) -> SharedState {
        SharedState {
            clock,
            certificates,
            tls: (0..loops).map(|_| TlsMeter::default()).collect(),
            compression: Arc::new(CompressionMeter::new(clock, loops)),
            cuts: DisconnectMeter::default(),
            loads: (0..loops).map(|_| AtomicUsize::new(0)).collect(),
            connections_ever: AtomicU64::new(0),
            requests_in_flight: AtomicUsize::new(0),
            bodies: Budget::new(limits.body_bytes_in_flight),
            limits,
        }
    }

    pub(crate) fn connections_open(&self) -> usize {
        self.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn least_busy_loop(&self) -> usize {
        let loads = self.loads.iter().map(|load| load.load(Ordering::Relaxed));
        loads.enumerate().min_by_key(|(_, load)| *load).map_or(0, |(index, _)| index)
    }

    pub(crate) fn stats(&self) -> ServerStats {
        let mut tls = TlsFigures::default();
        self.tls.iter().for_each(|meter| meter.add_to(&mut tls));
        ServerStats {
            tls,
            compression: self.compression.figures(),
            cuts: self.cuts.figures(),
            connections_open: self.connections_open(),
            connections_ever: self.connections_ever.load(Ordering::Relaxed),
            requests_in_flight: self.requests_in_flight.load(Ordering::Relaxed),
            body_bytes: self.bodies.used_bytes(),
        }
    }
}
