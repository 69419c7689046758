//! Converts samples to series. The figures of an interval are the difference of the samples at its
//! ends, so longer intervals lose no counts.

use serde_json::Value;

use super::sample::{OperationSums, Sample};

/// The most intervals of a chart over time, apart from a shorter last one.
const INTERVALS_MAX: usize = 90;

/// The levels of the ledger that charts show; deeper levels have no tables in any run.
pub(super) const LEVELS: usize = 7;

/// The values of a series.
pub(super) type Values = Vec<Option<f64>>;

/// The samples at the ends of a chart's intervals.
pub(super) struct SampleSeries<'a> {
    samples: Vec<&'a Sample>,
}

/// A number of the engine's account; 0 if there is none.
pub(super) fn number(sample: &Sample, path: &str) -> f64 {
    sample.engine.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

/// The sum of a number over the levels of an array of the engine's account.
pub(super) fn over_levels(sample: &Sample, array: &str, path: &str) -> f64 {
    let levels = sample.engine.pointer(array).and_then(Value::as_array);
    let each = levels.into_iter().flatten();
    each.filter_map(|level| level.pointer(path).and_then(Value::as_f64)).sum()
}

/// Bytes of all files of the store.
pub(super) fn store_bytes(sample: &Sample) -> f64 {
    number(sample, "/state/journal_bytes") + over_levels(sample, "/state/levels", "/size_bytes")
}

/// The time of a stage over all jobs.
pub(super) fn stage_ns(sample: &Sample, stage: &str) -> f64 {
    number(sample, &format!("/background/flush/stages/{stage}"))
        + over_levels(sample, "/background/compactions", &format!("/stages/{stage}"))
}

/// The processor time of the threads whose names begin with `begins`.
pub(super) fn processor_ns(sample: &Sample, begins: &str) -> f64 {
    let threads = sample.process.processor_ns.iter();
    threads.filter(|(name, _)| name.starts_with(begins)).map(|(_, ns)| *ns as f64).sum()
}

/// The sums of an operation with an outcome; zeros if it never occurred.
pub(super) fn operation(sample: &Sample, name: &str) -> OperationSums {
    sample.operations.get(name).cloned().unwrap_or_default()
}

/// The places where look-ups end: titles, and names in the engine's account.
pub(super) fn places() -> Vec<(String, String)> {
    let levels = (0..LEVELS).map(|level| (format!("level {level}"), format!("level_{level}")));
    let first = [("missing", "missing"), ("memtable", "memtable")];
    first.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).chain(levels).collect()
}

/// Divides one quantity by another; `None` if that is zero.
pub(super) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then_some(part / whole)
}

impl<'a> SampleSeries<'a> {
    /// Makes a track of samples, which must be in order of time.
    pub(super) fn new(samples: &'a [Sample]) -> SampleSeries<'a> {
        let step = samples.len().saturating_sub(1).div_ceil(INTERVALS_MAX).max(1);
        let mut chosen: Vec<&Sample> = samples.iter().step_by(step).collect();
        // The last interval may be shorter than the others, but not empty.
        if let (Some(last), Some(chosen_last)) = (samples.last(), chosen.last())
            && last.seconds > chosen_last.seconds + 0.1
        {
            chosen.push(last);
        }
        SampleSeries { samples: chosen }
    }

    /// The first sample and the last.
    pub(super) fn ends(&self) -> Option<(&'a Sample, &'a Sample)> {
        Some((self.samples.first()?, self.samples.last()?))
    }

    pub(super) fn samples(&self) -> &[&'a Sample] {
        &self.samples
    }

    /// The end of each interval.
    pub(super) fn seconds(&self) -> Vec<f64> {
        self.samples.iter().skip(1).map(|sample| sample.seconds).collect()
    }

    fn each(&self, value: impl Fn(&Sample, &Sample) -> Option<f64>) -> Values {
        self.samples.windows(2).map(|pair| value(pair[0], pair[1])).collect()
    }

    /// The growth of a counter per second, for each interval.
    pub(super) fn rate(&self, counter: impl Fn(&Sample) -> f64) -> Values {
        self.each(|before, after| {
            ratio((counter(after) - counter(before)).max(0.0), after.seconds - before.seconds)
        })
    }

    /// The growth of `sum` divided by that of `count`, for each interval.
    pub(super) fn mean(
        &self,
        sum: impl Fn(&Sample) -> f64,
        count: impl Fn(&Sample) -> f64,
    ) -> Values {
        self.each(|before, after| {
            ratio((sum(after) - sum(before)).max(0.0), count(after) - count(before))
        })
    }

    /// The mean of a sampled time of the engine's account, for each interval.
    pub(super) fn sampled(&self, path: &str) -> Values {
        let (sum, samples) = (format!("{path}/sum_ns"), format!("{path}/samples"));
        self.mean(|sample| number(sample, &sum), |sample| number(sample, &samples))
    }

    /// The value at the end of each interval.
    pub(super) fn state(&self, value: impl Fn(&Sample) -> Option<f64>) -> Values {
        self.samples.iter().skip(1).map(|sample| value(sample)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn samples(count: usize) -> Vec<Sample> {
        let sample = |second: usize| Sample {
            seconds: second as f64,
            engine: json!({
                "a": second * second,
                "t": { "samples": second / 2, "sum_ns": second * 10 },
                "levels": [{ "b": 1 }, { "b": second }],
            }),
            ..Sample::default()
        };
        (0..count).map(sample).collect()
    }

    #[test]
    fn values_are_differences() {
        let samples = samples(4);
        let track = SampleSeries::new(&samples);
        assert_eq!(track.seconds(), [1.0, 2.0, 3.0]);
        let rate = track.rate(|sample| number(sample, "/a"));
        assert_eq!(rate, [Some(1.0), Some(3.0), Some(5.0)]);
        assert_eq!(track.sampled("/t"), [None, Some(10.0), None], "a mean of nothing is none");
        let levels = track.state(|sample| Some(over_levels(sample, "/levels", "/b")));
        assert_eq!(levels, [Some(2.0), Some(3.0), Some(4.0)]);
        assert_eq!(number(&samples[1], "/nowhere"), 0.0);
    }

    #[test]
    fn long_runs_have_longer_intervals_and_lose_nothing() {
        let samples = samples(1_000);
        let track = SampleSeries::new(&samples);
        assert!(track.seconds().len() <= INTERVALS_MAX + 1);
        assert_eq!(track.seconds().last(), Some(&999.0));
        let rates = track.rate(|sample| number(sample, "/a"));
        let ends = [0.0].into_iter().chain(track.seconds());
        let sum: f64 = rates
            .iter()
            .zip(ends.zip(track.seconds()))
            .map(|(rate, (begin, end))| rate.unwrap() * (end - begin))
            .sum();
        assert_eq!(sum.round(), 999.0 * 999.0);
        assert!(
            SampleSeries::new(&[]).ends().is_none()
                && SampleSeries::new(&samples[..1]).seconds().is_empty()
        );
    }
}
