//! The recorder of one thread: counts and times its requests while they run, without allocations,
//! locks or divisions.

use pellucid_clock::{Clock, Ticks};

use crate::connection::PendingRequest;
use crate::disconnect_reason::DisconnectReason;
use crate::error_counts::ErrorCounts;
use crate::rates::RateRecorder;
use crate::result::OperationResult;
use crate::samples::{Sample, Samples};
use crate::silence::SilenceRecorder;
use crate::source::Acceptance;
use crate::throughput::ThroughputRecorder;
use crate::timeline::Timeline;
use crate::times::Times;
use crate::trace_sampler::PendingTrace;
use crate::traces::TraceRecorder;
use pellucid_client::http::ServerTiming;

/// The settings of a thread's recorder.
#[derive(Clone, Debug)]
pub(crate) struct RecorderSettings {
    /// True if requests can be sent later than intended, so that response time and service time
    /// differ.
    pub(crate) apart: bool,
    /// True if a batch is one measurement, by its last answer.
    pub(crate) measures_batches: bool,
    /// The expected length of the run; 0 if it is not known.
    pub(crate) expected_ns: u64,
    /// The names of the operations that are recorded separately.
    pub(crate) operations: Vec<String>,
    /// Statuses from 400 on that are not errors.
    pub(crate) accepted_statuses: Vec<u16>,
}

/// The recorder of one thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    clock: Clock,
    start: Ticks,
    /// Requests with an intended start before this are not recorded in histograms.
    record_from: Ticks,
    scope: RecorderSettings,
    pub(crate) times: Times,
    pub(crate) traces: TraceRecorder,
    pub(crate) rates: RateRecorder,
    pub(crate) samples: Samples,
    pub(crate) timeline: Timeline,
    interval_end: Ticks,
    pub(crate) operations: Vec<OperationResult>,
    pub(crate) silence: SilenceRecorder,
    pub(crate) throughput: ThroughputRecorder,
    pub(crate) requests: u64,
    /// Requests that ended without an answer: their connection broke, they were given up long after
    /// the timeout, or an HTTP/2 server reset or refused them.
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    pub(crate) status_classes: [u64; 10],
    pub(crate) errors: ErrorCounts,
    pub(crate) sent_again: u64,
    pub(crate) first_error: Option<String>,
}

impl Recorder {
    pub(crate) fn new(clock: Clock, scope: RecorderSettings) -> Recorder {
        let expected_ns = scope.expected_ns;
        Recorder {
            clock,
            start: Ticks::default(),
            record_from: Ticks::default(),
            times: Times::new(),
            traces: TraceRecorder::new(clock),
            rates: RateRecorder::new(clock),
            samples: Samples::new(expected_ns),
            timeline: Timeline::new(expected_ns),
            interval_end: Ticks::default(),
            operations: scope.operations.iter().map(|name| OperationResult::new(name)).collect(),
            silence: SilenceRecorder::default(),
            throughput: ThroughputRecorder::new(&clock, expected_ns),
            requests: 0,
            failed: 0,
            bytes: 0,
            status_classes: [0; 10],
            errors: ErrorCounts::default(),
            sent_again: 0,
            first_error: None,
            scope,
        }
    }

    /// True if a batch is one measurement, by its last answer.
    #[inline]
    pub(crate) fn measures_batches(&self) -> bool {
        self.scope.measures_batches
    }

    /// Sets the start of the run and the length of the warm-up.
    pub(crate) fn begin(&mut self, start: Ticks, warm_up_ns: u64) {
        self.start = start;
        self.record_from = Ticks(start.0.saturating_add(self.clock.ticks(warm_up_ns)));
        self.rates.begin(start);
        self.throughput.begin(start);
        self.silence.begin(start);
        self.interval_end = Ticks(start.0 + self.clock.ticks(self.timeline.end_ns()));
    }

    /// Records a complete answer and the outcome of its check.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        request: &PendingRequest,
        now: Ticks,
        status: u16,
        acceptance: Acceptance,
    ) {
        self.requests += 1;
        self.status_classes[usize::from(status / 100 % 10)] += 1;
        let refused = acceptance == Acceptance::Failed;
        let bad_status = acceptance == Acceptance::ByStatus
            && status >= 400
            && !self.scope.accepted_statuses.contains(&status);
        self.errors.status += u64::from(bad_status);
        self.errors.check += u64::from(refused);
        let is_error = refused || bad_status;
        self.errors.failed_requests += u64::from(is_error && !request.timed_out);
        if is_error {
            self.explain(|| match refused {
                true => format!("check failed on an answer of status {status}"),
                false => format!("an answer had status {status}"),
            });
        }
        if let Some(notes) = self.operations.get_mut(usize::from(request.operation)) {
            notes.requests += 1;
            notes.errors += u64::from(is_error);
        }
        if now >= self.interval_end {
            self.next_interval(now);
        }
        self.timeline.answered();
        self.silence.heard(now, request.sent);
        self.throughput.answered(now);
        if request.intended < self.record_from || request.is_within_batch {
            return;
        }
        let response_time_ns = self.clock.nanoseconds(now.since(request.intended));
        self.times.response.saturating_record(response_time_ns);
        self.timeline.record(response_time_ns);
        let mut service_time_ns = response_time_ns;
        if self.scope.apart {
            service_time_ns = self.clock.nanoseconds(now.since(request.sent));
            self.times.service.saturating_record(service_time_ns);
        }
        let time_offset_ns = self.clock.nanoseconds(now.since(self.start));
        self.samples.add(Sample { time_offset_ns, response_time_ns, service_time_ns });
        if let Some(notes) = self.operations.get_mut(usize::from(request.operation)) {
            notes.response_time.saturating_record(response_time_ns);
            notes.service_time.saturating_record(service_time_ns);
        }
    }

    /// Records the wait for a connection and the generator's own delay of a request that begins at
    /// `now`. `free_since` is the time since which its connection is free.
    #[inline]
    pub(crate) fn begun(&mut self, intended: Ticks, free_since: Ticks, now: Ticks) {
        if intended >= self.record_from {
            let wait_ns = self.clock.nanoseconds(free_since.since(intended));
            self.times.connection_wait.saturating_record(wait_ns);
            let delay_ns = self.clock.nanoseconds(now.since(intended.max(free_since)));
            self.times.generator_delay.saturating_record(delay_ns);
        }
    }

    /// Records the time to open a connection, from `began` to `secure`, and with `tls` the time of
    /// the handshake, from `open` to `secure`.
    pub(crate) fn connected(&mut self, [began, open, secure]: [Ticks; 3], tls: bool) {
        if secure >= self.record_from {
            self.times.connect.saturating_record(self.clock.nanoseconds(secure.since(began)));
            if tls {
                self.times.tls.saturating_record(self.clock.nanoseconds(secure.since(open)));
            }
        }
    }

    /// Records the trace of a watched request. Returns true if the server reported its time.
    #[cold]
    pub(crate) fn watched(
        &mut self,
        request: &PendingRequest,
        watch: &PendingTrace,
        now: Ticks,
        told: Option<&ServerTiming>,
    ) -> bool {
        if request.intended < self.record_from {
            return told.is_some_and(|told| !told.timing.is_empty());
        }
        self.traces.add(request, watch, self.start, now, told)
    }

    #[cold]
    fn next_interval(&mut self, now: Ticks) {
        let elapsed_ns = self.clock.nanoseconds(now.since(self.start));
        self.timeline.go_on_to(elapsed_ns, self.errors.all());
        self.interval_end = Ticks(self.start.0 + self.clock.ticks(self.timeline.end_ns()));
    }

    /// Sets the number of requests that are due and not sent.
    pub(crate) fn set_backlog(&mut self, now: Ticks, backlog: u64) {
        if now >= self.interval_end {
            self.next_interval(now);
        }
        let elapsed_ns = self.clock.nanoseconds(now.since(self.start));
        self.timeline.set_backlog(elapsed_ns, backlog);
    }

    /// Records the wait of a request that has no answer at the end, or is given up before.
    pub(crate) fn unanswered(&mut self, intended: Ticks, end: Ticks) {
        if intended >= self.record_from {
            self.times.unanswered.saturating_record(self.clock.nanoseconds(end.since(intended)));
        }
    }

    /// Ends the recording. `waiting_since` is the time since which the thread waits for an answer,
    /// if it waits for one.
    pub(crate) fn finish(&mut self, end: Ticks, waiting_since: Option<Ticks>) {
        if end >= self.interval_end {
            self.next_interval(end);
        }
        self.timeline.finish(self.errors.all());
        self.throughput.end(end);
        self.silence.end(&self.clock, end, waiting_since);
    }

    /// Records how late a request was sent.
    #[inline]
    pub(crate) fn sent(&mut self, intended: Ticks, sent: Ticks) {
        if intended >= self.record_from {
            let lateness_ns = self.clock.nanoseconds(sent.since(intended));
            self.times.send_lateness.saturating_record(lateness_ns);
        }
    }

    /// Samples the rate since the last sample.
    pub(crate) fn sample_rate(&mut self, now: Ticks) {
        self.rates.sample(now, self.requests);
    }

    /// Counts a request that ends without an answer. One that `timed_out` counts as failed since
    /// then.
    pub(crate) fn lost_request(&mut self, timed_out: bool) {
        self.failed += 1;
        self.errors.failed_requests += u64::from(!timed_out);
    }

    /// Counts a request that is given up, with its wait so far.
    pub(crate) fn abandoned(&mut self, request: &PendingRequest, now: Ticks) {
        self.lost_request(request.timed_out);
        self.unanswered(request.intended, now);
    }

    /// Counts the reason for which a socket was given up.
    pub(crate) fn lost(&mut self, loss: DisconnectReason) {
        let errors = &mut self.errors;
        let (counter, text) = match loss {
            DisconnectReason::Connect(error) => (&mut errors.connect, format!("connect: {error}")),
            DisconnectReason::Read(error) => (&mut errors.read, format!("read: {error}")),
            DisconnectReason::Write(error) => (&mut errors.write, format!("write: {error}")),
            DisconnectReason::Malformed(malformed) => {
                errors.malformed += 1;
                (&mut errors.read, format!("read: {}", malformed.text()))
            }
            DisconnectReason::Abandoned => {
                return self.explain(|| "timeout: no answer came at all".to_owned());
            }
            DisconnectReason::Ended => return,
        };
        *counter += 1;
        self.explain(|| text);
    }

    /// Keeps the text of the first error.
    pub(crate) fn explain(&mut self, text: impl FnOnce() -> String) {
        if self.first_error.is_none() {
            self.first_error = Some(text());
        }
    }

    /// Merges the recorder of another thread.
    pub(crate) fn merge(&mut self, other: Recorder) {
        self.times.merge(&other.times);
        self.traces.merge(other.traces);
        for (notes, others) in self.operations.iter_mut().zip(&other.operations) {
            notes.merge(others);
        }
        self.timeline.merge(other.timeline);
        self.silence.merge(&other.silence);
        self.rates.merge(&other.rates);
        self.samples.merge(other.samples);
        self.throughput.merge(other.throughput);
        self.requests += other.requests;
        self.failed += other.failed;
        self.bytes += other.bytes;
        for (sum, count) in self.status_classes.iter_mut().zip(other.status_classes) {
            *sum += count;
        }
        self.errors.add(&other.errors);
        self.sent_again += other.sent_again;
        if self.first_error.is_none() {
            self.first_error = other.first_error;
        }
    }
}
