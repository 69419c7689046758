//! What one thread notes of its requests while they run: no allocation, no lock, no division.

use hdrhistogram::Histogram;
use pellucid_clock::{Clock, Ticks};

use crate::connection::InFlight;
use crate::result::ErrorCounts;
use crate::samples::{Sample, Samples};

/// The longest time that a histogram holds apart; a longer one counts as this.
const LONGEST_NS: u64 = 24 * 3_600 * 1_000_000_000;
/// Significant decimal digits of the histograms, as wrk2 has them.
const SIGNIFICANT_DIGITS: u8 = 3;
/// The highest rate of a thread that its samples hold apart.
const HIGHEST_RATE: u64 = 100_000_000;
/// Seconds for which the throughput is kept apart; later ones are added to the last.
const MAX_SECONDS: usize = 7 * 86_400;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// A histogram of times in nanoseconds.
pub(crate) fn time_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that the histogram accepts")
}

/// A histogram of requests per second.
pub(crate) fn rate_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_RATE, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that the histogram accepts")
}

/// The notes of one thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    clock: Clock,
    start: Ticks,
    /// Requests meant to start before this are not recorded in histograms.
    record_from: Ticks,
    /// Whether starts are intended at a time, so that there is a lateness.
    paced: bool,
    pub(crate) response_time: Histogram<u64>,
    pub(crate) service_time: Histogram<u64>,
    pub(crate) send_lateness: Histogram<u64>,
    pub(crate) request_rates: Histogram<u64>,
    pub(crate) samples: Samples,
    pub(crate) throughput_per_second: Vec<u64>,
    second_end: Ticks,
    second_ticks: u64,
    last_rate_at: Ticks,
    last_rate_requests: u64,
    pub(crate) requests: u64,
    /// Requests whose connection broke.
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    pub(crate) status_classes: [u64; 10],
    pub(crate) errors: ErrorCounts,
    pub(crate) first_error: Option<String>,
}

impl Recorder {
    pub(crate) fn new(clock: Clock, paced: bool, expected_ns: u64) -> Recorder {
        let expected_seconds = usize::try_from(expected_ns / NS_PER_SECOND).unwrap_or(MAX_SECONDS);
        Recorder {
            clock,
            start: Ticks::default(),
            record_from: Ticks::default(),
            paced,
            response_time: time_histogram(),
            service_time: time_histogram(),
            send_lateness: time_histogram(),
            request_rates: rate_histogram(),
            samples: Samples::new(expected_ns),
            throughput_per_second: Vec::with_capacity(expected_seconds.min(MAX_SECONDS) + 2),
            second_end: Ticks::default(),
            second_ticks: clock.ticks(NS_PER_SECOND),
            last_rate_at: Ticks::default(),
            last_rate_requests: 0,
            requests: 0,
            failed: 0,
            bytes: 0,
            status_classes: [0; 10],
            errors: ErrorCounts::default(),
            first_error: None,
        }
    }

    /// Sets the zero of all times.
    pub(crate) fn begin(&mut self, start: Ticks, warm_up_ns: u64) {
        self.start = start;
        self.record_from = Ticks(start.0.saturating_add(self.clock.ticks(warm_up_ns)));
        self.last_rate_at = start;
        self.throughput_per_second.push(0);
        self.second_end = Ticks(start.0 + self.second_ticks);
    }

    /// Notes a whole answer.
    #[inline]
    pub(crate) fn answered(&mut self, request: &InFlight, now: Ticks, status: u16) {
        self.requests += 1;
        self.status_classes[usize::from(status / 100 % 10)] += 1;
        self.errors.status += u64::from(status >= 400);
        while now >= self.second_end {
            self.next_second();
        }
        if let Some(count) = self.throughput_per_second.last_mut() {
            *count += 1;
        }
        if request.intended < self.record_from {
            return;
        }
        let response_time_ns = self.clock.nanoseconds(now.since(request.intended));
        self.response_time.saturating_record(response_time_ns);
        let mut service_time_ns = response_time_ns;
        if self.paced {
            service_time_ns = self.clock.nanoseconds(now.since(request.sent));
            self.service_time.saturating_record(service_time_ns);
        }
        let time_offset_ns = self.clock.nanoseconds(now.since(self.start));
        self.samples.add(Sample { time_offset_ns, response_time_ns, service_time_ns });
    }

    /// Notes how late a request was sent.
    #[inline]
    pub(crate) fn sent(&mut self, intended: Ticks, sent: Ticks) {
        if intended >= self.record_from {
            let lateness_ns = self.clock.nanoseconds(sent.since(intended));
            self.send_lateness.saturating_record(lateness_ns);
        }
    }

    #[cold]
    fn next_second(&mut self) {
        if self.throughput_per_second.len() < MAX_SECONDS {
            self.throughput_per_second.push(0);
        }
        self.second_end = Ticks(self.second_end.0 + self.second_ticks);
    }

    /// Samples the rate since the last sample.
    pub(crate) fn sample_rate(&mut self, now: Ticks) {
        let elapsed_ns = self.clock.nanoseconds(now.since(self.last_rate_at));
        if elapsed_ns == 0 {
            return;
        }
        let answered = u128::from(self.requests - self.last_rate_requests);
        let rate = answered * u128::from(NS_PER_SECOND) / u128::from(elapsed_ns);
        self.request_rates.saturating_record(u64::try_from(rate).unwrap_or(u64::MAX));
        self.last_rate_at = now;
        self.last_rate_requests = self.requests;
    }

    /// Keeps the first error in words.
    pub(crate) fn explain(&mut self, text: impl FnOnce() -> String) {
        if self.first_error.is_none() {
            self.first_error = Some(text());
        }
    }

    /// Takes in the notes of another thread.
    pub(crate) fn merge(&mut self, other: Recorder) {
        const SAME: &str = "histograms of the same bounds can be added";
        self.response_time.add(&other.response_time).expect(SAME);
        self.service_time.add(&other.service_time).expect(SAME);
        self.send_lateness.add(&other.send_lateness).expect(SAME);
        self.request_rates.add(&other.request_rates).expect(SAME);
        self.samples.merge(other.samples);
        let seconds = self.throughput_per_second.len().max(other.throughput_per_second.len());
        self.throughput_per_second.resize(seconds, 0);
        for (sum, count) in self.throughput_per_second.iter_mut().zip(other.throughput_per_second) {
            *sum += count;
        }
        self.requests += other.requests;
        self.failed += other.failed;
        self.bytes += other.bytes;
        for (sum, count) in self.status_classes.iter_mut().zip(other.status_classes) {
            *sum += count;
        }
        self.errors.add(&other.errors);
        if self.first_error.is_none() {
            self.first_error = other.first_error;
        }
    }
}
