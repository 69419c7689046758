//! Slow requests, and the facts that are kept of them.
//!
//! A request is slow if its total is above a high quantile of the recent totals of its operation. A
//! fixed threshold would find nothing on a fast machine and too much on a slow one. The newest slow
//! requests are kept, and the slowest of all requests of the last minutes, each with the background
//! jobs that overlapped it, as far as these are still remembered.

use std::collections::{BTreeMap, VecDeque};

use pellucid_clock::{Clock, Ticks};

use crate::activity::{Activity, Job};
use crate::histogram::bucket_ceiling_ns;
use crate::record::Record;

/// The quantile of an operation's totals above which a request is slow.
pub const SLOW_QUANTILE: f64 = 0.99;
/// The number of requests of an operation from which on one of them can be slow.
pub const SLOW_REQUESTS_MIN: u64 = 100;
/// The decay of the counts per second: the threshold looks back some ten seconds.
const FADING: f64 = 0.9;
/// The count below which a bucket is removed.
const FADED: f64 = 0.01;
/// The number of slow requests kept of each operation: the newest.
pub const CROSSED_KEPT: usize = 128;
/// The number of requests kept of each operation and stretch of time: the slowest.
pub const SLOWEST_KEPT: usize = 16;
/// The length of such a stretch; the previous stretch is kept as well.
const SLOWEST_SECONDS: u64 = 300;
/// The most jobs kept with a request.
pub(crate) const OVERLAPS_KEPT: usize = 16;
/// The most slow requests kept of one drain, so that keeping them costs little when all requests
/// are slow. All are counted.
const CROSSED_PER_DRAIN: usize = 64;

/// A request that is kept, with the jobs beside it.
#[derive(Clone, Debug)]
pub(crate) struct SlowRequest {
    pub(crate) record: Record,
    /// The threshold that it exceeded; none if it was not slow.
    pub(crate) threshold_ns: Option<u64>,
    pub(crate) overlapped: Vec<Job>,
    pub(crate) waited_for: Option<Job>,
}

/// The figures of one operation.
#[derive(Default)]
pub(crate) struct Operation {
    /// The threshold; the maximum until there are enough requests.
    threshold_ticks: u64,
    pub(crate) threshold_ns: Option<u64>,
    /// The decayed counts by bucket of the total.
    recent: BTreeMap<u16, f64>,
    /// The number of requests.
    pub(crate) requests: u64,
    /// The number of slow requests.
    pub(crate) slow: u64,
    pub(crate) crossed: VecDeque<SlowRequest>,
    pub(crate) slowest: Vec<SlowRequest>,
    pub(crate) slowest_before: Vec<SlowRequest>,
    /// The smallest total in `slowest` once that is full; zero before.
    slowest_floor_ticks: u64,
}

impl Operation {
    fn new() -> Operation {
        Operation { threshold_ticks: u64::MAX, ..Operation::default() }
    }

    fn count(&mut self, buckets: &[(u16, u32)]) {
        for (bucket, count) in buckets {
            *self.recent.entry(*bucket).or_insert(0.0) += f64::from(*count);
        }
    }

    fn fade(&mut self, clock: &Clock) {
        let all: f64 = self.recent.values().sum();
        // With too few recent requests, the last threshold stays.
        if all >= SLOW_REQUESTS_MIN as f64 {
            let mut below = 0.0;
            let bucket = self.recent.iter().find(|(_, count)| {
                below += **count;
                below >= all * SLOW_QUANTILE
            });
            let ceiling_ns =
                bucket.map_or(u64::MAX, |(bucket, _)| bucket_ceiling_ns(usize::from(*bucket)));
            self.threshold_ns = Some(ceiling_ns);
            self.threshold_ticks = clock.ticks(ceiling_ns).saturating_add(1);
        }
        self.recent.retain(|_, count| {
            *count *= FADING;
            *count >= FADED
        });
    }

    fn keep_as_slowest(&mut self, kept: SlowRequest) {
        if self.slowest.len() == SLOWEST_KEPT {
            let least = (0..SLOWEST_KEPT)
                .min_by_key(|index| self.slowest[*index].record.total_ticks())
                .unwrap_or(0);
            self.slowest.swap_remove(least);
        }
        self.slowest.push(kept);
        if self.slowest.len() == SLOWEST_KEPT {
            let floor = self.slowest.iter().map(|kept| kept.record.total_ticks()).min();
            self.slowest_floor_ticks = floor.unwrap_or(0);
        }
    }
}

/// The slow requests of all operations.
pub(crate) struct SlowRequests {
    pub(crate) operations: Vec<Operation>,
    crossed_in_drain: usize,
}

impl SlowRequests {
    pub(crate) fn new(operations: usize) -> SlowRequests {
        let operations = (0..operations).map(|_| Operation::new()).collect();
        SlowRequests { operations, crossed_in_drain: 0 }
    }

    pub(crate) fn begin_drain(&mut self) {
        self.crossed_in_drain = 0;
    }

    /// Counts a request, and keeps it if it is slow or among the slowest. True if it was slow.
    #[inline]
    pub(crate) fn see(&mut self, record: &Record, total_ticks: u64, activity: &Activity) -> bool {
        let Some(operation) = self.operations.get_mut(usize::from(record.facts.operation)) else {
            return false;
        };
        operation.requests += 1;
        let is_slow = total_ticks >= operation.threshold_ticks;
        if is_slow {
            operation.slow += 1;
            if self.crossed_in_drain < CROSSED_PER_DRAIN {
                self.crossed_in_drain += 1;
                if operation.crossed.len() == CROSSED_KEPT {
                    operation.crossed.pop_front();
                }
                let kept = keep(record, operation.threshold_ns, activity);
                operation.crossed.push_back(kept);
            }
        }
        if total_ticks > operation.slowest_floor_ticks {
            let threshold_ns = operation.threshold_ns.filter(|_| is_slow);
            operation.keep_as_slowest(keep(record, threshold_ns, activity));
        }
        is_slow
    }

    /// Adds the counts of one operation in a past second, by bucket of the total.
    pub(crate) fn count_second(&mut self, operation: u8, buckets: &[(u16, u32)]) {
        if let Some(operation) = self.operations.get_mut(usize::from(operation)) {
            operation.count(buckets);
        }
    }

    /// Updates the thresholds, after all counts of the past second were added.
    pub(crate) fn close_second(&mut self, second: u64, clock: &Clock) {
        for operation in &mut self.operations {
            operation.fade(clock);
            if second.is_multiple_of(SLOWEST_SECONDS) {
                operation.slowest_before = std::mem::take(&mut operation.slowest);
                operation.slowest_floor_ticks = 0;
            }
        }
    }
}

fn keep(record: &Record, threshold_ns: Option<u64>, activity: &Activity) -> SlowRequest {
    let (from, to): (Ticks, Ticks) = record.span();
    let waited_for = record.waited_for();
    SlowRequest {
        record: *record,
        threshold_ns,
        overlapped: activity.overlapping(from, to, OVERLAPS_KEPT),
        waited_for: if waited_for == 0 { None } else { activity.find(waited_for) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Stamp;
    use crate::record::RequestFacts;
    use crate::timeline::Timeline;
    use pellucid_clock::SimulatedClock;

    fn request(clock: Clock, operation: u8, begun: u64, total: u64) -> Record {
        let mut timeline = Timeline::begin(clock, Ticks(begun));
        timeline.stamp_at(Stamp::Received, Ticks(begun));
        timeline.stamp_at(Stamp::Written, Ticks(begun + total));
        Record::of(&timeline, RequestFacts { operation, ..RequestFacts::default() })
    }

    #[test]
    fn the_threshold_follows_the_requests_of_each_operation() {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let activity = Activity::new(&[]);
        let mut slow = SlowRequests::new(2);
        let see = |slow: &mut SlowRequests, operation, total| {
            slow.see(&request(clock, operation, 0, total), total, &activity)
        };
        assert!(!see(&mut slow, 0, 1 << 40), "nothing is slow before anything is known");
        let bucket = |ns: u64| crate::histogram::bucket_of(ns) as u16;
        slow.count_second(0, &[(bucket(1_000), 99), (bucket(50_000), 1)]);
        slow.count_second(1, &[(bucket(1_000), 99)]);
        slow.close_second(1, &clock);
        assert!(see(&mut slow, 0, 2_000) && !see(&mut slow, 0, 900));
        assert!(!see(&mut slow, 1, 1 << 40), "there are too few of the other");
        // From now on half of them are slower, so that the threshold rises.
        for second in 2..20 {
            slow.count_second(0, &[(bucket(1_000), 50), (bucket(50_000), 50)]);
            slow.close_second(second, &clock);
        }
        assert!(!see(&mut slow, 0, 2_000) && see(&mut slow, 0, 60_000));
        assert_eq!((slow.operations[0].requests, slow.operations[0].slow), (5, 2));
        assert_eq!(slow.operations[0].crossed.len(), 2);
    }

    #[test]
    fn a_limited_number_of_slowest_requests_is_kept_for_two_stretches() {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let activity = Activity::new(&[]);
        let mut slow = SlowRequests::new(1);
        for total in (0..1_000).map(|index| (index * 7_919) % 1_000) {
            slow.see(&request(clock, 0, 0, total * 8), total * 8, &activity);
        }
        let totals = |kept: &[SlowRequest]| {
            let mut totals: Vec<u64> = kept.iter().map(|kept| kept.record.total_ticks()).collect();
            totals.sort_unstable();
            totals
        };
        let expected: Vec<u64> = (1_000 - SLOWEST_KEPT as u64..1_000).map(|n| n * 8).collect();
        assert_eq!(totals(&slow.operations[0].slowest), expected);
        slow.close_second(SLOWEST_SECONDS, &clock);
        assert_eq!(totals(&slow.operations[0].slowest_before), expected);
        assert!(slow.operations[0].slowest.is_empty());
        slow.close_second(SLOWEST_SECONDS * 2, &clock);
        assert!(slow.operations[0].slowest_before.is_empty());
    }

    #[test]
    fn if_all_are_slow_a_drain_keeps_few_and_counts_all() {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let activity = Activity::new(&[]);
        let mut slow = SlowRequests::new(1);
        slow.count_second(0, &[(0, 1_000)]);
        slow.close_second(1, &clock);
        slow.begin_drain();
        for begun in 0..1_000 {
            slow.see(&request(clock, 0, begun, 8_000), 8_000, &activity);
        }
        let operation = &slow.operations[0];
        assert_eq!((operation.slow, operation.crossed.len()), (1_000, CROSSED_PER_DRAIN));
    }
}
