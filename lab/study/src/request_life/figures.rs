//! The figures of one run: the exact distribution of each phase, from the records of all requests.
//!
//! A server keeps histograms. A study can keep each request, so its quantiles are those of the
//! sorted values.

use pellucid_account::{Distribution, PHASES, Record, TRANSPORT_PARTS};
use pellucid_clock::{Clock, Ticks};
use serde::{Deserialize, Serialize};

/// The most points of the jitter plot of totals: the slowest and the first request of each stretch.
pub(crate) const POINTS_MAX: usize = 4_000;
/// The most points of the jitter plot of each phase; fewer, because a page has many of these plots.
pub(crate) const PHASE_POINTS_MAX: usize = 500;

/// The times of one request, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTimes {
    ended: Ticks,
    total_ns: u64,
    loop_wait_ns: u64,
    phases_ns: [u32; PHASES.len()],
    transport_ns: [u32; TRANSPORT_PARTS.len()],
}

impl RequestTimes {
    pub(crate) fn of(record: &Record, clock: &Clock) -> RequestTimes {
        let ns = |ticks: u64| clock.nanoseconds(ticks);
        let narrow = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
        RequestTimes {
            ended: record.span().1,
            total_ns: ns(record.total_ticks()),
            loop_wait_ns: ns(record.loop_wait_ticks()),
            phases_ns: PHASES.map(|phase| narrow(ns(record.phase_ticks(phase)))),
            transport_ns: TRANSPORT_PARTS.map(|part| narrow(ns(record.transport_ticks(part)))),
        }
    }
}

/// The figures of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PhaseFigures {
    pub(crate) name: String,
    pub(crate) distribution: Distribution,
    /// Single requests: their ends, in seconds since that of the first, and their times in the
    /// phase.
    pub(crate) points: Vec<(f64, u64)>,
}

/// The figures of a part of a phase that the transport measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartFigures {
    pub(crate) name: String,
    /// The phase that contains the part.
    pub(crate) phase: String,
    /// The times of all requests, including those without this part.
    pub(crate) distribution: Distribution,
}

/// The server's figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerFigures {
    /// The total, from the request received to the response written.
    pub(crate) total: Distribution,
    /// All phases, `receive` first.
    pub(crate) phases: Vec<PhaseFigures>,
    /// The part of `receive` before the event loop turned to the connection.
    pub(crate) loop_wait: Distribution,
    /// The parts of the transport that occurred.
    pub(crate) transport_parts: Vec<PartFigures>,
    /// Single requests: their ends, in seconds since that of the first, and their totals.
    pub(crate) points: Vec<(f64, u64)>,
    /// The lowest and the highest frequency of the processors seen during the run, in MHz.
    pub(crate) processor_mhz: Option<(f64, f64)>,
    /// The number of requests whose record was overwritten before it was read.
    pub(crate) lost: u64,
}

impl ServerFigures {
    pub(crate) fn of(kept: &[RequestTimes], clock: &Clock) -> ServerFigures {
        let all =
            |value: &dyn Fn(&RequestTimes) -> u64| distribution(kept.iter().map(value).collect());
        let phases = PHASES.iter().enumerate().map(|(index, phase)| {
            let value = |kept: &RequestTimes| u64::from(kept.phases_ns[index]);
            PhaseFigures {
                name: phase.name().to_owned(),
                distribution: all(&value),
                points: points(kept, clock, PHASE_POINTS_MAX, value),
            }
        });
        let parts = TRANSPORT_PARTS.iter().enumerate().map(|(index, part)| PartFigures {
            name: part.name().to_owned(),
            phase: part.phase().name().to_owned(),
            distribution: all(&|kept| u64::from(kept.transport_ns[index])),
        });
        ServerFigures {
            total: all(&|kept| kept.total_ns),
            phases: phases.collect(),
            loop_wait: all(&|kept| kept.loop_wait_ns),
            transport_parts: parts.filter(|part| part.distribution.max_ns > 0).collect(),
            points: points(kept, clock, POINTS_MAX, |kept| kept.total_ns),
            processor_mhz: None,
            lost: 0,
        }
    }

    pub(crate) fn phase(&self, name: &str) -> &Distribution {
        let phase = self.phases.iter().find(|phase| phase.name == name);
        phase.map_or(&self.total, |phase| &phase.distribution)
    }
}

/// Selects at most `points_max` requests in their order; returns the end and the value of each.
fn points(
    kept: &[RequestTimes],
    clock: &Clock,
    points_max: usize,
    value: impl Fn(&RequestTimes) -> u64,
) -> Vec<(f64, u64)> {
    let Some(first) = kept.first() else { return Vec::new() };
    let place = |kept: &RequestTimes| {
        (clock.nanoseconds(kept.ended.since(first.ended)) as f64 / 1e9, value(kept))
    };
    if kept.len() <= points_max {
        return kept.iter().map(place).collect();
    }
    let stretch = kept.len().div_ceil(points_max / 2);
    let mut points = Vec::with_capacity(points_max);
    for stretch in kept.chunks(stretch) {
        let slowest = (0..stretch.len()).max_by_key(|index| value(&stretch[*index])).unwrap_or(0);
        if slowest > 0 {
            points.push(place(&stretch[0]));
        }
        points.push(place(&stretch[slowest]));
    }
    points
}

/// The exact distribution of these values.
pub(crate) fn distribution(mut values: Vec<u64>) -> Distribution {
    values.sort_unstable();
    let (Some(min), Some(max)) = (values.first(), values.last()) else {
        return Distribution::default();
    };
    let quantile = |quantile: f64| {
        let rank = (quantile * values.len() as f64).ceil() as usize;
        values[rank.clamp(1, values.len()) - 1]
    };
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    Distribution {
        count: values.len() as u64,
        min_ns: *min,
        mean_ns: sum as f64 / values.len() as f64,
        max_ns: *max,
        log2: powers(values.iter().map(|value| (*value, 1))),
        ..quantiles(quantile)
    }
}

/// A distribution with only its quantiles set.
pub(crate) fn quantiles(quantile: impl Fn(f64) -> u64) -> Distribution {
    Distribution {
        q1_ns: quantile(0.25),
        q3_ns: quantile(0.75),
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p99_9_ns: quantile(0.999),
        p99_99_ns: quantile(0.9999),
        ..Distribution::default()
    }
}

/// Counts values by the power of two at or below each. The values must be sorted.
pub(crate) fn powers(values: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut log2: Vec<(u64, u64)> = Vec::new();
    for (value, count) in values {
        let power = if value == 0 { 0 } else { 1 << value.ilog2() };
        match log2.last_mut() {
            Some((last, sum)) if *last == power => *sum += count,
            _ => log2.push((power, count)),
        }
    }
    log2
}

/// The lowest and the highest frequency of the processors now, in MHz; `None` if it is not known.
pub(crate) fn processor_mhz() -> Option<(f64, f64)> {
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let lines = facts.lines().filter(|line| line.starts_with("cpu MHz"));
    let values = lines.filter_map(|line| line.split(':').next_back()?.trim().parse::<f64>().ok());
    values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((f64::min(low, value), f64::max(high, value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_exact() {
        let distribution = distribution((1..=1_000).rev().collect());
        assert_eq!(
            (distribution.count, distribution.min_ns, distribution.max_ns),
            (1_000, 1, 1_000)
        );
        assert_eq!((distribution.p50_ns, distribution.p99_9_ns), (500, 999));
        assert!((distribution.mean_ns - 500.5).abs() < 1e-9);
        assert_eq!(distribution.log2.iter().map(|(_, count)| count).sum::<u64>(), 1_000);
        assert_eq!(distribution.log2[1], (2, 2));
        assert_eq!(super::distribution(Vec::new()), Distribution::default());
    }

    #[test]
    fn the_slowest_is_among_the_points_of_the_total_and_of_each_phase() {
        let clock = Clock::monotonic();
        let kept = |index: u64| RequestTimes {
            ended: Ticks(index * 1_000),
            total_ns: if index == 7_777 { 1 << 40 } else { index % 100 },
            loop_wait_ns: 0,
            // A different request is the slowest of each phase.
            phases_ns: std::array::from_fn(|phase| match index {
                _ if index == 10_000 * phase as u64 + 4_321 => 1 << 30,
                _ => (index % 100) as u32,
            }),
            transport_ns: [0, 0, (index % 50) as u32],
        };
        let kept: Vec<RequestTimes> = (0..100_000).map(kept).collect();
        let figures = ServerFigures::of(&kept, &clock);
        let is_in_order = |points: &[(f64, u64)]| points.is_sorted_by(|a, b| a.0 <= b.0);
        let has = |points: &[(f64, u64)], slowest: u64| points.iter().any(|at| at.1 == slowest);
        assert!(figures.points.len() <= POINTS_MAX && is_in_order(&figures.points));
        assert!(has(&figures.points, 1 << 40));
        assert_eq!(figures.phases.len(), PHASES.len());
        assert_eq!(figures.transport_parts.len(), 1, "what never occurred is left out");
        let encrypt = &figures.transport_parts[0];
        assert_eq!((encrypt.name.as_str(), encrypt.phase.as_str()), ("encrypt", "write"));
        assert_eq!(encrypt.distribution.max_ns, 49);
        for phase in &figures.phases {
            assert!(phase.points.len() <= PHASE_POINTS_MAX && is_in_order(&phase.points));
            assert!(phase.points.len() > PHASE_POINTS_MAX / 2, "{}", phase.name);
            assert!(has(&phase.points, 1 << 30), "{}", phase.name);
            assert_eq!(phase.distribution.max_ns, 1 << 30);
        }
    }

    #[test]
    fn a_short_run_has_all_its_points() {
        let kept = |index: u64| RequestTimes {
            ended: Ticks(index),
            total_ns: index,
            loop_wait_ns: 0,
            phases_ns: [index as u32; PHASES.len()],
            transport_ns: [0; TRANSPORT_PARTS.len()],
        };
        let kept: Vec<RequestTimes> = (0..PHASE_POINTS_MAX as u64).map(kept).collect();
        let figures = ServerFigures::of(&kept, &Clock::monotonic());
        assert_eq!(figures.points.len(), kept.len());
        let values = figures.phases[3].points.iter().map(|(_, ns)| *ns);
        assert!(values.eq(0..PHASE_POINTS_MAX as u64));
        assert!(ServerFigures::of(&[], &Clock::monotonic()).phases[0].points.is_empty());
    }
}
