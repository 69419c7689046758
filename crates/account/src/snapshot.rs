//! Snapshots of the account: plain data, the same for JSON, metrics and reports.

use pellucid_clock::Clock;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::phase::PHASES;
use crate::series::PeriodCounts;
use crate::shape::{LOOP_WAIT, PARTS, Shape, TOTAL, TRANSPORT};
use crate::transport::{TRANSPORT_PARTS, TransportPart};
use crate::work::EngineWork;

/// The name of the schema of [`Snapshot`] as JSON.
pub const SCHEMA: &str = "pellucid.account.v1";

/// The quantiles around which the mean phases of requests are shown.
pub const AROUND_QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// The account of all requests within a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The name of the schema: [`SCHEMA`].
    pub schema: String,
    /// `off`, `ring` or `full`; the histograms are empty unless it is `full`.
    pub accounting: String,
    /// The length of the window: the requested one, or the time since the start if that is shorter.
    pub window_seconds: f64,
    /// The clock of the readings.
    pub clock: ClockFacts,
    /// Records that were overwritten before they could be counted.
    pub records_lost: u64,
    /// One entry per operation and outcome that occurred.
    pub operations: Vec<OperationAccount>,
}

/// The clock from which the figures come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// The source: `tsc`, `monotonic` or `simulated`.
    pub source: String,
    /// The calibrated rate of the clock.
    pub ticks_per_second: u64,
}

/// The account of one operation with one outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationAccount {
    /// The operation's name, such as `entity_get`.
    pub operation: String,
    /// The outcome's name, such as `ok` or `missing`.
    pub outcome: String,
    /// The number of requests.
    pub count: u64,
    /// The time from received to written.
    pub total: Distribution,
    /// The phases, `receive` first, `unaccounted` last. All but `receive` add up to the total.
    pub phases: Vec<NamedDistribution>,
    /// The part of `receive` before the event loop turned to the connection.
    pub loop_wait: Distribution,
    /// The parts of other phases that occurred, measured by the transport ([`TransportPart`]):
    /// `decrypt` of `receive`, `compress` of `encode`, `encrypt` of `write`. Each counts only the
    /// requests in which it occurred.
    #[serde(default)]
    pub transport_parts: Vec<NamedDistribution>,
    /// The parts of `execute` that occurred, in the store's terms; each counts only the requests in
    /// which it occurred.
    pub parts: Vec<NamedDistribution>,
    /// The mean phases of the requests around certain quantiles of the total.
    pub around: Vec<QuantileBreakdown>,
    /// The store's counts.
    #[serde(default)]
    pub engine: EngineWork,
}

/// The distribution of a named phase or part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedDistribution {
    /// The name of the phase or part.
    pub name: String,
    /// The distribution of its durations.
    #[serde(flatten)]
    pub distribution: Distribution,
}

/// A distribution of durations in nanoseconds. Count, sum, mean, minimum and maximum are exact, and
/// quantiles are within 0.8 %. For `loop_wait` and the parts of the transport, all except the count
/// have an additional error of 0.05 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of durations.
    pub count: u64,
    /// The sum. Unlike the product of mean and count, it never falls as durations are added.
    #[serde(default)]
    pub sum_ns: u64,
    /// The minimum.
    pub min_ns: u64,
    /// The first quartile.
    pub q1_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The third quartile.
    pub q3_ns: u64,
    /// The maximum.
    pub max_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    #[serde(rename = "p99.9_ns")]
    pub p99_9_ns: u64,
    /// The 99.99th percentile.
    #[serde(rename = "p99.99_ns")]
    pub p99_99_ns: u64,
    /// A logarithmic histogram: the lowest value of each power of two that occurred, and its count.
    pub log2: Vec<(u64, u64)>,
    /// The fine buckets: lowest value, highest value, count. Only the total has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<(u64, u64, u64)>,
}

/// The mean phases and parts of the requests around one quantile of the total. Means add up and
/// quantiles do not, so these may be stacked in a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantileBreakdown {
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// The number of these requests.
    pub count: u64,
    /// The mean of their totals.
    pub total_mean_ns: f64,
    /// The phases within the total, with their shares of it.
    pub phases: Vec<Share>,
    /// The mean of `receive`, which precedes the total.
    pub receive_mean_ns: f64,
    /// The transport's parts of other phases, with their shares of the total. `decrypt` precedes
    /// the total, so its share is only a ratio.
    #[serde(default)]
    pub transport_parts: Vec<Share>,
    /// The parts of `execute`, with their shares of the total.
    pub parts: Vec<Share>,
}

/// A share of the total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The name of the phase or part.
    pub name: String,
    /// The mean duration.
    pub mean_ns: f64,
    /// The share of the total, 0 to 1.
    pub share: f64,
}

impl ClockFacts {
    /// The facts of `clock`.
    #[must_use]
    pub fn of(clock: &Clock) -> ClockFacts {
        let source = clock.source().name().to_owned();
        ClockFacts { source, ticks_per_second: clock.ticks_per_second() }
    }
}

impl OperationAccount {
    /// The transport's part of the phase of this name, if there is one and it occurred.
    #[must_use]
    pub fn transport_part_of(&self, phase: &str) -> Option<&NamedDistribution> {
        let part = TransportPart::of_named(phase)?;
        self.transport_parts.iter().find(|named| named.name == part.name())
    }
}

impl QuantileBreakdown {
    /// The transport's part of the phase of this name, if there is one and it occurred.
    #[must_use]
    pub fn transport_part_of(&self, phase: &str) -> Option<&Share> {
        let part = TransportPart::of_named(phase)?;
        self.transport_parts.iter().find(|share| share.name == part.name())
    }
}

impl Distribution {
    pub(crate) fn of(histogram: &Histogram) -> Distribution {
        if histogram.count == 0 {
            return Distribution::default();
        }
        let quantile = |quantile: f64| histogram.quantile_ns(quantile);
        Distribution {
            count: histogram.count,
            sum_ns: histogram.sum_ns,
            min_ns: histogram.min_ns,
            q1_ns: quantile(0.25),
            mean_ns: histogram.sum_ns as f64 / histogram.count as f64,
            q3_ns: quantile(0.75),
            max_ns: histogram.max_ns,
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p99_9_ns: quantile(0.999),
            p99_99_ns: quantile(0.9999),
            log2: log2_of(histogram),
            buckets: Vec::new(),
        }
    }
}

fn log2_of(histogram: &Histogram) -> Vec<(u64, u64)> {
    let mut rows: Vec<(u64, u64)> = Vec::new();
    for (floor_ns, _, count) in histogram.filled() {
        let power_ns = if floor_ns == 0 { 0 } else { 1 << (63 - floor_ns.leading_zeros()) };
        match rows.last_mut() {
            Some((last_ns, sum)) if *last_ns == power_ns => *sum += count,
            _ => rows.push((power_ns, count)),
        }
    }
    rows
}

/// The account of one series. `part_names` names the slots in use.
pub(crate) fn operation_account(
    operation: &str,
    outcome: &str,
    part_names: &[&str],
    tally: &PeriodCounts,
) -> OperationAccount {
    let named = |name: &str, measure: usize| NamedDistribution {
        name: name.to_owned(),
        distribution: Distribution::of(&tally.measures[measure]),
    };
    let parts = part_names.iter().enumerate();
    let parts = parts.map(|(slot, name)| named(name, PARTS + slot));
    let mut total = Distribution::of(&tally.measures[TOTAL]);
    total.buckets = tally.measures[TOTAL].filled().collect();
    OperationAccount {
        operation: operation.to_owned(),
        outcome: outcome.to_owned(),
        count: tally.measures[TOTAL].count,
        total,
        phases: PHASES.iter().map(|phase| named(phase.name(), *phase as usize)).collect(),
        loop_wait: Distribution::of(&tally.measures[LOOP_WAIT]),
        transport_parts: TRANSPORT_PARTS
            .iter()
            .map(|part| named(part.name(), TRANSPORT + *part as usize))
            .filter(|part| part.distribution.count > 0)
            .collect(),
        parts: parts.filter(|part| part.distribution.count > 0).collect(),
        around: AROUND_QUANTILES.iter().map(|q| around(*q, part_names, tally)).collect(),
        engine: tally.work.describe(),
    }
}

/// The mean phases of the requests around `quantile`: on either side those within half the distance
/// from the quantile to 1, and at most 1 % of all.
fn around(quantile: f64, part_names: &[&str], tally: &PeriodCounts) -> QuantileBreakdown {
    let reach = ((1.0 - quantile) / 2.0).min(0.01);
    let shape = tally.shape_between(quantile - reach, quantile + reach);
    let phases = PHASES.iter().skip(1).map(|phase| (phase.name(), *phase as usize));
    let parts = part_names.iter().enumerate().map(|(slot, name)| (*name, PARTS + slot));
    QuantileBreakdown {
        quantile,
        count: shape.count,
        total_mean_ns: mean_ns(&shape, TOTAL),
        phases: phases.map(|(name, measure)| share(&shape, name, measure)).collect(),
        receive_mean_ns: mean_ns(&shape, 0),
        transport_parts: TRANSPORT_PARTS
            .iter()
            .map(|part| (part.name(), TRANSPORT + *part as usize))
            .filter(|(_, measure)| shape.sums[*measure] > 0)
            .map(|(name, measure)| share(&shape, name, measure))
            .collect(),
        parts: parts
            .filter(|(_, measure)| shape.sums[*measure] > 0)
            .map(|(name, measure)| share(&shape, name, measure))
            .collect(),
    }
}

fn mean_ns(shape: &Shape, measure: usize) -> f64 {
    shape.sums[measure] as f64 / shape.count.max(1) as f64
}

fn share(shape: &Shape, name: &str, measure: usize) -> Share {
    Share {
        name: name.to_owned(),
        mean_ns: mean_ns(shape, measure),
        share: shape.sums[measure] as f64 / (shape.sums[TOTAL].max(1)) as f64,
    }
}
