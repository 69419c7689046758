//! A run over time: intervals of equal length, each with its answers, errors, backlog, and a small
//! histogram of response times.
//!
//! One histogram for a whole run does not show when something happened, and a full histogram for
//! every interval would not stay in the processor's caches. The small histograms distinguish values
//! to 1.6 %, take ten kilobytes while they are written to, and shrink to the values that occurred
//! when their interval is over. The number of intervals is bounded: when they run out, neighbours
//! are merged, and all become twice as long.

use hdrhistogram::Histogram;

use crate::histograms::time_histogram;

/// The largest number of intervals of a run.
pub const MAX_INTERVALS: usize = 480;
/// The length of an interval; it is doubled for a run that would have too many of them.
const SHORTEST_INTERVAL_NS: u64 = 100_000_000;
/// The binary logarithm of the number of buckets for each doubling of a value.
const BUCKETS_PER_DOUBLING_LOG2: u32 = 6;
/// The binary logarithm of the largest value, which is 19 hours; larger values are counted as it.
const LARGEST_LOG2: u32 = 46;
const BUCKETS: usize =
    ((LARGEST_LOG2 - BUCKETS_PER_DOUBLING_LOG2 + 1) as usize) << BUCKETS_PER_DOUBLING_LOG2;

/// An interval of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The begin of the interval, since the start of the run.
    pub begin_ns: u64,
    /// The length of the interval.
    pub length_ns: u64,
    /// Requests that were answered within it.
    pub answered: u64,
    /// Errors of all kinds within it.
    pub errors: u64,
    /// The backlog at the end of the interval: requests that were due and not sent, because every
    /// connection was busy or the generator was behind.
    pub backlog: u64,
    /// The response times of the interval in nanoseconds (the middle of a bucket, within 0.8 %),
    /// with their counts.
    pub response_times: Vec<(u64, u64)>,
}

impl Interval {
    /// The response times as a histogram.
    #[must_use]
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = time_histogram();
        for (time_ns, count) in &self.response_times {
            histogram.saturating_record_n(*time_ns, *count);
        }
        histogram
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    let value = value.min((1 << LARGEST_LOG2) - 1);
    let power = 63 - (value | 1).leading_zeros();
    let Some(shift) = power.checked_sub(BUCKETS_PER_DOUBLING_LOG2) else { return value as usize };
    ((shift as usize) << BUCKETS_PER_DOUBLING_LOG2) + (value >> shift) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let Some(shift) = (bucket >> BUCKETS_PER_DOUBLING_LOG2).checked_sub(1) else {
        return bucket as u64;
    };
    let base = (bucket - (shift << BUCKETS_PER_DOUBLING_LOG2)) as u64;
    (base << shift) + (1_u64 << shift) / 2
}

/// An interval that is over.
#[derive(Clone, Debug, Default)]
struct Row {
    answered: u64,
    errors: u64,
    backlog: u64,
    /// The buckets that are not empty, ascending, with their counts.
    counts: Vec<(u32, u64)>,
}

impl Row {
    /// Merges the next row in time or, with `beside`, the same row of another thread.
    fn merge(&mut self, other: &Row, beside: bool) {
        self.answered += other.answered;
        self.errors += other.errors;
        self.backlog = if beside { self.backlog + other.backlog } else { other.backlog };
        let mut merged = Vec::with_capacity(self.counts.len().max(other.counts.len()));
        let (mut left, mut right) = (self.counts.iter().peekable(), other.counts.iter().peekable());
        loop {
            match (left.peek(), right.peek()) {
                (Some((a, count)), Some((b, more))) if a == b => {
                    merged.push((*a, count + more));
                    left.next();
                    right.next();
                }
                (Some((a, _)), Some((b, _))) if a < b => merged.extend(left.next()),
                (Some(_), None) => merged.extend(left.next()),
                (_, Some(_)) => merged.extend(right.next()),
                (None, None) => break,
            }
        }
        self.counts = merged;
    }
}

/// The intervals of one thread or, after merging, of the run.
#[derive(Debug)]
pub(crate) struct Timeline {
    rows: Vec<Row>,
    interval_ns: u64,
    /// Answers in the current interval, which follows the `rows`.
    answered: u64,
    errors_before: u64,
    backlog: u64,
    /// The time at which the backlog was counted.
    backlog_at_ns: u64,
    live: Box<[u32]>,
    end_ns: u64,
}

impl Timeline {
    /// A timeline for a run of about `expected_ns`; the run may last longer.
    pub(crate) fn new(expected_ns: u64) -> Timeline {
        let mut interval_ns = SHORTEST_INTERVAL_NS;
        while expected_ns / interval_ns >= MAX_INTERVALS as u64 {
            interval_ns *= 2;
        }
        Timeline {
            rows: Vec::with_capacity(MAX_INTERVALS),
            interval_ns,
            answered: 0,
            errors_before: 0,
            backlog: 0,
            backlog_at_ns: 0,
            live: vec![0; BUCKETS].into_boxed_slice(),
            end_ns: interval_ns,
        }
    }

    /// The end of the current interval, in nanoseconds since the start of the run.
    #[inline]
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Counts an answer in the current interval.
    #[inline]
    pub(crate) fn answered(&mut self) {
        self.answered += 1;
    }

    /// Records a response time in the current interval.
    #[inline]
    pub(crate) fn record(&mut self, response_time_ns: u64) {
        self.live[bucket_of(response_time_ns)] += 1;
    }

    /// Sets the number of requests that are due and not sent at `time_ns`, which lies in the
    /// current interval or, if an answer ended the last one late, just before it. An interval keeps
    /// the count that was taken nearest to its end.
    pub(crate) fn set_backlog(&mut self, time_ns: u64, backlog: u64) {
        let last_end_ns = self.end_ns - self.interval_ns;
        let before_ns = last_end_ns.saturating_sub(self.backlog_at_ns);
        let is_nearer = time_ns.saturating_sub(last_end_ns) < before_ns;
        if let Some(last) = self.rows.last_mut().filter(|_| is_nearer) {
            last.backlog = backlog;
        }
        (self.backlog_at_ns, self.backlog) = (time_ns, backlog);
    }

    /// Closes intervals until `time_ns` lies in the current one. `errors` is the number of all
    /// errors of the run so far.
    #[cold]
    pub(crate) fn go_on_to(&mut self, time_ns: u64, errors: u64) {
        while time_ns >= self.end_ns {
            self.close(errors);
            if self.rows.len() == MAX_INTERVALS {
                self.double();
            }
            self.end_ns = (self.rows.len() as u64 + 1) * self.interval_ns;
        }
    }

    fn close(&mut self, errors: u64) {
        let mut counts = Vec::new();
        for (bucket, count) in self.live.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            counts.push((bucket as u32, u64::from(*count)));
            *count = 0;
        }
        self.rows.push(Row {
            answered: std::mem::take(&mut self.answered),
            errors: errors - self.errors_before,
            backlog: self.backlog,
            counts,
        });
        self.errors_before = errors;
    }

    fn double(&mut self) {
        let pairs = self.rows.chunks(2).map(|pair| {
            let mut row = pair[0].clone();
            pair.get(1).inspect(|second| row.merge(second, false));
            row
        });
        let merged: Vec<Row> = pairs.collect();
        self.rows = Vec::with_capacity(MAX_INTERVALS);
        self.rows.extend(merged);
        self.interval_ns *= 2;
    }

    /// Closes the last interval.
    pub(crate) fn finish(&mut self, errors: u64) {
        self.close(errors);
    }

    /// Merges the intervals of another thread of the same run; both are finished.
    pub(crate) fn merge(&mut self, mut other: Timeline) {
        while self.interval_ns < other.interval_ns {
            self.double();
        }
        while other.interval_ns < self.interval_ns {
            other.double();
        }
        if self.rows.len() < other.rows.len() {
            self.rows.resize_with(other.rows.len(), Row::default);
        }
        for (row, other_row) in self.rows.iter_mut().zip(&other.rows) {
            row.merge(other_row, true);
        }
    }

    /// The intervals of a run that lasted for `duration_ns`.
    pub(crate) fn into_intervals(self, duration_ns: u64) -> Vec<Interval> {
        let interval_ns = self.interval_ns;
        let intervals = self.rows.into_iter().enumerate().map(|(index, row)| {
            let begin_ns = index as u64 * interval_ns;
            let times = row.counts.iter();
            Interval {
                begin_ns,
                length_ns: interval_ns.min(duration_ns.saturating_sub(begin_ns)),
                answered: row.answered,
                errors: row.errors,
                backlog: row.backlog,
                response_times: times.map(|(b, count)| (middle_of(*b as usize), *count)).collect(),
            }
        });
        intervals.filter(|interval| interval.length_ns > 0 || interval.answered > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_hold_their_values_to_less_than_a_percent() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        for value in [0, 1, 63, 64, 127, 128, 1_000, 123_456, 1_000_000_007, 1 << 45] {
            let middle = middle_of(bucket_of(value));
            assert!(middle.abs_diff(value) as f64 <= value as f64 * 0.008, "{value} {middle}");
        }
    }

    proptest! {
        #[test]
        fn buckets_rise_with_their_values(value in 0_u64..1 << 46, more in 0_u64..1 << 40) {
            prop_assert!(bucket_of(value) <= bucket_of(value + more));
            prop_assert_eq!(bucket_of(middle_of(bucket_of(value))), bucket_of(value));
        }
    }

    fn note(timeline: &mut Timeline, time_ns: u64, response_time_ns: u64) {
        if time_ns >= timeline.end_ns() {
            timeline.go_on_to(time_ns, 0);
        }
        timeline.answered();
        timeline.record(response_time_ns);
    }

    #[test]
    fn answers_are_counted_in_their_interval() {
        let mut timeline = Timeline::new(1_000_000_000);
        note(&mut timeline, 50_000_000, 10);
        note(&mut timeline, 350_000_000, 20);
        timeline.set_backlog(299_999_999, 5);
        timeline.set_backlog(399_000_000, 7);
        timeline.finish(3);
        let intervals = timeline.into_intervals(400_000_000);
        let answered: Vec<u64> = intervals.iter().map(|interval| interval.answered).collect();
        assert_eq!(answered, [1, 0, 0, 1]);
        assert_eq!(intervals[2].backlog, 5);
        let last = &intervals[3];
        assert_eq!((last.begin_ns, last.errors, last.backlog), (300_000_000, 3, 7));
        assert_eq!(last.response_times, [(20, 1)]);
        assert_eq!(last.histogram().max(), 20);
    }

    #[test]
    fn a_long_run_stays_bounded_and_loses_nothing() {
        let mut timeline = Timeline::new(0);
        for step in 0..10_000 {
            note(&mut timeline, step * 50_000_000, step);
        }
        timeline.finish(0);
        let intervals = timeline.into_intervals(u64::MAX);
        assert!(intervals.len() <= MAX_INTERVALS + 1, "{}", intervals.len());
        assert_eq!(intervals.iter().map(|interval| interval.answered).sum::<u64>(), 10_000);
        let counted = intervals.iter().flat_map(|interval| &interval.response_times);
        assert_eq!(counted.map(|(_, count)| count).sum::<u64>(), 10_000);
    }

    #[test]
    fn intervals_of_threads_are_added() {
        let (mut one, mut two) = (Timeline::new(0), Timeline::new(0));
        note(&mut one, 1, 10);
        one.set_backlog(1, 1);
        note(&mut two, 2, 10);
        note(&mut two, 150_000_000, 12);
        two.set_backlog(150_000_000, 2);
        one.finish(0);
        two.finish(0);
        one.merge(two);
        let intervals = one.into_intervals(200_000_000);
        assert_eq!(intervals[0].response_times, [(10, 2)]);
        assert_eq!((intervals[1].answered, intervals[1].backlog), (1, 2));
    }
}
