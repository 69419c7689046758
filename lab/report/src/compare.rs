//! The comparison of two runs, with the uncertainty of each difference.
//!
//! Two runs of the same thing never agree, so a difference without its uncertainty says nothing.
//! The uncertainty comes from the runs themselves: each is cut into intervals of time, which are
//! drawn again and again with replacement (block bootstrap, Künsch 1989). Drawing single requests
//! would be wrong: requests close in time are slow together, and the confidence intervals would be
//! far too narrow.

mod bars;
mod bootstrap;

use hdrhistogram::Histogram;

use crate::model::TimelineInterval;
use crate::quantiles::Curve;
use crate::units::{duration, percent, quantile_name, rate};
pub use bars::{Bar, Bars};
use bootstrap::Blocks;
pub use bootstrap::ConfidenceInterval;

/// The quantiles that are compared, dense enough to draw a curve through them: as on the plots of
/// HdrHistogram, each halving of what lies beyond has about as many.
const QUANTILES: [f64; 26] = [
    0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.98,
    0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99999, 1.0,
];
/// Quantiles that differ by less than this are the same.
const SAME_QUANTILE: f64 = 1e-9;
/// A smaller change counts as none, whatever its confidence interval: histograms are not more
/// precise.
const LEAST_CHANGE: f64 = 0.01;
/// The quantiles that the sentence mentions.
const TOLD_QUANTILES: [f64; 2] = [0.5, 0.99];

/// A run that is compared.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    /// The response times, from the intended start to the answer.
    pub response_time: Histogram<u64>,
    /// The run over time. If it is empty, requests are taken to be independent of each other.
    pub timeline: Vec<TimelineInterval>,
    /// Answers per second.
    pub throughput_per_second: f64,
    /// The number of requests that failed divided by that of those that were due; at most one.
    pub error_share: f64,
    /// Names and mean durations of the server's phases, in nanoseconds; empty if not known.
    pub phases: Vec<(String, f64)>,
    /// Names and mean durations of the steps of a request's way around the median, as the client
    /// saw it; compared if one of the servers reports no phases.
    pub steps: Vec<(String, f64)>,
    /// The verdict of the run, if that is known.
    pub verdict: Option<String>,
    /// The reason that the run ended before its time, if it did.
    pub ended_early: Option<String>,
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The confidence interval of the change lies above zero.
    Rose,
    /// The confidence interval of the change lies below zero.
    Fell,
    /// The difference may be chance.
    Same,
}

/// A quantile of both runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileDelta {
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// The value of the first run, in nanoseconds.
    pub before_ns: ConfidenceInterval,
    /// The value of the second run, in nanoseconds.
    pub after_ns: ConfidenceInterval,
    /// The relative change: 0.1 if the second value is a tenth above the first.
    pub change: ConfidenceInterval,
}

impl QuantileDelta {
    /// The direction of the change.
    #[must_use]
    pub fn direction(&self) -> Change {
        match self.change {
            ConfidenceInterval { value, low, .. } if low > 0.0 && value >= LEAST_CHANGE => {
                Change::Rose
            }
            ConfidenceInterval { value, high, .. } if high < 0.0 && value <= -LEAST_CHANGE => {
                Change::Fell
            }
            _ => Change::Same,
        }
    }
}

/// The time that the phases of a comparison divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseSource {
    /// The server's account of its own time.
    Server,
    /// The way of the requests around the median, from the intended start to the whole answer.
    Way,
}

impl PhaseSource {
    /// The name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PhaseSource::Server => "server",
            PhaseSource::Way => "way_around_p50",
        }
    }
}

/// A phase in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseDelta {
    /// The name.
    pub name: String,
    /// The mean of the first run, in nanoseconds.
    pub before_ns: f64,
    /// The mean of the second run, in nanoseconds.
    pub after_ns: f64,
}

/// The difference of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The quantiles for which both runs have enough requests.
    pub quantiles: Vec<QuantileDelta>,
    /// Answers per second, first and second run.
    pub throughput_per_second: (f64, f64),
    /// Shares of errors, first and second run.
    pub error_share: (f64, f64),
    /// Mean response times in nanoseconds, first and second run.
    pub mean_ns: (f64, f64),
    /// Greatest response times in nanoseconds, first and second run.
    pub greatest_ns: (u64, u64),
    /// The phases that both runs have, the one that changed most first.
    pub phases: Vec<PhaseDelta>,
    /// The time that these phases divide.
    pub phases_of: PhaseSource,
    /// The changes, in plain sentences.
    pub sentence: String,
}

/// Compares two runs, at the quantiles of the curve and at those in `asked`. The same two runs
/// always give the same result.
#[must_use]
pub fn compare(before: &ComparedRun, after: &ComparedRun, asked: &[f64]) -> Comparison {
    let resolved = |quantile: &f64| {
        [before, after].iter().all(|run| Curve::Client(&run.response_time).resolves(*quantile))
    };
    let mut quantiles: Vec<f64> = QUANTILES.iter().chain(asked).copied().filter(resolved).collect();
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup_by(|a, b| (*a - *b).abs() < SAME_QUANTILE);
    let quantiles = deltas(before, after, &quantiles);
    let (phases_of, pair) = match before.phases.is_empty() || after.phases.is_empty() {
        true => (PhaseSource::Way, [&before.steps, &after.steps]),
        false => (PhaseSource::Server, [&before.phases, &after.phases]),
    };
    let mut phases: Vec<PhaseDelta> = Vec::new();
    for (name, before_ns) in pair[0] {
        let found = pair[1].iter().find(|(other, _)| other == name);
        phases.extend(found.map(|(_, after_ns)| PhaseDelta {
            name: name.clone(),
            before_ns: *before_ns,
            after_ns: *after_ns,
        }));
    }
    let size = |phase: &PhaseDelta| (phase.after_ns - phase.before_ns).abs();
    phases.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let mut comparison = Comparison {
        quantiles,
        throughput_per_second: (before.throughput_per_second, after.throughput_per_second),
        error_share: (before.error_share, after.error_share),
        mean_ns: (before.response_time.mean(), after.response_time.mean()),
        greatest_ns: (before.response_time.max(), after.response_time.max()),
        phases,
        phases_of,
        sentence: String::new(),
    };
    comparison.sentence = sentence(&comparison, before, after);
    comparison
}

fn deltas(before: &ComparedRun, after: &ComparedRun, quantiles: &[f64]) -> Vec<QuantileDelta> {
    let draw = |run: &ComparedRun, seed| {
        Blocks::of(&run.timeline, &run.response_time).draw(quantiles, seed)
    };
    let (drawn_before, drawn_after) = (draw(before, 1), draw(after, 2));
    let deltas = quantiles.iter().enumerate().map(|(index, quantile)| {
        let exact = |run: &ComparedRun| run.response_time.value_at_quantile(*quantile) as f64;
        let (a, b) = (exact(before), exact(after));
        let (draws_a, draws_b) = (&drawn_before[index], &drawn_after[index]);
        let changes = draws_a.iter().zip(draws_b).map(|(a, b)| b / a.max(1.0) - 1.0);
        QuantileDelta {
            quantile: *quantile,
            before_ns: ConfidenceInterval::around(a, draws_a.clone()),
            after_ns: ConfidenceInterval::around(b, draws_b.clone()),
            change: ConfidenceInterval::around(b / a.max(1.0) - 1.0, changes.collect()),
        }
    });
    deltas.collect()
}

/// The changes in plain sentences.
fn sentence(comparison: &Comparison, before: &ComparedRun, after: &ComparedRun) -> String {
    let mut sentences = Vec::new();
    let spoiled = ["saturated", "machine-limited", "generator-limited", "errors", "stalled"];
    for (name, run) in [("first", before), ("second", after)] {
        let verdict = run.verdict.as_deref().filter(|verdict| spoiled.contains(verdict));
        sentences.extend(verdict.map(|verdict| {
            format!("Beware: the {name} run was {verdict}, so its percentiles say little.")
        }));
        sentences.extend(
            run.ended_early
                .iter()
                .map(|reason| format!("Beware: the {name} run ended before its time ({reason}).")),
        );
    }
    let is_told = |q: &f64| TOLD_QUANTILES.iter().any(|told| (told - q).abs() < SAME_QUANTILE);
    let told = comparison.quantiles.iter().filter(|delta| is_told(&delta.quantile));
    sentences.extend(told.map(quantile_sentence));
    let (a, b) = comparison.throughput_per_second;
    let share = b / a.max(f64::MIN_POSITIVE) - 1.0;
    if share.abs() >= LEAST_CHANGE {
        let way = if share > 0.0 { "rose" } else { "fell" };
        let (a, b, share) = (rate(a), rate(b), percent(share.abs()));
        sentences.push(format!("Throughput {way} by {share}, from {a} to {b} a second."));
    }
    let (a, b) = comparison.error_share;
    if (a - b).abs() > 1e-4 {
        sentences.push(format!("The share of errors went from {} to {}.", percent(a), percent(b)));
    }
    if let Some(phase) = comparison.phases.first() {
        let added_ns = phase.after_ns - phase.before_ns;
        let way = if added_ns > 0.0 { "longer" } else { "shorter" };
        let whole = match comparison.phases_of {
            PhaseSource::Server => "the server's phases",
            PhaseSource::Way => "the steps of a request around p50",
        };
        sentences.push(format!(
            "Of {whole}, '{}' changed most: {} {way} in the mean, {} instead of {}.",
            phase.name,
            duration(added_ns.abs()),
            duration(phase.after_ns),
            duration(phase.before_ns)
        ));
    }
    if sentences.is_empty() {
        sentences.push("The runs have no quantile in common: they are too short.".to_owned());
    }
    sentences.join(" ")
}

fn quantile_sentence(delta: &QuantileDelta) -> String {
    let name = quantile_name(delta.quantile);
    let (a, b) = (duration(delta.before_ns.value), duration(delta.after_ns.value));
    let ConfidenceInterval { value, low, high } = delta.change;
    let band = format!("{:+.1} % to {:+.1} %", low * 100.0, high * 100.0);
    let way = match delta.direction() {
        Change::Rose => "rose",
        Change::Fell => "fell",
        Change::Same => {
            return format!("{name} did not change beyond chance: {a} and {b} ({band}).");
        }
    };
    format!("{name} {way} by {}, from {a} to {b} ({band}).", percent(value.abs()))
}

#[cfg(test)]
mod tests;
