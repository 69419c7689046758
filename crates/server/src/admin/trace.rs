//! `GET /_admin/trace`: the requests of the last seconds with their phases, and the background jobs
//! at that time, in the trace format of Chrome, which Perfetto opens, too.
//!
//! Each event loop has as many lanes as requests overlapped on it. A viewer nests events that
//! overlap within one lane, but overlapping requests are not parts of each other.

use pellucid_account::{
    Account, Names, Phase, RecentRequests, Record, TransportPart, request_name,
};
use pellucid_clock::{Clock, Ticks};
use pellucid_http::Request;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{AdminApi, made_page};
use crate::answer::HandlerResult;
use crate::query::number_within;
use crate::reply::Reply;

/// The default number of seconds that a trace reaches back.
const SECONDS_DEFAULT: u64 = 1;
/// The highest number of seconds that a trace reaches back.
pub(crate) const SECONDS_MAX: u64 = 60;
/// The default limit of requests in a trace.
const REQUESTS_DEFAULT: u64 = 10_000;
/// The highest limit of requests in a trace. A request takes about 1 KiB.
pub(crate) const REQUESTS_MAX: u64 = 50_000;
/// The process ID in traces.
const PROCESS: u32 = 1;
/// The limit of lanes of one event loop, and so the distance between the thread IDs of two loops.
const LANES_MAX: usize = 10_000;
/// The thread ID of the first job, which is above those of all loops.
const JOBS_THREAD: usize = 1 << 30;

/// `GET /_admin/trace`: the last seconds as a trace.
pub(crate) fn trace_page(api: &AdminApi, request: &Request<'_>) -> HandlerResult {
    let number = |name, most| number_within(request.query, name, 1..=most);
    let seconds = number("seconds", SECONDS_MAX)?.unwrap_or(SECONDS_DEFAULT);
    let requests = number("requests", REQUESTS_MAX)?.unwrap_or(REQUESTS_DEFAULT) as usize;
    let account = api.observer.account.clone();
    made_page(&api.pages, move || Reply::json(200, trace(&account, seconds, requests)))
}

/// An event of a trace, with the members of Chrome's format.
#[derive(Serialize)]
struct Event<'a> {
    ph: &'a str,
    pid: u32,
    tid: usize,
    /// The beginning, in microseconds.
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'a str>,
    args: Map<String, Value>,
}

/// The trace of the last `seconds`, with the newest requests, at most `requests` of them.
fn trace(account: &Account, seconds: u64, requests: usize) -> Vec<u8> {
    let recent = account.recent(seconds, requests);
    let mut writer = Writer {
        out: b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[".to_vec(),
        clock: account.clock(),
        names: account.names(),
        began: recent.began,
        is_first: true,
    };
    writer.metadata("process_name", 0, "pellucid");
    writer.requests(&recent);
    writer.jobs(&recent);
    let Writer { mut out, clock, .. } = writer;
    let other = json!({
        "clock": clock.source().name(),
        "seconds": seconds.to_string(),
        "requests": recent.records.len().to_string(),
    });
    out.extend_from_slice(format!("],\"otherData\":{other}}}").as_bytes());
    out
}

/// Writes events one by one, because a list of all events would take several times the memory of
/// their text.
struct Writer {
    out: Vec<u8>,
    clock: Clock,
    names: Names,
    began: Ticks,
    is_first: bool,
}

impl Writer {
    fn write(&mut self, event: &Event<'_>) {
        self.out.extend_from_slice(if self.is_first { b"\n" } else { b",\n" });
        self.is_first = false;
        // This cannot fail: the event consists of strings and numbers, and goes to memory.
        let _ = serde_json::to_writer(&mut self.out, event);
    }

    fn metadata(&mut self, kind: &str, thread: usize, name: &str) {
        let args = Map::from_iter([("name".to_owned(), name.into())]);
        let (pid, tid) = (PROCESS, thread);
        self.write(&Event { ph: "M", pid, tid, ts: 0.0, dur: None, name: kind, cat: None, args });
    }

    /// Writes an event with a beginning and an end.
    fn complete(
        &mut self,
        (name, category): (&str, &str),
        thread: usize,
        (from, to): (Ticks, Ticks),
        args: Map<String, Value>,
    ) {
        // Both ends are rounded down in the same way, so that adjacent events stay adjacent.
        let from_ns = self.clock.nanoseconds(from.since(self.began));
        let duration_ns = self.clock.nanoseconds(to.since(self.began)).saturating_sub(from_ns);
        let (ts, dur) = (microseconds(from_ns), Some(microseconds(duration_ns)));
        let (pid, tid) = (PROCESS, thread);
        self.write(&Event { ph: "X", pid, tid, ts, dur, name, cat: Some(category), args });
    }

    fn requests(&mut self, recent: &RecentRequests) {
        let mut records: Vec<&Record> = recent.records.iter().collect();
        records.sort_by_key(|record| record.arrived_ticks);
        // For each loop, the times at which its lanes become free.
        let mut loops: Vec<Vec<Ticks>> = Vec::new();
        for record in records {
            let number = (record.facts.request >> 48) as usize;
            if loops.len() <= number {
                loops.resize_with(number + 1, Vec::new);
            }
            let (begins, ends) = (Ticks(record.arrived_ticks), record.span().1);
            let lanes = &mut loops[number];
            let free = lanes.iter().position(|free| *free <= begins);
            let lane = free.unwrap_or(lanes.len().min(LANES_MAX - 1));
            let thread = 1 + number * LANES_MAX + lane;
            if lane == lanes.len() {
                lanes.push(ends);
                self.metadata("thread_name", thread, &format!("loop {number}, lane {lane}"));
            } else {
                lanes[lane] = ends;
            }
            self.request(record, thread, (begins, ends));
        }
    }

    fn request(&mut self, record: &Record, thread: usize, span: (Ticks, Ticks)) {
        let facts = &record.facts;
        let named = |names: &[&'static str], slot: u8| {
            names.get(usize::from(slot)).copied().unwrap_or("unnamed")
        };
        let name = named(self.names.operations, facts.operation);
        let outcome = named(self.names.outcomes, facts.outcome);
        let mut arguments = fields(json!({
            "request": request_name(facts.request),
            "connection": facts.connection,
            "outcome": outcome,
            "status": facts.status,
            "key_hash": format!("{:016x}", facts.key_hash),
        }));
        if record.waited_for() != 0 {
            arguments.insert("waited_for_job".to_owned(), record.waited_for().into());
        }
        self.complete((name, "request"), thread, span, arguments);
        for (phase, from, to) in record.phase_spans() {
            let arguments = match phase {
                Phase::Execute => self.parts(record),
                _ => self.transport_part(record, phase),
            };
            self.complete((phase.name(), "phase"), thread, (from, to), arguments);
        }
    }

    /// The parts of `execute`, which have durations but no positions in time.
    fn parts(&self, record: &Record) -> Map<String, Value> {
        let names = self.names.parts_of(record.facts.operation);
        let parts = names.iter().copied().zip(record.parts_ticks());
        self.lengths(parts)
    }

    /// The transport's part of another phase, as a duration.
    fn transport_part(&self, record: &Record, phase: Phase) -> Map<String, Value> {
        let part = TransportPart::of(phase);
        self.lengths(part.map(|part| (part.name(), record.transport_ticks(part))).into_iter())
    }

    fn lengths<'a>(&self, parts: impl Iterator<Item = (&'a str, u64)>) -> Map<String, Value> {
        let told = parts.filter(|(_, ticks)| *ticks > 0);
        let length = |ticks| microseconds(self.clock.nanoseconds(ticks));
        told.map(|(name, ticks)| (format!("{name}_us"), length(ticks).into())).collect()
    }

    fn jobs(&mut self, recent: &RecentRequests) {
        let mut named: Vec<usize> = Vec::new();
        for job in &recent.jobs {
            let thread = JOBS_THREAD + job.kind.slot();
            let name = recent.activity.name(job.kind);
            if !named.contains(&thread) {
                named.push(thread);
                self.metadata("thread_name", thread, &format!("job {name}"));
            }
            let runs = job.ended.is_none();
            let span = (job.began, job.ended.unwrap_or(recent.now));
            let arguments = fields(json!({ "job": job.id, "runs": runs }));
            self.complete((name, "job"), thread, span, arguments);
        }
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Converts nanoseconds to microseconds, the unit of trace files.
fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}
