//! How many connections a client should keep: the same load with several numbers of them, and what
//! follows.
//!
//! With too few, requests wait for a connection while the server is idle, which no server's figures
//! show. With too many, the server turns from one to the other and its queue grows instead.

use crate::result::LoadResult;

/// A number of connections is enough if this share of the best throughput is reached,
const THROUGHPUT_SHARE: f64 = 0.95;
/// and, with a rate, if its 99th percentile is at most so many times the best one.
const LATENCY_TIMES: f64 = 1.1;

/// What a run with a number of connections came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPoint {
    /// Connections of the run.
    pub connections: usize,
    /// Answers per second.
    pub answered_per_second: f64,
    /// 99th percentile of the response time.
    pub response_p99_ns: u64,
    /// 99th percentile of the wait for a connection; 0 in a closed loop.
    pub connection_wait_p99_ns: u64,
    /// Mean wait for a connection.
    pub connection_wait_mean_ns: f64,
    /// Mean response time.
    pub response_mean_ns: f64,
    /// 99th percentile of the service time.
    pub service_p99_ns: u64,
}

impl SweepPoint {
    /// The point of a run.
    #[must_use]
    pub fn of(result: &LoadResult) -> SweepPoint {
        SweepPoint {
            connections: result.connections,
            answered_per_second: result.requests_per_second(),
            response_p99_ns: result.response_time.value_at_quantile(0.99),
            connection_wait_p99_ns: result.connection_wait.value_at_quantile(0.99),
            connection_wait_mean_ns: result.connection_wait.mean(),
            response_mean_ns: result.response_time.mean(),
            service_p99_ns: result.service_time.value_at_quantile(0.99),
        }
    }

    /// The share of the mean response time that was spent on waiting for a connection.
    #[must_use]
    pub fn connection_wait_share(&self) -> f64 {
        self.connection_wait_mean_ns / self.response_mean_ns.max(1.0)
    }
}

/// The number of connections that is enough: the smallest that reaches nearly the best throughput
/// and, with a rate (`paced`), nearly the best 99th percentile. None without points.
#[must_use]
pub fn recommended(points: &[SweepPoint], paced: bool) -> Option<usize> {
    let most = points.iter().map(|point| point.answered_per_second).fold(0.0, f64::max);
    let able = |point: &&SweepPoint| point.answered_per_second >= most * THROUGHPUT_SHARE;
    let best_p99 = points.iter().filter(able).map(|point| point.response_p99_ns).min()?;
    let quick = |point: &&SweepPoint| {
        !paced || point.response_p99_ns as f64 <= best_p99 as f64 * LATENCY_TIMES
    };
    points.iter().filter(able).filter(quick).map(|point| point.connections).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(connections: usize, answered_per_second: f64, response_p99_us: u64) -> SweepPoint {
        SweepPoint {
            connections,
            answered_per_second,
            response_p99_ns: response_p99_us * 1_000,
            connection_wait_p99_ns: 0,
            connection_wait_mean_ns: 25.0,
            response_mean_ns: 100.0,
            service_p99_ns: 0,
        }
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
