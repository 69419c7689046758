//! The rate and the number of connections over a run: stages, each of which holds its values or
//! ramps to them.

use std::time::Duration;

use serde::Deserialize;

use crate::units::deserialize_duration;

/// A stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The length of the stage.
    #[serde(deserialize_with = "deserialize_duration")]
    pub duration: Duration,
    /// Requests per second over all connections; `None` is a closed loop.
    #[serde(rename = "rate")]
    pub rate_per_second: Option<u64>,
    /// True if rate and connections change evenly from those of the previous stage; otherwise, they
    /// are constant from the begin of the stage. Before the first stage, both are 0.
    #[serde(default)]
    pub ramp: bool,
    /// The number of connections in use, at least one for each thread and at most that of the run;
    /// `None` is all of them.
    pub connections: Option<usize>,
}

/// A stage in the form that the schedule needs.
#[derive(Clone, Copy, Debug)]
struct Segment {
    begin_ns: f64,
    length_ns: f64,
    rate_from: f64,
    rate_to: f64,
    /// The number of requests with an intended start before it.
    count_before: f64,
    connections_from: f64,
    connections_to: f64,
}

/// The rate over a whole run and, as its integral, the number of requests with an intended start by
/// a time.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    segments: Vec<Segment>,
}

const NS_PER_SECOND: f64 = 1e9;

impl Profile {
    /// The profile of stages; there must be at least one.
    pub(crate) fn new(stages: &[Stage], connections: usize) -> Profile {
        let mut segments = Vec::with_capacity(stages.len());
        let (mut begin_ns, mut count_before) = (0.0, 0.0);
        let (mut rate, mut open) = (0.0, 0.0);
        for stage in stages {
            let rate_to = stage.rate_per_second.unwrap_or(0) as f64;
            let open_to = stage.connections.unwrap_or(connections).min(connections) as f64;
            let (rate_from, connections_from) =
                if stage.ramp { (rate, open) } else { (rate_to, open_to) };
            let length_ns = stage.duration.as_nanos() as f64;
            segments.push(Segment {
                begin_ns,
                length_ns,
                rate_from,
                rate_to,
                count_before,
                connections_from,
                connections_to: open_to,
            });
            begin_ns += length_ns;
            count_before += length_ns / NS_PER_SECOND * f64::midpoint(rate_from, rate_to);
            (rate, open) = (rate_to, open_to);
        }
        Profile { segments }
    }

    /// A rate that is held for as long as the run lasts.
    pub(crate) fn constant(rate_per_second: u64, connections: usize) -> Profile {
        let (duration, rate) = (Duration::MAX, Some(rate_per_second));
        let stage = Stage { duration, rate_per_second: rate, ramp: false, connections: None };
        Profile::new(&[stage], connections)
    }

    /// The time by which `count` requests have their intended start, in nanoseconds since the start
    /// of the run; infinity if that many never do.
    pub(crate) fn time_of_ns(&self, count: f64) -> f64 {
        let index = self.segments.partition_point(|segment| segment.count_before <= count);
        let Some(segment) = index.checked_sub(1).map(|index| &self.segments[index]) else {
            return 0.0;
        };
        segment.begin_ns + segment.time_of_ns(count - segment.count_before)
    }

    /// The number of requests with an intended start by a time.
    pub(crate) fn count_at(&self, time_ns: f64) -> f64 {
        let segment = self.segment_at(time_ns);
        let within_ns = (time_ns - segment.begin_ns).clamp(0.0, segment.length_ns);
        let seconds = within_ns / NS_PER_SECOND;
        let rate_then = segment.rate_from + segment.slope() * within_ns;
        segment.count_before + seconds * f64::midpoint(segment.rate_from, rate_then)
    }

    /// The number of connections in use at a time.
    pub(crate) fn connections_at(&self, time_ns: f64) -> usize {
        let segment = self.segment_at(time_ns);
        let within = ((time_ns - segment.begin_ns) / segment.length_ns).clamp(0.0, 1.0);
        let within = if within.is_finite() { within } else { 1.0 };
        let open =
            segment.connections_from + (segment.connections_to - segment.connections_from) * within;
        open.round() as usize
    }

    fn segment_at(&self, time_ns: f64) -> &Segment {
        let index = self.segments.partition_point(|segment| segment.begin_ns <= time_ns);
        &self.segments[index.saturating_sub(1)]
    }
}

impl Segment {
    /// The change of the rate in a nanosecond, in requests per second.
    fn slope(&self) -> f64 {
        (self.rate_to - self.rate_from) / self.length_ns
    }

    /// The time at which `count` requests of this stage have started: the root of
    /// `rate_from × t + slope × t² / 2 = count`, in the form that loses no digits at small slopes.
    fn time_of_ns(&self, count: f64) -> f64 {
        if count <= 0.0 && self.rate_from > 0.0 {
            return 0.0;
        }
        let wanted = count.max(0.0) * NS_PER_SECOND;
        let root = (self.rate_from.powi(2) + 2.0 * self.slope() * wanted).max(0.0).sqrt();
        let time_ns = 2.0 * wanted / (self.rate_from + root);
        // No request follows at the end of a ramp down to zero, or in a stage with rate zero.
        if time_ns.is_nan() {
            if self.rate_to > 0.0 { 0.0 } else { f64::INFINITY }
        } else {
            time_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stage(seconds: u64, rate: u64, ramp: bool, connections: Option<usize>) -> Stage {
        let duration = Duration::from_secs(seconds);
        Stage { duration, rate_per_second: Some(rate), ramp, connections }
    }

    #[test]
    fn a_ramp_sends_half_of_what_its_end_would() {
        let stages = [stage(10, 100, true, None), stage(10, 100, false, None)];
        let profile = Profile::new(&stages, 4);
        assert!((profile.count_at(10e9) - 500.0).abs() < 1e-6);
        assert!((profile.count_at(20e9) - 1_500.0).abs() < 1e-6);
        // By half of the ramp's time, a quarter of its requests have started.
        assert!((profile.time_of_ns(125.0) - 5e9).abs() < 1.0);
        assert!((profile.time_of_ns(501.0) - 10.01e9).abs() < 1.0);
    }

    #[test]
    fn connections_follow_their_stages() {
        let stages = [stage(10, 1, true, Some(10)), stage(10, 1, false, Some(3))];
        let profile = Profile::new(&stages, 100);
        let open: Vec<usize> =
            [0.0, 5e9, 9.9e9, 10e9, 25e9].map(|ns| profile.connections_at(ns)).to_vec();
        assert_eq!(open, [0, 5, 10, 3, 3]);
    }

    #[test]
    fn a_stage_without_requests_delays_the_next_one() {
        let stages =
            [stage(1, 10, false, None), stage(5, 0, false, None), stage(1, 10, false, None)];
        let profile = Profile::new(&stages, 1);
        assert!((profile.time_of_ns(9.0) - 0.9e9).abs() < 1.0);
        assert!((profile.time_of_ns(11.0) - 6.1e9).abs() < 1.0);
    }

    proptest! {
        #[test]
        fn times_and_counts_are_inverse(
            rates in proptest::collection::vec((1_u64..100_000, 1_u64..20, any::<bool>()), 1..6),
            share in 0.001_f64..0.999,
        ) {
            let stages = rates.iter().map(|(rate, s, ramp)| stage(*s, *rate, *ramp, None));
            let stages: Vec<Stage> = stages.collect();
            let profile = Profile::new(&stages, 1);
            let whole_ns: f64 = rates.iter().map(|(_, seconds, _)| *seconds as f64 * 1e9).sum();
            let time_ns = whole_ns * share;
            let count = profile.count_at(time_ns);
            let back_ns = profile.time_of_ns(count);
            let again = profile.count_at(back_ns);
            prop_assert!((again - count).abs() < 1e-3, "{} {}", time_ns, back_ns);
        }
    }
}
