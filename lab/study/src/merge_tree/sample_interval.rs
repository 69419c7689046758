//! Stretches of a run. Counters only grow, so the figures of a stretch are differences of counters.

use super::sample::Sample;
use super::sample_series::{number, operation, over_levels, ratio};

/// The number of stretches of a run.
pub(super) const STRETCHES: usize = 6;

/// A stretch of a run, between two samples.
#[derive(Clone, Copy)]
pub(super) struct SampleInterval<'a> {
    begin: &'a Sample,
    end: &'a Sample,
}

impl<'a> SampleInterval<'a> {
    /// The growth of a value.
    pub(super) fn grown(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        value(self.end) - value(self.begin)
    }

    /// The growth of a number of the engine's account.
    pub(super) fn number(&self, path: &str) -> f64 {
        self.grown(|sample| number(sample, path))
    }

    /// The growth of a number summed over all levels.
    pub(super) fn levels(&self, array: &str, path: &str) -> f64 {
        self.grown(|sample| over_levels(sample, array, path))
    }

    /// The length in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.end.seconds - self.begin.seconds
    }

    /// The mean time of a part of GETs.
    pub(super) fn get_part(&self, part: &str) -> Option<f64> {
        let sum = |sample: &Sample| {
            operation(sample, "get ok").parts_ns.get(part).copied().unwrap_or(0.0)
        };
        let count = |sample: &Sample| operation(sample, "get ok").count as f64;
        ratio(self.grown(sum), self.grown(count))
    }

    /// The mean of a sampled time.
    pub(super) fn sampled(&self, path: &str) -> Option<f64> {
        ratio(self.number(&format!("{path}/sum_ns")), self.number(&format!("{path}/samples")))
    }

    /// Divides the samples into stretches of equal numbers of samples; their number is at least
    /// `stretches` if there are enough samples, and less than twice as many.
    pub(super) fn cut(samples: &[&'a Sample], stretches: usize) -> Vec<SampleInterval<'a>> {
        let step = samples.len().saturating_sub(1) / stretches;
        let step = step.max(1);
        let borders: Vec<&Sample> = samples.iter().copied().step_by(step).collect();
        borders.windows(2).map(|pair| SampleInterval { begin: pair[0], end: pair[1] }).collect()
    }
}
