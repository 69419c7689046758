//! Rates of one thread, sampled while it runs.

use hdrhistogram::Histogram;
use pellucid_clock::{Clock, Ticks};

use crate::histograms::{add, rate_histogram};

const NS_PER_SECOND: u128 = 1_000_000_000;

/// The samples of a thread's rate.
#[derive(Debug)]
pub(crate) struct RateRecorder {
    clock: Clock,
    samples: Histogram<u64>,
    last_at: Ticks,
    last_requests: u64,
}

impl RateRecorder {
    pub(crate) fn new(clock: Clock) -> RateRecorder {
        let samples = rate_histogram();
        RateRecorder { clock, samples, last_at: Ticks::default(), last_requests: 0 }
    }

    pub(crate) fn begin(&mut self, start: Ticks) {
        self.last_at = start;
    }

    /// Samples the rate since the last sample, from the number of all answers so far.
    pub(crate) fn sample(&mut self, now: Ticks, requests: u64) {
        let elapsed_ns = self.clock.nanoseconds(now.since(self.last_at));
        if elapsed_ns == 0 {
            return;
        }
        let answered = u128::from(requests - self.last_requests);
        let rate = answered * NS_PER_SECOND / u128::from(elapsed_ns);
        self.samples.saturating_record(u64::try_from(rate).unwrap_or(u64::MAX));
        self.last_at = now;
        self.last_requests = requests;
    }

    /// Merges the samples of another thread.
    pub(crate) fn merge(&mut self, other: &RateRecorder) {
        add(&mut self.samples, &other.samples);
    }

    pub(crate) fn finish(self) -> Histogram<u64> {
        self.samples
    }
}
