//! The number of connections that a client should keep: the same load is run with several numbers
//! of them and compared.
//!
//! With too few connections, requests wait for one while the server is idle, which no server's
//! figures show. With too many, the server turns from one to the other, and its queue grows
//! instead.

use crate::result::LoadResult;
use crate::verdict::{Figures, Verdict, judge};

/// The smallest pool by the rule of the study of connection pools: twice as many connections as the
/// server has cores, and at least this many.
const RULE_LEAST: usize = 32;

/// The share of the best throughput that a sufficient number of connections reaches.
const THROUGHPUT_SHARE: f64 = 0.95;
/// The largest multiple of the best 99th percentile that a sufficient number of connections has,
/// with a rate.
const LATENCY_TIMES: f64 = 1.1;

/// The figures of a run with a number of connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPoint {
    /// The number of connections of the run.
    pub connections: usize,
    /// Answers per second.
    pub answered_per_second: f64,
    /// 99th percentile of the response time, including the waits of requests without an answer at
    /// the end.
    pub response_p99_ns: u64,
    /// 99th percentile of the wait for a connection; 0 in a closed loop.
    pub connection_wait_p99_ns: u64,
    /// Mean wait for a connection.
    pub connection_wait_mean_ns: f64,
    /// Mean response time.
    pub response_mean_ns: f64,
    /// 99th percentile of the service time.
    pub service_p99_ns: u64,
    /// The verdict on the run. A run about errors shows how fast a service refuses, and is never
    /// recommended.
    pub verdict: Verdict,
}

impl SweepPoint {
    /// The point of a run.
    #[must_use]
    pub fn of(result: &LoadResult) -> SweepPoint {
        SweepPoint {
            connections: result.load.connections,
            answered_per_second: result.requests_per_second(),
            response_p99_ns: result.response_time_at_least().value_at_quantile(0.99),
            connection_wait_p99_ns: result.times.connection_wait.value_at_quantile(0.99),
            connection_wait_mean_ns: result.times.connection_wait.mean(),
            response_mean_ns: result.times.response.mean(),
            service_p99_ns: result.times.service.value_at_quantile(0.99),
            verdict: judge(&Figures::of(result)).verdict,
        }
    }

    /// The share of the mean response time that was spent on waiting for a connection.
    #[must_use]
    pub fn connection_wait_share(&self) -> f64 {
        self.connection_wait_mean_ns / self.response_mean_ns.max(1.0)
    }
}

/// The points with a sufficient number of connections, without runs about errors: with nearly the
/// best throughput and, with a rate (`paced`), nearly the best 99th percentile among those.
fn enough(points: &[SweepPoint], paced: bool) -> impl Iterator<Item = &SweepPoint> {
    let counts = |point: &&SweepPoint| point.verdict != Verdict::Errors;
    let rates = points.iter().filter(counts).map(|point| point.answered_per_second);
    let most = rates.fold(0.0, f64::max);
    let able = move |point: &&SweepPoint| {
        counts(point) && point.answered_per_second >= most * THROUGHPUT_SHARE
    };
    let best_p99 = points.iter().filter(able).map(|point| point.response_p99_ns).min();
    let longest = best_p99.unwrap_or(0) as f64 * LATENCY_TIMES;
    points.iter().filter(able).filter(move |p| !paced || p.response_p99_ns as f64 <= longest)
}

/// The recommended number of connections: the smallest one with nearly the best throughput and,
/// with a rate (`paced`), nearly the best 99th percentile. `None` without points that count.
#[must_use]
pub fn recommended(points: &[SweepPoint], paced: bool) -> Option<usize> {
    enough(points, paced).map(|point| point.connections).min()
}

/// The number of connections by the rule, for a server with `server_cores` cores.
#[must_use]
pub fn rule_of_thumb(server_cores: usize) -> usize {
    server_cores.saturating_mul(2).max(RULE_LEAST)
}

/// True if a pool of the rule's size is sufficient by the measure of [`recommended`]; `None` if
/// that number was not tried.
#[must_use]
pub fn rule_holds(points: &[SweepPoint], rule: usize, paced: bool) -> Option<bool> {
    let is_rule = |point: &SweepPoint| point.connections == rule;
    let was_tried = points.iter().any(is_rule);
    was_tried.then(|| enough(points, paced).any(is_rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_holds_if_its_number_is_enough() {
        assert_eq!((rule_of_thumb(2), rule_of_thumb(64)), (32, 128));
        let with = |rule: SweepPoint| {
            [point(1, 4_000.0, 900_000), point(10, 10_000.0, 800), rule, point(100, 9_990.0, 820)]
        };
        assert_eq!(rule_holds(&with(point(32, 9_800.0, 810)), 32, true), Some(true));
        let slow = with(point(32, 9_800.0, 900));
        assert_eq!(rule_holds(&slow, 32, true), Some(false), "its p99 is an eighth above the best");
        assert_eq!(rule_holds(&slow, 32, false), Some(true), "throughput alone counts");
        assert_eq!(rule_holds(&with(point(32, 9_000.0, 700)), 32, true), Some(false));
        assert_eq!(rule_holds(&with(point(33, 9_800.0, 810)), 32, true), None);
    }

    fn point(connections: usize, answered_per_second: f64, response_p99_us: u64) -> SweepPoint {
        SweepPoint {
            connections,
            answered_per_second,
            response_p99_ns: response_p99_us * 1_000,
            connection_wait_p99_ns: 0,
            connection_wait_mean_ns: 25.0,
            response_mean_ns: 100.0,
            service_p99_ns: 0,
            verdict: Verdict::Stable,
        }
    }

    /// A service that refuses is faster than one that works.
    #[test]
    fn runs_about_errors_are_not_recommended() {
        let refused = SweepPoint { verdict: Verdict::Errors, ..point(3, 90_000.0, 100) };
        let points = [point(1, 4_000.0, 900_000), refused, point(10, 10_000.0, 800)];
        assert_eq!(recommended(&points, true), Some(10));
        assert_eq!(rule_holds(&points, 3, true), Some(false));
        assert_eq!(recommended(&[refused], true), None);
    }

    #[test]
    fn the_smallest_number_that_is_enough_is_recommended() {
        let points = [
            point(1, 4_000.0, 900_000),
            point(3, 9_900.0, 9_000),
            point(10, 10_000.0, 800),
            point(32, 10_000.0, 780),
            point(100, 10_000.0, 1_500),
        ];
        assert_eq!(recommended(&points, true), Some(10));
        assert_eq!(recommended(&points, false), Some(3), "a closed loop asks for throughput alone");
        assert_eq!(recommended(&[], true), None);
        assert!((points[0].connection_wait_share() - 0.25).abs() < 1e-9);
    }
}
