//! The figures of a run that its verdict rests on.

use crate::error_counts::ErrorCounts;
use crate::result::LoadResult;
use crate::silence::Silence;
use crate::waits::ProcessorWaits;

/// The figures that a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The mean rate that was asked for; none in a closed loop.
    pub offered_per_second: Option<f64>,
    /// True if the rate changed during the run.
    pub rate_varies: bool,
    /// The rate at which requests were answered.
    pub answered_per_second: f64,
    /// Requests that were answered.
    pub requests: u64,
    /// Requests that were due and had no answer at the end.
    pub unanswered: u64,
    /// Connections of the run.
    pub connections: usize,
    /// The backlog at the end of each interval of the run: requests that were due and not sent.
    pub backlog: Vec<u64>,
    /// The length of such an interval.
    pub interval_ns: u64,
    /// The errors.
    pub errors: ErrorCounts,
    /// Errors during the silence at the end of the run, if it ended in one.
    pub errors_at_end: u64,
    /// The mean response time.
    pub response_mean_ns: f64,
    /// The 99th percentile of the response time.
    pub response_p99_ns: u64,
    /// The lower bound of that percentile if the requests without an answer are included.
    pub response_p99_at_least_ns: u64,
    /// The longest wait of a request without an answer.
    pub unanswered_max_ns: u64,
    /// The 90th percentile of the service time.
    pub service_p90_ns: u64,
    /// The mean of the generator's own delay.
    pub generator_mean_ns: f64,
    /// The 99th percentile of the generator's own delay.
    pub generator_p99_ns: u64,
    /// The share of the time in which the busiest thread of the generator worked.
    pub cpu_share: f64,
    /// The longest time in which no answer came to a thread that awaited one.
    pub silence: Silence,
    /// The waits of threads for a processor.
    pub processor_waits: ProcessorWaits,
}

impl Figures {
    /// The figures of a run.
    #[must_use]
    pub fn of(result: &LoadResult) -> Figures {
        let seconds = result.duration.as_secs_f64().max(f64::MIN_POSITIVE);
        let busiest = result.per_thread.iter().map(|thread| thread.cpu_time.as_secs_f64());
        Figures {
            offered_per_second: result.load.offered_per_second,
            rate_varies: result.load.paced && result.load.rate_per_second.is_none(),
            answered_per_second: result.requests_per_second(),
            requests: result.requests,
            unanswered: result.unanswered,
            connections: result.load.connections,
            backlog: result.course.timeline.iter().map(|interval| interval.backlog).collect(),
            interval_ns: result.course.timeline.first().map_or(0, |interval| interval.length_ns),
            errors: result.errors,
            errors_at_end: errors_at_end(result),
            response_mean_ns: result.times.response.mean(),
            response_p99_ns: result.times.response.value_at_quantile(0.99),
            response_p99_at_least_ns: result.response_time_at_least().value_at_quantile(0.99),
            unanswered_max_ns: result.times.unanswered.max(),
            service_p90_ns: result.times.service.value_at_quantile(0.9),
            generator_mean_ns: result.times.generator_delay.mean(),
            generator_p99_ns: result.times.generator_delay.value_at_quantile(0.99),
            cpu_share: busiest.fold(0.0, f64::max) / seconds,
            silence: result.course.silence,
            processor_waits: result.processor_waits,
        }
    }

    /// The number of requests that were due, answered or not; at least one.
    pub(crate) fn tried(&self) -> u64 {
        (self.requests + self.unanswered).max(1)
    }

    /// The number of requests that failed. An answer whose bytes are no HTTP breaks its connection,
    /// although no request may be lost with it.
    fn failed(&self) -> u64 {
        self.errors.failed_requests.max(self.errors.malformed)
    }

    /// The share of these that failed.
    pub(crate) fn error_share(&self) -> f64 {
        (self.failed() as f64 / self.tried() as f64).min(1.0)
    }

    /// The number of requests that failed, in words.
    pub(crate) fn failed_told(&self) -> String {
        format!("{} of {} requests failed", self.failed(), self.tried())
    }
}

/// Errors in the intervals that lie for at least half in the silence at the end.
fn errors_at_end(result: &LoadResult) -> u64 {
    let end_ns = result.course.timeline.last().map_or(0, |last| last.begin_ns + last.length_ns);
    let begin_ns = end_ns.saturating_sub(result.course.silence.at_end_ns);
    let silent = |begin: u64, length: u64| begin + length / 2 >= begin_ns;
    let silent = result.course.timeline.iter().filter(|i| silent(i.begin_ns, i.length_ns));
    silent.map(|interval| interval.errors).sum()
}
