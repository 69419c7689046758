//! The figures of a run.

use std::time::Duration;

use hdrhistogram::Histogram;
use pellucid_clock::WallTime;

use crate::error::LoadError;
use crate::error_counts::ErrorCounts;
use crate::histograms::{add, time_histogram};
use crate::request_routing::DirectResult;
use crate::samples::Sample;
use crate::schedule::Arrivals;
use crate::script::{FinishedScript, Summary};
use crate::silence::Silence;
use crate::timeline::Interval;
use crate::times::Times;
use crate::traces::Traces;
use crate::waits::ProcessorWaits;
use crate::wrk2_timers::Pacer;

/// The work of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadResult {
    /// The number of answers that the thread received.
    pub requests: u64,
    /// The mean response time of these answers.
    pub mean_response_time_ns: f64,
    /// The processor time of the thread over the whole run, without the time in which it only
    /// stayed awake to send on time.
    pub cpu_time: Duration,
}

/// The figures of one of several operations of a run.
#[derive(Clone, Debug)]
pub struct OperationResult {
    /// Its name.
    pub name: String,
    /// Answered requests; as in [`LoadResult::requests`], those of the warm-up count.
    pub requests: u64,
    /// The number of these answers that failed: with a status of 400 or above that is not accepted,
    /// or by a check.
    pub errors: u64,
    /// From the intended start to the whole answer, without the warm-up.
    pub response_time: Histogram<u64>,
    /// From the actual send to the whole answer, without the warm-up.
    pub service_time: Histogram<u64>,
}

impl OperationResult {
    /// The figures of an operation before the first request.
    pub(crate) fn new(name: &str) -> OperationResult {
        OperationResult {
            name: name.to_owned(),
            requests: 0,
            errors: 0,
            response_time: time_histogram(),
            service_time: time_histogram(),
        }
    }

    /// Merges the figures of another thread on the same operation.
    pub(crate) fn merge(&mut self, other: &OperationResult) {
        self.requests += other.requests;
        self.errors += other.errors;
        add(&mut self.response_time, &other.response_time);
        add(&mut self.service_time, &other.service_time);
    }
}

/// The load as it was offered.
#[derive(Clone, Debug)]
pub struct OfferedLoad {
    /// The URL that was loaded.
    pub url: String,
    /// The number of threads.
    pub threads: usize,
    /// The number of connections.
    pub connections: usize,
    /// True if connections carried more than one request.
    pub keep_alive: bool,
    /// The protocol: `HTTP/1.1` or `HTTP/2`.
    pub protocol: &'static str,
    /// The rate that was asked for, if it was constant.
    pub rate_per_second: Option<u64>,
    /// True if requests had intended starts that do not depend on answers.
    pub paced: bool,
    /// With a rate: the mean of the requested rate over the run.
    pub offered_per_second: Option<f64>,
    /// The spread of the starts.
    pub arrivals: Arrivals,
    /// The method that timed the sends.
    pub pacer: Pacer,
}

/// A run over time.
#[derive(Clone, Debug)]
pub struct RunHistory {
    /// The number of answers in every second of the run.
    pub throughput_per_second: Vec<u64>,
    /// Requests per second of single threads, sampled ten times a second, as in wrk's "Req/Sec".
    pub request_rates: Histogram<u64>,
    /// The run over time.
    pub timeline: Vec<Interval>,
    /// The longest time in which no answer came to a thread that awaited one.
    pub silence: Silence,
    /// Single requests over time, a bounded number.
    pub samples: Vec<Sample>,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct LoadResult {
    /// The load as it was offered.
    pub load: OfferedLoad,
    /// The time at which the first request was meant to start.
    pub started: WallTime,
    /// The time from the start to the end.
    pub duration: Duration,
    /// Answered requests.
    pub requests: u64,
    /// Requests without an answer: due or in flight when the run ended, or lost with their
    /// connection. The response time does not include them, so a high count means that its worst
    /// values are missing; see [`Times::unanswered`].
    pub unanswered: u64,
    /// Bytes received.
    pub bytes: u64,
    /// The errors.
    pub errors: ErrorCounts,
    /// The number of retries of HTTP/2 requests that the server refused, when it ended a connection
    /// (`GOAWAY`) or refused a stream. The times of such a request count from its first send.
    pub sent_again: u64,
    /// The requests by node, if each went to the owner of its key.
    pub direct: Option<DirectResult>,
    /// The first error in words, as a hint where to look.
    pub first_error: Option<String>,
    /// Answers by the first digit of their status, so `[2]` counts 200 to 299.
    pub status_classes: [u64; 10],
    /// The times of requests and connections.
    pub times: Times,
    /// The run over time.
    pub course: RunHistory,
    /// The traces of some requests, step by step, with the server's part.
    pub traces: Traces,
    /// The waits of threads for a processor in the slowest requests.
    pub processor_waits: ProcessorWaits,
    /// Figures by operation, where there are several.
    pub operations: Vec<OperationResult>,
    /// The work of each thread.
    pub per_thread: Vec<ThreadResult>,
    /// True if the run ended before its limit: by the caller, by a script, by an error, or because
    /// nothing was answered any more.
    pub stopped_early: bool,
    /// The error that ended the run before its limit, such as one of a script.
    pub failure: Option<LoadError>,
    pub(crate) script: Option<FinishedScript>,
}

impl LoadResult {
    /// The response time including the waits of requests without an answer at the end. Every
    /// quantile is a lower bound of what it would have been if the run had waited for them.
    #[must_use]
    pub fn response_time_at_least(&self) -> Histogram<u64> {
        let mut all = self.times.response.clone();
        add(&mut all, &self.times.unanswered);
        all
    }

    /// Answers per second over the whole run.
    #[must_use]
    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.duration.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Bytes per second over the whole run.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.duration.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The result of a run that no error ended.
    ///
    /// # Errors
    /// [`LoadResult::failure`], if an error ended the run.
    pub fn whole(mut self) -> Result<LoadResult, LoadError> {
        self.failure.take().map_or(Ok(self), Err)
    }

    /// Calls the script's `done`, if there is one. It prints, so call it after the table was
    /// printed.
    ///
    /// # Errors
    /// [`LoadError::Script`] if it raises an error.
    pub fn call_done(&mut self) -> Result<(), LoadError> {
        let Some(script) = self.script.take() else { return Ok(()) };
        script.done(&Summary {
            duration: self.duration,
            requests: self.requests,
            bytes: self.bytes,
            errors: &self.errors,
            response_time: &self.times.response,
            request_rates: &self.course.request_rates,
        })
    }
}
