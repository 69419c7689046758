//! The schedule of the intended starts of requests.
//!
//! All threads of a run share one sequence of starts. With constant arrivals, thread t of T takes
//! every T-th start, so that requests go out one by one instead of in volleys. With Poisson
//! arrivals, every thread has its own process, and together they are one. A start belongs to no
//! connection: the next free connection takes it, and if none is free, the wait is part of the
//! response time.
//!
//! A constant rate is kept in ticks with 32 binary digits after the point: after a billion
//! intervals, the sum is still exact to less than a tick.

use std::sync::Arc;

use pellucid_clock::{Clock, Ticks};
use serde::Deserialize;

use crate::stages::Profile;
use crate::wrk2_timers::Pacer;
use pellucid_io::SeededRandom;

/// The seed of Poisson arrivals: the same run has the same starts.
const SEED: u64 = 0x5EED;

/// The spread of the starts of requests over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Starts are at equal distances, as in wrk2.
    #[default]
    Constant,
    /// Starts are random and independent of each other, as those of many users are.
    Poisson,
}

/// The part that all threads' schedules have in common.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) profile: Arc<Profile>,
    /// The rate, if it is the same all the time.
    pub(crate) constant_rate: Option<u64>,
    pub(crate) arrivals: Arrivals,
    pub(crate) pacer: Pacer,
    /// The number of requests in a batch.
    pub(crate) requests_per_send: usize,
    pub(crate) threads: usize,
}

/// The starts of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    clock: Clock,
    start: Ticks,
    plan: Plan,
    next: Ticks,
    hand: SchedulePosition,
}

#[derive(Clone, Debug)]
enum SchedulePosition {
    /// Ticks with 32 binary digits after the point.
    Even { at: u128, step: u128 },
    /// The index of the next start in the sequence of all requests.
    Profile { place: f64, random: Option<SeededRandom> },
}

impl Schedule {
    /// The starts of `thread` in a run that begins at `start`.
    pub(crate) fn new(plan: Plan, thread: usize, clock: Clock, start: Ticks) -> Schedule {
        let per_send = plan.requests_per_send as u128;
        let hand = match (plan.constant_rate, plan.arrivals) {
            (Some(rate), Arrivals::Constant) => {
                let ticks = (u128::from(clock.ticks_per_second()) << 32) * per_send;
                // Rounded up, so that a run does not get one request more than its length allows.
                let step = ticks.div_ceil(u128::from(rate.max(1)));
                let at = (u128::from(start.0) << 32) + step * thread as u128;
                SchedulePosition::Even { at, step: step * plan.threads as u128 }
            }
            (_, Arrivals::Constant) => {
                let place = (thread * plan.requests_per_send) as f64;
                SchedulePosition::Profile { place, random: None }
            }
            (_, Arrivals::Poisson) => {
                let mut random = SeededRandom::of_stream(SEED, thread as u64);
                let place = random.exponential() * stride(&plan);
                SchedulePosition::Profile { place, random: Some(random) }
            }
        };
        let mut schedule = Schedule { clock, start, plan, next: start, hand };
        schedule.look();
        schedule
    }

    /// The next start.
    #[inline]
    pub(crate) fn next(&self) -> Ticks {
        self.next
    }

    /// Moves on to the next start.
    #[inline]
    pub(crate) fn advance(&mut self) {
        match &mut self.hand {
            SchedulePosition::Even { at, step } => *at += *step,
            SchedulePosition::Profile { place, random } => {
                let stride = stride(&self.plan);
                *place += random.as_mut().map_or(stride, |random| random.exponential() * stride);
            }
        }
        self.look();
    }

    #[inline]
    fn look(&mut self) {
        self.next = match &self.hand {
            SchedulePosition::Even { at, .. } => Ticks((at >> 32) as u64),
            SchedulePosition::Profile { place, .. } => {
                let time_ns = self.plan.profile.time_of_ns(*place);
                // A start that never comes is at the last tick.
                if time_ns >= u64::MAX as f64 {
                    Ticks(u64::MAX)
                } else {
                    Ticks(self.start.0.saturating_add(self.clock.ticks(time_ns as u64)))
                }
            }
        };
    }

    /// The number of requests with an intended start from the next one on and before `end`; for a
    /// Poisson process, the expected number.
    pub(crate) fn requests_until(&self, end: Ticks) -> u64 {
        if self.next >= end {
            return 0;
        }
        let sends = match &self.hand {
            SchedulePosition::Even { at, step } => {
                let left = (u128::from(end.0) << 32).saturating_sub(*at);
                u64::try_from(left.div_ceil(*step)).unwrap_or(u64::MAX)
            }
            SchedulePosition::Profile { place, .. } => {
                let elapsed_ns = self.clock.nanoseconds(end.since(self.start));
                let left = self.plan.profile.count_at(elapsed_ns as f64) - place;
                // The next start is due: it counts, whatever the rounding of a fraction gives.
                (left / stride(&self.plan) - 1e-6).ceil().max(1.0) as u64
            }
        };
        sends.saturating_mul(self.plan.requests_per_send as u64)
    }
}

/// The distance in the sequence between two sends of one thread.
fn stride(plan: &Plan) -> f64 {
    (plan.threads * plan.requests_per_send) as f64
}

#[cfg(test)]
mod tests {
    use pellucid_clock::SimulatedClock;

    use super::*;
    use crate::stages::Stage;

    fn clock() -> Clock {
        Clock::simulated(SimulatedClock::leaked(0))
    }

    fn plan(rate: u64, requests_per_send: usize, threads: usize, arrivals: Arrivals) -> Plan {
        let profile = Arc::new(Profile::constant(rate, 1));
        Plan {
            profile,
            constant_rate: Some(rate),
            arrivals,
            pacer: Pacer::Exact,
            requests_per_send,
            threads,
        }
    }

    fn starts(plan: &Plan, thread: usize, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(plan.clone(), thread, clock(), Ticks(0));
        let mut starts = Vec::new();
        for _ in 0..count {
            starts.push(clock().nanoseconds(schedule.next().0));
            schedule.advance();
        }
        starts
    }

    #[test]
    fn starts_are_even_over_all_threads() {
        let plan = plan(1_000, 1, 4, Arrivals::Constant);
        let mut all: Vec<u64> = (0..4).flat_map(|thread| starts(&plan, thread, 3)).collect();
        all.sort_unstable();
        let expected: Vec<u64> = (0..12).map(|n| n * 1_000_000).collect();
        assert!(all.iter().zip(&expected).all(|(at, wished)| at.abs_diff(*wished) <= 1), "{all:?}");
    }

    #[test]
    fn a_million_odd_intervals_do_not_drift() {
        let plan = plan(30_000, 1, 1, Arrivals::Constant);
        let last = *starts(&plan, 0, 1_000_001).last().unwrap();
        let exact = 1_000_000_u64 * 1_000_000_000 / 30_000;
        assert!(last.abs_diff(exact) <= 1, "{last} {exact}");
    }

    #[test]
    fn a_pipelined_batch_takes_the_time_of_its_requests() {
        let schedule = Schedule::new(plan(1_000, 3, 1, Arrivals::Constant), 0, clock(), Ticks(0));
        assert_eq!(starts(&plan(1_000, 3, 1, Arrivals::Constant), 0, 2)[1], 3_000_000);
        assert_eq!(schedule.requests_until(Ticks(clock().ticks(9_000_001))), 12);
    }

    #[test]
    fn starts_before_the_end_are_counted() {
        let schedule = Schedule::new(plan(1_000, 1, 1, Arrivals::Constant), 0, clock(), Ticks(0));
        for (end_ns, count) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(schedule.requests_until(Ticks(clock().ticks(end_ns))), count, "{end_ns}");
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_irregularity_of_many_users() {
        let plan = plan(1_000, 1, 2, Arrivals::Poisson);
        let mut all: Vec<u64> = (0..2).flat_map(|thread| starts(&plan, thread, 20_000)).collect();
        all.sort_unstable();
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.03, "{mean} ms apart");
        assert!((variance - 1.0).abs() < 0.1, "a variance of {variance}");
    }

    #[test]
    fn a_ramp_is_followed_by_all_threads_together() {
        let second = |rate, ramp| Stage {
            duration: std::time::Duration::from_secs(1),
            rate_per_second: Some(rate),
            ramp,
            connections: None,
        };
        let profile = Arc::new(Profile::new(&[second(1_000, true), second(1_000, false)], 1));
        let plan = Plan {
            profile,
            constant_rate: None,
            arrivals: Arrivals::Constant,
            pacer: Pacer::Exact,
            requests_per_send: 1,
            threads: 2,
        };
        let all: Vec<u64> = (0..2).flat_map(|thread| starts(&plan, thread, 750)).collect();
        let within = |ns: u64| all.iter().filter(|at| **at < ns).count();
        assert_eq!(within(1_000_000_000), 500);
        assert!(within(2_000_000_000).abs_diff(1_500) <= 1);
        let end = Ticks(clock().ticks(2_000_000_000));
        let expected = Schedule::new(plan, 0, clock(), Ticks(0)).requests_until(end);
        assert!(expected.abs_diff(750) <= 1, "{expected}");
    }
}
