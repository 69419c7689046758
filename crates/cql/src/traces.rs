//! What the ring tells of requests that are traced: a sampled share, looked at after their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scylla::observability::tracing::TracingInfo;
use scylla::response::query_result::QueryResult;

use crate::ring::Ring;

/// Sums over traced requests.
#[derive(Default)]
pub(crate) struct Traces {
    asked: AtomicU64,
    traced: AtomicU64,
    lost: AtomicU64,
    network_us: AtomicU64,
    coordinator_us: AtomicU64,
    replicas_us: AtomicU64,
}

/// Where the time of one request went, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    network_us: u64,
    coordinator_us: u64,
    replicas_us: u64,
}

impl Traces {
    /// Whether the next request is to be traced: as many as the share says, evenly.
    pub(crate) fn is_due(&self, share: f64) -> bool {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) as f64;
        share > 0.0 && ((number + 1.0) * share).floor() > (number * share).floor()
    }

    pub(crate) fn figures(&self) -> [(&'static str, u64); 5] {
        let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        [
            ("cql_traced_total", of(&self.traced)),
            ("cql_traces_lost_total", of(&self.lost)),
            ("cql_traced_network_us_total", of(&self.network_us)),
            ("cql_traced_coordinator_us_total", of(&self.coordinator_us)),
            ("cql_traced_replicas_us_total", of(&self.replicas_us)),
        ]
    }

    fn add(&self, split: Split) {
        self.traced.fetch_add(1, Ordering::Relaxed);
        self.network_us.fetch_add(split.network_us, Ordering::Relaxed);
        self.coordinator_us.fetch_add(split.coordinator_us, Ordering::Relaxed);
        self.replicas_us.fetch_add(split.replicas_us, Ordering::Relaxed);
    }
}

/// Looks at the trace of an answer that took so long from here, if it has one, beside what else
/// goes on.
pub(crate) fn look(ring: &Arc<Ring>, answer: &QueryResult, round_trip_us: u64) {
    let Some(trace) = answer.tracing_id() else { return };
    ring.spawn({
        let ring = Arc::clone(ring);
        async move {
            let found = ring.session.get_tracing_info(&trace).await.ok();
            match found.and_then(|info| split(&info, round_trip_us)) {
                Some(split) => ring.traces.add(split),
                None => {
                    ring.traces.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
}

/// What the coordinator did not spend was the network's; what it did, less the longest that another
/// node was busy, its own.
fn split(info: &TracingInfo, round_trip_us: u64) -> Option<Split> {
    let (coordinator, duration_us) = (info.coordinator?, info.duration?);
    let elsewhere = info.events.iter().filter(|event| event.source != Some(coordinator));
    let replicas = elsewhere.filter_map(|event| event.source_elapsed).max().unwrap_or(0).max(0);
    let (duration_us, replicas) = (duration_us.max(0) as u64, replicas as u64);
    let replicas_us = replicas.min(duration_us);
    Some(Split {
        network_us: round_trip_us.saturating_sub(duration_us),
        coordinator_us: duration_us - replicas_us,
        replicas_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_traced_evenly() {
        let traces = Traces::default();
        let due: Vec<bool> = (0..1_000).map(|_| traces.is_due(0.01)).collect();
        assert_eq!(due.iter().filter(|due| **due).count(), 10);
        assert!(due[..100].contains(&true) && due[900..].contains(&true));
        assert!(!Traces::default().is_due(0.0) && Traces::default().is_due(1.0));
    }
}
