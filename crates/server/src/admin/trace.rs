//! `GET /_admin/trace`: the requests of the last seconds with their phases, and the background jobs
//! beside them, in the form that Perfetto and Chrome's tracing open.
//!
//! Each event loop has as many lanes as requests overlapped on it: a viewer nests what overlaps
//! within a lane, and requests of one wake-up are not parts of each other.

use std::fmt::Write;

use pellucid_account::{
    Account, Names, PHASES, Phase, Recent, Record, STAMPS, Stamp, TransportPart, request_name,
};
use pellucid_clock::{Clock, Ticks};
use pellucid_http::Request;

use super::AdminApi;
use crate::answer::Handling;
use crate::query::number_parameter;
use crate::reply::Reply;

/// Seconds that a trace reaches back unless it is said, and at most.
const SECONDS_DEFAULT: u64 = 1;
const SECONDS_MAX: u64 = 60;
/// Requests in a trace unless it is said, and at most: a request takes about 1 KiB of it.
const REQUESTS_DEFAULT: u64 = 10_000;
const REQUESTS_MAX: u64 = 50_000;
/// The number of the process in traces.
const PROCESS: u32 = 1;
/// Thread numbers: those of loops count in this step, and those of jobs come after all of them.
const LANES_MAX: usize = 10_000;
const JOBS_THREAD: usize = 1 << 30;

/// The last seconds as a trace.
pub(crate) fn trace_page(api: &AdminApi, request: &Request<'_>) -> Handling {
    let within = |name: &str, default: u64, max: u64| {
        let number = number_parameter(request.query, name)?.unwrap_or(default);
        let is_within = (1..=max).contains(&number);
        if is_within { Ok(number) } else { Err(format!("`{name}` is from 1 to {max}")) }
    };
    let seconds = within("seconds", SECONDS_DEFAULT, SECONDS_MAX)?;
    let requests = within("requests", REQUESTS_DEFAULT, REQUESTS_MAX)? as usize;
    let account = api.observer.account.clone();
    Ok(api.helper.page(move || Reply::json(200, trace(&account, seconds, requests).into_bytes())))
}

/// The trace of the last `seconds`, with at most `requests` requests, the newest.
pub(crate) fn trace(account: &Account, seconds: u64, requests: usize) -> String {
    let recent = account.recent(seconds, requests);
    let mut writer = Writer {
        out: String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":["),
        clock: account.clock(),
        names: account.names(),
        began: recent.began,
        is_first: true,
    };
    writer.metadata("process_name", 0, "pellucid");
    writer.requests(&recent);
    writer.jobs(&recent);
    let Writer { mut out, clock, .. } = writer;
    let (source, count) = (clock.source().name(), recent.records.len());
    let _ = write!(
        out,
        "],\"otherData\":{{\"clock\":\"{source}\",\"seconds\":\"{seconds}\",\
         \"requests\":\"{count}\"}}}}"
    );
    out
}

struct Writer {
    out: String,
    clock: Clock,
    names: Names,
    began: Ticks,
    is_first: bool,
}

impl Writer {
    fn begin_event(&mut self) {
        self.out.push_str(if self.is_first { "\n" } else { ",\n" });
        self.is_first = false;
    }

    fn metadata(&mut self, what: &str, thread: usize, name: &str) {
        self.begin_event();
        let _ = write!(
            self.out,
            "{{\"ph\":\"M\",\"pid\":{PROCESS},\"tid\":{thread},\"ts\":0,\"name\":\"{what}\",\
             \"args\":{{\"name\":\"{name}\"}}}}"
        );
    }

    /// A stretch of time; names and arguments are the program's own and need no escapes.
    fn complete(
        &mut self,
        (name, category): (&str, &str),
        thread: usize,
        (from, to): (Ticks, Ticks),
        arguments: &str,
    ) {
        self.begin_event();
        // Both ends are rounded down alike, so that what touches keeps touching.
        let from_ns = self.clock.nanoseconds(from.since(self.began));
        let duration_ns = self.clock.nanoseconds(to.since(self.began)).saturating_sub(from_ns);
        let (ts, dur) = (microseconds(from_ns), microseconds(duration_ns));
        let _ = write!(
            self.out,
            "{{\"ph\":\"X\",\"pid\":{PROCESS},\"tid\":{thread},\"ts\":{ts},\"dur\":{dur},\
             \"name\":\"{name}\",\"cat\":\"{category}\",\"args\":{{{arguments}}}}}"
        );
    }

    fn requests(&mut self, recent: &Recent) {
        let mut records: Vec<&Record> = recent.records.iter().collect();
        records.sort_by_key(|record| record.arrived_ticks);
        // For each loop, when each of its lanes is free again.
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
        let mut arguments = format!(
            "\"request\":\"{}\",\"connection\":{},\"outcome\":\"{outcome}\",\"status\":{},\
             \"key_hash\":\"{:016x}\"",
            request_name(facts.request),
            facts.connection,
            facts.status,
            facts.key_hash,
        );
        if record.waited_for() != 0 {
            let _ = write!(arguments, ",\"waited_for_job\":{}", record.waited_for());
        }
        self.complete((name, "request"), thread, span, &arguments);
        for (phase, from, to) in stretches(record) {
            let arguments = match phase {
                Phase::Execute => self.parts(record),
                _ => self.transport_part(record, phase),
            };
            self.complete((phase.name(), "phase"), thread, (from, to), &arguments);
        }
    }

    /// The parts of `execute`, which have lengths and no places.
    fn parts(&self, record: &Record) -> String {
        let names = self.names.parts_of(record.facts.operation);
        let parts = names.iter().zip(record.parts_ticks());
        let told = parts.filter(|(_, ticks)| *ticks > 0);
        told.map(|(name, ticks)| self.part(name, ticks)).collect::<Vec<_>>().join(",")
    }

    /// The transport's part of another phase, likewise.
    fn transport_part(&self, record: &Record, phase: Phase) -> String {
        let part = TransportPart::of(phase).map(|part| (part, record.transport_ticks(part)));
        let told = part.filter(|(_, ticks)| *ticks > 0);
        told.map_or_else(String::new, |(part, ticks)| self.part(part.name(), ticks))
    }

    fn part(&self, name: &str, ticks: u64) -> String {
        format!("\"{name}_us\":{}", microseconds(self.clock.nanoseconds(ticks)))
    }

    fn jobs(&mut self, recent: &Recent) {
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
            let arguments = format!("\"job\":{},\"runs\":{runs}", job.id);
            self.complete((name, "job"), thread, span, &arguments);
        }
    }
}

/// The phases of a request that took time, with their ends.
fn stretches(record: &Record) -> Vec<(Phase, Ticks, Ticks)> {
    let mut found = Vec::new();
    for (index, pair) in STAMPS.windows(2).enumerate() {
        let (Some(mut from), Some(to)) = (record.stamp(pair[0]), record.stamp(pair[1])) else {
            continue;
        };
        if pair[1] == Stamp::Parsed {
            // What precedes the parsing is the wait behind earlier requests of the connection.
            let parsing = Ticks(to.0.saturating_sub(record.phase_ticks(Phase::Parse)));
            if parsing > from {
                found.push((Phase::Queue, from, parsing));
                from = parsing;
            }
        }
        if to > from {
            found.push((PHASES[index], from, to));
        }
    }
    found
}

/// Nanoseconds as microseconds with decimals, as trace files have them.
fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}
