//! Logs one line for each slow request, so that slow requests can be examined later.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use pellucid_account::{PHASES, Record, TRANSPORT_PARTS};
use pellucid_clock::Clock;

use crate::documents::SlowQuery;
use crate::line_limit::LineLimit;
use crate::names::NAMES;
use crate::observer::Observer;
use crate::reporter::context::TraceContext;

/// The record of a slow request, and its trace if it is traced.
pub(crate) struct SlowRequest {
    pub(crate) record: Record,
    pub(crate) context: Option<TraceContext>,
}

/// Writes lines up to the limit, and counts the requests beyond it.
pub(crate) struct SlowLog {
    lines: LineLimit,
}

impl SlowLog {
    pub(crate) fn new(clock: Clock) -> SlowLog {
        SlowLog { lines: LineLimit::new(clock) }
    }

    /// Writes the lines of the requests of `queue` until it is closed.
    pub(crate) fn run(mut self, queue: &Receiver<SlowRequest>, observer: &Observer) {
        loop {
            let received = queue.recv_timeout(Duration::from_nanos(self.lines.left_ns()));
            if let Ok(SlowRequest { record, context }) = &received {
                self.write(record, *context, observer);
            }
            let is_over = matches!(received, Err(RecvTimeoutError::Disconnected));
            if is_over || self.lines.left_ns() == 0 {
                self.end_interval(observer);
            }
            if is_over {
                return;
            }
        }
    }

    /// Writes the line of a request, or counts it as left out if the limit is reached.
    fn write(&mut self, record: &Record, context: Option<TraceContext>, observer: &Observer) {
        if !self.lines.admit() {
            return;
        }
        let facts = &record.facts;
        let clock = observer.account.clock();
        let operation = NAMES.operations.get(usize::from(facts.operation)).unwrap_or(&"unknown");
        let outcome = NAMES.outcomes.get(usize::from(facts.outcome)).unwrap_or(&"unknown");
        let milliseconds = |ticks: u64| clock.nanoseconds(ticks) as f64 / 1e6;
        let phases = PHASES.into_iter().filter_map(|phase| {
            let duration_ms = milliseconds(record.phase_ticks(phase));
            (duration_ms >= 0.001).then(|| format!("{}={duration_ms:.3}", phase.name()))
        });
        let phases = phases.collect::<Vec<_>>().join(" ");
        let names = observer.account.names().parts_of(facts.operation);
        let transport = TRANSPORT_PARTS.map(|part| (part.name(), record.transport_ticks(part)));
        let parts = names.iter().copied().zip(record.parts_ticks());
        let parts = parts.chain(transport).filter_map(|(name, ticks)| {
            let duration_ms = milliseconds(ticks);
            (duration_ms >= 0.001).then(|| format!("{name}={duration_ms:.3}"))
        });
        let parts = parts.collect::<Vec<_>>().join(" ");
        let key = match facts.key_hash {
            0 => String::new(),
            hash => observer.keys.text(hash).unwrap_or_else(|| format!("#{hash:016x}")),
        };
        let query = observer.slow_queries.of_request(facts.request);
        let reason = query.as_ref().map_or("", SlowQuery::reason);
        let trace = context.map(|context| format!("{:032x}", context.trace)).unwrap_or_default();
        observer.log.with(|| {
            tracing::warn!(
                target: "pellucid::slow",
                operation,
                outcome,
                status = facts.status,
                total_ms = milliseconds(record.total_ticks()),
                phases_ms = phases.as_str(),
                parts_ms = parts.as_str(),
                key = key.as_str(),
                request = format!("{:016x}", facts.request).as_str(),
                connection = facts.connection,
                request_bytes = facts.request_bytes,
                response_bytes = facts.response_bytes,
                trace = trace.as_str(),
                query = reason,
                "slow request"
            );
        });
    }

    /// Begins a new interval, and logs how many requests were left out in the last one.
    fn end_interval(&mut self, observer: &Observer) {
        let (left_out, seconds) = self.lines.end_interval();
        let left_out = left_out + observer.followed.slow_dropped.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            observer.log.write(&format!("{left_out} further slow requests within {seconds} s"));
        }
    }
}
