//! Converts requests to spans, in the JSON form of OTLP (OpenTelemetry protocol 1.x).
//!
//! A request is a span of kind server, and each of its phases is a child span. The parts of a phase
//! have durations but no positions in time, so they are attributes of the span of their phase.
//! `decrypt` is an attribute of the request's span, because its phase `receive` lies before that
//! span and has none.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pellucid_account::{Names, Phase, Record, TransportPart};
use pellucid_clock::{Clock, Ticks};
use serde_json::{Value, json};

use crate::names::Outcome;
use crate::reporter::context::TraceContext;
use crate::reporter::trace_registry::Trace;

/// The kind of spans of phases, as a number of the protocol.
const INTERNAL: u8 = 1;
/// The kind of spans of requests.
const SERVER: u8 = 2;
/// The status of a span whose request failed in the server, or was cut by it.
const ERROR: u8 = 2;

/// Converts readings of the clock to wall time.
pub(crate) struct ClockAnchor {
    clock: Clock,
    ticks: Ticks,
    unix_ns: u64,
}

impl ClockAnchor {
    pub(crate) fn now(clock: Clock) -> ClockAnchor {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let unix_ns = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        ClockAnchor { clock, ticks: clock.now(), unix_ns }
    }

    /// The nanoseconds since 1970 as a string, which is the protocol's form.
    fn unix_ns(&self, at: Ticks) -> String {
        let unix_ns = if at.0 <= self.ticks.0 {
            self.unix_ns.saturating_sub(self.clock.nanoseconds(self.ticks.0 - at.0))
        } else {
            self.unix_ns.saturating_add(self.clock.nanoseconds(at.0 - self.ticks.0))
        };
        unix_ns.to_string()
    }
}

/// The spans of a request: one for the request, and one for each phase that took time.
pub(crate) fn spans(
    record: &Record,
    trace: &Trace,
    names: Names,
    anchor: &ClockAnchor,
) -> Vec<Value> {
    let context = trace.context;
    let name = |names: &[&'static str], slot: u8| {
        names.get(usize::from(slot)).copied().unwrap_or("unknown")
    };
    let facts = &record.facts;
    let (from, to) = record.span();
    let mut attributes = vec![
        text("pellucid.operation", name(names.operations, facts.operation)),
        text("pellucid.outcome", name(names.outcomes, facts.outcome)),
        number("http.response.status_code", u64::from(facts.status)),
        number("http.request.size", u64::from(facts.request_bytes)),
        number("http.response.size", u64::from(facts.response_bytes)),
        number("pellucid.connection", u64::from(facts.connection)),
        text("pellucid.request", &format!("{:016x}", facts.request)),
    ];
    attributes.extend(trace.method.map(|method| text("http.request.method", method)));
    if facts.key_hash != 0 {
        attributes.push(text("pellucid.key_hash", &format!("{:016x}", facts.key_hash)));
    }
    attributes.extend(transport_part(record, Phase::Receive, anchor));
    let mut own = json!({
        "traceId": format!("{:032x}", context.trace),
        "spanId": format!("{:016x}", context.span),
        "name": name(names.operations, facts.operation),
        "kind": SERVER,
        "startTimeUnixNano": anchor.unix_ns(from),
        "endTimeUnixNano": anchor.unix_ns(to),
        "attributes": attributes,
    });
    if context.parent != 0 {
        own["parentSpanId"] = format!("{:016x}", context.parent).into();
    }
    let is_ours = [Outcome::Failed, Outcome::Cut, Outcome::TimedOut];
    if facts.status >= 500 || is_ours.iter().any(|outcome| *outcome as u8 == facts.outcome) {
        own["status"] = json!({ "code": ERROR });
    }
    let mut spans = vec![own];
    // `receive` ends where the request's span begins.
    let phases = record.phase_spans().into_iter().filter(|(phase, ..)| *phase != Phase::Receive);
    spans.extend(
        (1..)
            .zip(phases)
            .map(|(number, phase)| phase_span(record, context, names, anchor, number, phase)),
    );
    if let Some(state) = &trace.state {
        spans.iter_mut().for_each(|span| span["traceState"] = Value::from(&**state));
    }
    spans
}

/// The span of the request's phase of this number.
fn phase_span(
    record: &Record,
    context: TraceContext,
    names: Names,
    anchor: &ClockAnchor,
    number: u64,
    (phase, from, to): (Phase, Ticks, Ticks),
) -> Value {
    let mut attributes = Vec::new();
    if phase == Phase::Execute {
        let names = names.parts_of(record.facts.operation).iter();
        let parts = names.zip(record.parts_ticks());
        attributes.extend(parts.filter_map(|(name, ticks)| part(name, ticks, anchor)));
    }
    attributes.extend(transport_part(record, phase, anchor));
    json!({
        "traceId": format!("{:032x}", context.trace),
        // Derived from the request's span ID, so that no two phases share an ID.
        "spanId": format!("{:016x}", (context.span ^ number << 56).max(1)),
        "parentSpanId": format!("{:016x}", context.span),
        "name": phase.name(),
        "kind": INTERNAL,
        "startTimeUnixNano": anchor.unix_ns(from),
        "endTimeUnixNano": anchor.unix_ns(to),
        "attributes": attributes,
    })
}

/// The transport's part of a phase, if it measured one.
fn transport_part(record: &Record, phase: Phase, anchor: &ClockAnchor) -> Option<Value> {
    let of = TransportPart::of(phase)?;
    part(of.name(), record.transport_ticks(of), anchor)
}

/// The attribute of a part, if it occurred.
fn part(name: &str, ticks: u64, anchor: &ClockAnchor) -> Option<Value> {
    let duration_ns = anchor.clock.nanoseconds(ticks);
    (ticks > 0).then(|| number(&format!("pellucid.part.{name}_ns"), duration_ns))
}

/// The document that is posted to a collector.
pub(crate) fn document(spans: Vec<Value>, version: &str) -> Value {
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            text("service.name", "pellucid"),
            text("service.version", version),
        ]},
        "scopeSpans": [{
            "scope": { "name": "pellucid.account", "version": version },
            "spans": spans,
        }],
    }]})
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// An attribute with a whole number, which is a string in the protocol's JSON.
fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}
