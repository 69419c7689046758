//! Traces of the ring for a sampled share of requests, read after their answers.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_account::{LateParts, Timeline};
use pellucid_clock::Clock;
use pellucid_thread::Mutex;
use scylla::observability::tracing::TracingInfo;

use crate::parts::{COORDINATOR, NETWORK, REPLICAS, RING};

/// Limit of the requests whose late parts have not been taken yet; beyond it, the oldest are
/// dropped.
const LATE_MAX: usize = 4_096;

/// The sums over all traced requests, and the late parts of single ones.
#[derive(Default)]
pub(crate) struct Traces {
    asked: AtomicU64,
    seen: Mutex<TraceResults>,
}

/// The results of the traces that were read.
#[derive(Default)]
struct TraceResults {
    /// Number of round trips with a trace.
    traced: u64,
    /// Number of round trips whose trace could not be read.
    lost: u64,
    sum: RingTimes,
    late: VecDeque<LateParts>,
}

/// The times of a request in the ring, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RingTimes {
    network_us: u64,
    coordinator_us: u64,
    replicas_us: u64,
}

/// The traces of a request.
#[derive(Default)]
pub(crate) enum Sample {
    /// The request is not traced.
    #[default]
    None,
    /// All round trips are traced, only for the sums.
    Sums,
    /// All round trips are traced, for the sums and the record of the request with this number;
    /// only for the sums if it is zero.
    Request { request: u64, round_trips: Vec<RoundTrip> },
}

/// One traced request to the ring, and its answer.
pub(crate) struct RoundTrip {
    /// Reads the trace from the ring.
    trace: Pin<Box<dyn Future<Output = Option<TracingInfo>> + Send>>,
    /// The duration of the round trip, measured here.
    took_us: u64,
}

impl RoundTrip {
    /// A round trip of this duration, and the future that reads its trace.
    pub(crate) fn new(
        trace: impl Future<Output = Option<TracingInfo>> + Send + 'static,
        took_us: u64,
    ) -> RoundTrip {
        RoundTrip { trace: Box::pin(trace), took_us }
    }
}

impl Sample {
    /// The sample of a request, whose record waits for the traces of its round trips.
    pub(crate) fn of(timeline: &mut Timeline) -> Sample {
        let request = if timeline.is_on() { timeline.request() } else { 0 };
        if request != 0 {
            timeline.tell_later();
        }
        Sample::Request { request, round_trips: Vec::new() }
    }

    pub(crate) fn alone(round_trip: RoundTrip) -> Sample {
        Sample::Request { request: 0, round_trips: vec![round_trip] }
    }

    pub(crate) fn is_traced(&self) -> bool {
        !matches!(self, Sample::None)
    }
}

impl Traces {
    /// True if the next request has to be traced. The traced ones are spread evenly over all.
    pub(crate) fn is_due(&self, share: f64) -> bool {
        if share <= 0.0 {
            return false;
        }
        let number = self.asked.fetch_add(1, Ordering::Relaxed) as f64;
        ((number + 1.0) * share).floor() > (number * share).floor()
    }

    pub(crate) fn figures(&self) -> [(&'static str, u64); 5] {
        let TraceResults { traced, lost, sum, .. } = &*self.seen.lock();
        [
            ("cql_traced_total", *traced),
            ("cql_traces_lost_total", *lost),
            ("cql_traced_network_us_total", sum.network_us),
            ("cql_traced_coordinator_us_total", sum.coordinator_us),
            ("cql_traced_replicas_us_total", sum.replicas_us),
        ]
    }

    /// Takes the late parts of single requests that have arrived since the last call.
    pub(crate) fn late_parts(&self) -> Vec<LateParts> {
        self.seen.lock().late.drain(..).collect()
    }

    /// Reads the traces of a request's round trips: for the sums and, if `request` is not zero, for
    /// its record.
    pub(crate) async fn look(&self, request: u64, round_trips: Vec<RoundTrip>, clock: Clock) {
        let (mut all, mut traced, mut lost) = (RingTimes::default(), 0, 0);
        for RoundTrip { trace, took_us } in round_trips {
            match trace.await.and_then(|info| split(&info, took_us)) {
                Some(split) => (all, traced) = (all.and(split), traced + 1),
                None => lost += 1,
            }
        }
        let mut seen = self.seen.lock();
        seen.sum = seen.sum.and(all);
        (seen.traced, seen.lost) = (seen.traced + traced, seen.lost + lost);
        if request != 0 {
            let ticks = |us: u64| clock.ticks(us * 1_000);
            let parts = vec![
                (NETWORK, ticks(all.network_us)),
                (COORDINATOR, ticks(all.coordinator_us)),
                (REPLICAS, ticks(all.replicas_us)),
            ];
            if seen.late.len() == LATE_MAX {
                seen.late.pop_front();
            }
            seen.late.push_back(LateParts { request, of: RING, parts });
        }
    }
}

impl RingTimes {
    /// The split of a round trip of `took_us`, of which `duration_us` were at the coordinator, and
    /// `replicas_us` of these at other nodes. Larger inner times are cut to the outer ones.
    fn of(took_us: u64, duration_us: u64, replicas_us: u64) -> RingTimes {
        let duration_us = duration_us.min(took_us);
        let replicas_us = replicas_us.min(duration_us);
        let network_us = took_us - duration_us;
        RingTimes { network_us, coordinator_us: duration_us - replicas_us, replicas_us }
    }

    fn and(self, other: RingTimes) -> RingTimes {
        RingTimes {
            network_us: self.network_us + other.network_us,
            coordinator_us: self.coordinator_us + other.coordinator_us,
            replicas_us: self.replicas_us + other.replicas_us,
        }
    }
}

/// Splits a round trip by its trace. The time outside the coordinator is network. The time at the
/// coordinator, minus the longest time that another node worked, is the coordinator's own.
fn split(info: &TracingInfo, took_us: u64) -> Option<RingTimes> {
    let (coordinator, duration_us) = (info.coordinator?, info.duration?);
    let elsewhere = info.events.iter().filter(|event| event.source != Some(coordinator));
    let replicas_us = elsewhere.filter_map(|event| event.source_elapsed).max().unwrap_or(0).max(0);
    Some(RingTimes::of(took_us, duration_us.max(0) as u64, replicas_us as u64))
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

    /// The times of a trace come from the clocks of other machines, so they may not fit.
    #[test]
    fn the_parts_of_a_split_add_up_to_the_round_trip() {
        for (took, duration, replicas) in [(100, 80, 30), (100, 120, 30), (100, 80, 90), (0, 5, 7)]
        {
            let split = RingTimes::of(took, duration, replicas);
            assert_eq!(split.network_us + split.coordinator_us + split.replicas_us, took);
        }
        assert_eq!(
            RingTimes::of(100, 80, 30),
            RingTimes { network_us: 20, coordinator_us: 50, replicas_us: 30 }
        );
    }
}
