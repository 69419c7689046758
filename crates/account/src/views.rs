//! Views of single requests, of slow ones, and of the jobs that interfere with them: plain data for
//! JSON, with names instead of slots and nanoseconds instead of ticks.

use pellucid_clock::{Clock, Ticks};
use pellucid_thread::{Wait, WaitKind};
use serde::{Deserialize, Serialize};

use crate::activity::{Activity, Job};
use crate::in_flight::InFlightRequest;
use crate::interference::Lift;
use crate::phase::{PHASES, Phase};
use crate::record::Record;
use crate::slow_requests::{Operation, SlowRequest};
use crate::state::Names;
use crate::transport::TRANSPORT_PARTS;
use crate::work::place_name;

/// A named stretch of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedDuration {
    /// The name of the phase or part.
    pub name: String,
    /// The duration.
    pub duration_ns: u64,
}

/// A background job that ran beside a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// The number of the job.
    pub id: u64,
    /// The kind of the job.
    pub job: String,
    /// The run time; none if the job is not known to have ended.
    pub duration_ns: Option<u64>,
    /// The time for which it ran within the request's total.
    pub overlap_ns: u64,
}

/// The store's counts for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineView {
    /// Look-ups in the ledger.
    pub look_ups: u8,
    /// The place where the last look-up ended; none without a look-up.
    pub found_in: Option<String>,
    /// Tables in which the key was looked up.
    pub tables: u8,
    /// Tables that their filter or directory ruled out.
    pub filters_excluded: u8,
    /// Tables whose filter or directory let the key pass although it is not there.
    pub filters_false: u8,
    /// Blocks searched.
    pub blocks: u8,
    /// Records read from the journal.
    pub records: u8,
}

/// A finished request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestView {
    /// The name of the request: its event loop and its number there ([`request_name`]).
    pub request: String,
    /// The operation.
    pub operation: String,
    /// The outcome.
    pub outcome: String,
    /// The status code of the response.
    pub status: u16,
    /// The number of the connection.
    pub connection: u32,
    /// The hash of the key, with a seed of this process; none without a key.
    pub key_hash: Option<String>,
    /// Bytes of the request.
    pub request_bytes: u32,
    /// Bytes of the response.
    pub response_bytes: u32,
    /// The time since the end of the request.
    pub ended_ago_ns: u64,
    /// The time from received to written.
    pub total_ns: u64,
    /// The threshold that it exceeded; none if it was not slow.
    pub threshold_ns: Option<u64>,
    /// All phases; `receive` precedes the total, and the others add up to it.
    pub phases: Vec<NamedDuration>,
    /// The parts of other phases that occurred: `decrypt` of `receive`, `compress` of `encode`,
    /// `encrypt` of `write`.
    #[serde(default)]
    pub transport_parts: Vec<NamedDuration>,
    /// The parts of `execute` that occurred.
    pub parts: Vec<NamedDuration>,
    /// The store's counts.
    pub engine: EngineView,
    /// The background jobs that ran at the same time; they need not be a cause.
    pub overlapped: Vec<JobView>,
    /// The background job that it waited for; none if it waited for none.
    pub waited_for: Option<JobView>,
}

/// The slow requests of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowOperation {
    /// The operation.
    pub operation: String,
    /// The number of requests since the start.
    pub requests: u64,
    /// The number of requests that were slow when they ended.
    pub slow: u64,
    /// The present threshold of slow requests; none until there were enough requests.
    pub threshold_ns: Option<u64>,
    /// The slowest requests of the last five to ten minutes, the slowest first.
    pub slowest: Vec<RequestView>,
    /// The newest requests that exceeded the threshold, the newest first.
    pub crossed: Vec<RequestView>,
}

/// A request that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InFlightView {
    /// The name of the request: its event loop and its number there ([`request_name`]).
    pub request: String,
    /// The operation; none while it is not known.
    pub operation: Option<String>,
    /// The present phase.
    pub phase: String,
    /// The time since it was received.
    pub age_ns: u64,
    /// The place: `loop` if its event loop works at it now, `away` if it was handed over or is
    /// being streamed.
    pub place: String,
    /// The cause of its wait; none while a thread works at it.
    pub waits_for: Option<WaitView>,
}

/// The cause of a request's wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitView {
    /// The kind: `client` for one that has to take in a streamed response, or one of
    /// [`pellucid_thread::WaitKind`] (`lock`, `condition`, `thread`, `sync` and so on).
    pub kind: String,
    /// The place in the program, as file and line; none for `client`.
    pub place: Option<String>,
    /// The duration of the wait so far; none for `client`, where it is not known.
    pub duration_ns: Option<u64>,
}

/// The figures of one operation beside background jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterferenceView {
    /// The operation.
    pub operation: String,
    /// The number of requests.
    pub requests: u64,
    /// The number of slow requests.
    pub slow: u64,
    /// The figures by kind of job; kinds that never ran beside a request are left out.
    pub jobs: Vec<Lift>,
}

/// Makes views: turns slots into names and ticks into nanoseconds.
pub(crate) struct Viewer<'a> {
    pub(crate) clock: Clock,
    pub(crate) names: Names,
    pub(crate) activity: &'a Activity,
    pub(crate) now: Ticks,
}

impl Viewer<'_> {
    pub(crate) fn operation(&self, slot: u8) -> String {
        let name = self.names.operations.get(usize::from(slot));
        name.copied().unwrap_or("unnamed").to_owned()
    }

    fn job(&self, job: &Job, from: Ticks, to: Ticks) -> JobView {
        // A job that ran when the request was kept may have ended since.
        let job = match job.ended {
            Some(_) => *job,
            None => self.activity.find(job.id).unwrap_or(*job),
        };
        JobView {
            id: job.id,
            job: self.activity.name(job.kind).to_owned(),
            duration_ns: job.ended.map(|ended| self.clock.nanoseconds(ended.since(job.began))),
            overlap_ns: self.clock.nanoseconds(job.ticks_within(from, to)),
        }
    }

    fn request(&self, kept: &SlowRequest) -> RequestView {
        let (record, facts) = (&kept.record, &kept.record.facts);
        let (from, to) = record.span();
        let ns = |ticks: u64| self.clock.nanoseconds(ticks);
        let outcome = self.names.outcomes.get(usize::from(facts.outcome));
        let stretch = |name: &str, ticks: u64| NamedDuration {
            name: name.to_owned(),
            duration_ns: ns(ticks),
        };
        let parts = self.names.parts_of(facts.operation).iter().zip(record.parts_ticks());
        let transport = TRANSPORT_PARTS.map(|part| (part.name(), record.transport_ticks(part)));
        let occurred = |(name, ticks): (&str, u64)| (ticks > 0).then(|| stretch(name, ticks));
        RequestView {
            request: request_name(facts.request),
            operation: self.operation(facts.operation),
            outcome: outcome.copied().unwrap_or("unnamed").to_owned(),
            status: facts.status,
            connection: facts.connection,
            key_hash: (facts.key_hash != 0).then(|| format!("{:016x}", facts.key_hash)),
            request_bytes: facts.request_bytes,
            response_bytes: facts.response_bytes,
            ended_ago_ns: ns(self.now.since(to)),
            total_ns: ns(record.total_ticks()),
            threshold_ns: kept.threshold_ns,
            phases: PHASES.map(|phase| stretch(phase.name(), record.phase_ticks(phase))).to_vec(),
            transport_parts: transport.into_iter().filter_map(occurred).collect(),
            parts: parts.filter_map(|(name, ticks)| occurred((name, ticks))).collect(),
            engine: engine_view(record),
            overlapped: kept.overlapped.iter().map(|job| self.job(job, from, to)).collect(),
            waited_for: kept.waited_for.as_ref().map(|job| self.job(job, from, to)),
        }
    }

    pub(crate) fn slow(&self, slot: u8, operation: &Operation, limit: usize) -> SlowOperation {
        let slowest = operation.slowest.iter().chain(&operation.slowest_before);
        let mut slowest: Vec<&SlowRequest> = slowest.collect();
        slowest.sort_by_key(|kept| std::cmp::Reverse(kept.record.total_ticks()));
        slowest.truncate(crate::slow_requests::SLOWEST_KEPT.min(limit));
        SlowOperation {
            operation: self.operation(slot),
            requests: operation.requests,
            slow: operation.slow,
            threshold_ns: operation.threshold_ns,
            slowest: slowest.into_iter().map(|kept| self.request(kept)).collect(),
            crossed: operation
                .crossed
                .iter()
                .rev()
                .take(limit)
                .map(|kept| self.request(kept))
                .collect(),
        }
    }

    pub(crate) fn in_flight(&self, request: &InFlightRequest, waits: &[Wait]) -> InFlightView {
        let is_known = usize::from(request.operation) < self.names.operations.len();
        InFlightView {
            request: request_name(request.request),
            operation: is_known.then(|| self.operation(request.operation)),
            phase: request.phase.name().to_owned(),
            age_ns: self.clock.nanoseconds(self.now.since(request.received)),
            place: if request.is_on_loop { "loop" } else { "away" }.to_owned(),
            waits_for: wait_of(request, waits),
        }
    }
}

/// The newest wait of the request: of nested waits, the innermost is the cause.
fn wait_of(request: &InFlightRequest, waits: &[Wait]) -> Option<WaitView> {
    // No loop works at a request that waits for another thread or node, so that such a wait belongs
    // to a request of another server in this process with the same number.
    let is_away = |kind| matches!(kind, WaitKind::Thread | WaitKind::Node);
    let of_request = waits
        .iter()
        .filter(|wait| wait.request == request.request)
        .filter(|wait| !(request.is_on_loop && is_away(wait.kind)));
    if let Some(wait) = of_request.max_by_key(|wait| wait.since_ns) {
        return Some(WaitView {
            kind: wait.kind.to_string(),
            place: Some(format!("{}:{}", wait.place.file(), wait.place.line())),
            duration_ns: Some(pellucid_thread::monotonic_ns().saturating_sub(wait.since_ns)),
        });
    }
    let is_streamed = !request.is_on_loop && request.phase == Phase::Encode;
    is_streamed.then(|| WaitView { kind: "client".to_owned(), place: None, duration_ns: None })
}

/// The name of a request: its event loop's index and its number there.
#[must_use]
pub fn request_name(request: u64) -> String {
    format!("{}-{}", request >> 48, request & ((1 << 48) - 1))
}

fn engine_view(record: &Record) -> EngineView {
    let counts = &record.counts;
    EngineView {
        look_ups: counts.look_ups,
        found_in: (counts.look_ups > 0).then(|| place_name(counts.found_in.into())),
        tables: counts.tables,
        filters_excluded: counts.filters_excluded,
        filters_false: counts.filters_false,
        blocks: counts.blocks,
        records: counts.records,
    }
}

#[cfg(test)]
mod tests {
    use pellucid_thread::WaitGuard;

    use super::*;

    #[test]
    fn a_request_under_way_shows_the_cause_of_its_wait() {
        let request = |number, phase, is_on_loop| InFlightRequest {
            request: number,
            operation: 0,
            received: Ticks(1),
            phase,
            is_on_loop,
        };
        let executing = request(4_242, Phase::Execute, true);
        assert_eq!(wait_of(&executing, &pellucid_thread::waits()), None);
        pellucid_thread::set_request(4_242);
        let outer = WaitGuard::begin(WaitKind::Condition);
        let inner = WaitGuard::begin(WaitKind::Lock);
        let wait = wait_of(&executing, &pellucid_thread::waits()).unwrap();
        assert!(wait.place.unwrap().contains("views.rs:") && wait.duration_ns.is_some());
        drop(inner);
        let wait = wait_of(&executing, &pellucid_thread::waits()).unwrap();
        assert_eq!(wait.kind, "condition");
        drop(outer);
        assert_eq!(wait_of(&executing, &pellucid_thread::waits()), None);
        // Two servers in one process may have requests with the same number.
        let elsewhere = WaitGuard::begin(WaitKind::Node);
        assert_eq!(wait_of(&executing, &pellucid_thread::waits()), None);
        let away = request(4_242, Phase::Execute, false);
        assert!(wait_of(&away, &pellucid_thread::waits()).is_some());
        drop(elsewhere);
        let streamed = request(4_243, Phase::Encode, false);
        assert_eq!(wait_of(&streamed, &[]).map(|wait| wait.kind).as_deref(), Some("client"));
    }
}
