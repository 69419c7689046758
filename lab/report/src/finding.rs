//! Findings: the conclusions of an original study, compared with figures of several runs.
//!
//! One run proves nothing: the next one may say the opposite. So a figure keeps the values of all
//! its runs, and a claim is judged only if the whole confidence interval of their mean is on one
//! side of the bound, with a margin. Otherwise, the claim cannot be judged.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chart::Unit;

/// The smallest number of runs for a judgement: two say nothing about how far a third would be off.
pub const RUNS_MIN: usize = 3;
/// The smallest number of samples for a judgement on a share of a profile: with this many, a share
/// of a half is off by 7 % of the whole in one of twenty profiles.
pub const SAMPLES_MIN: u64 = 200;
/// The distance from a bound, as a share of it, within which there is no judgement: machines change
/// by this much from one day to the next.
const MARGIN: f64 = 0.05;
/// Student's t for two-sided 95 %, by degrees of freedom from 2 on; the last value is used for all
/// greater numbers.
const STUDENT_T: [f64; 14] = [
    4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
    2.131,
];

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The figures agree with the original.
    Confirmed,
    /// The figures contradict the original.
    NotConfirmed,
    /// There are too few runs, or they differ too much.
    CannotBeTold,
    /// The original makes no claim about it.
    NotAsked,
}

impl Judgement {
    /// The judgement of a claim that holds or does not; `None` is a claim that cannot be judged.
    #[must_use]
    pub fn of(holds: Option<bool>) -> Judgement {
        match holds {
            Some(true) => Judgement::Confirmed,
            Some(false) => Judgement::NotConfirmed,
            None => Judgement::CannotBeTold,
        }
    }

    /// The judgement in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Judgement::Confirmed => "confirmed",
            Judgement::NotConfirmed => "not confirmed here",
            Judgement::CannotBeTold => "cannot be told",
            Judgement::NotAsked => "not asked there",
        }
    }
}

/// True if both claims hold, false if one does not, and `None` if that cannot be judged.
#[must_use]
pub fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// True if at least one claim holds, false if none does, and `None` if that cannot be judged.
#[must_use]
pub fn either(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    both(one.map(|holds| !holds), other.map(|holds| !holds)).map(|holds| !holds)
}

/// The source of the values of an [`Estimate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Each run has measured one value.
    Runs,
    /// Each interval of one run has measured one value.
    Stretches,
    /// The value was counted, and another count would give the same.
    Count,
}

/// A figure with the value of each run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The name for people, such as `p99 of PUT`.
    pub name: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The source of the values.
    pub source: Source,
    /// The values.
    pub values: Vec<f64>,
    /// The number of samples behind the values, for shares of a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
}

impl Estimate {
    /// A figure of several runs. Runs without a value are left out.
    #[must_use]
    pub fn of_runs(
        name: impl Into<String>,
        unit: Unit,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Estimate {
        let values = values.into_iter().flatten().filter(|value| value.is_finite());
        let (name, source) = (name.into(), Source::Runs);
        Estimate { name, unit, source, values: values.collect(), samples: None }
    }

    /// A figure that was counted.
    #[must_use]
    pub fn counted(name: impl Into<String>, unit: Unit, value: f64) -> Estimate {
        let mut estimate = Estimate::of_runs(name, unit, [Some(value)]);
        estimate.source = Source::Count;
        estimate
    }

    /// Marks the values as those of intervals of one run.
    #[must_use]
    pub fn in_stretches(mut self) -> Estimate {
        self.source = Source::Stretches;
        self
    }

    /// Sets the number of samples behind the values.
    #[must_use]
    pub fn of_samples(mut self, samples: u64) -> Estimate {
        self.samples = Some(samples);
        self
    }

    /// The median of the values.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            length if length % 2 == 1 => Some(sorted[middle]),
            _ => Some(sorted[middle - 1].midpoint(sorted[middle])),
        }
    }

    /// The least and the greatest value.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let first = *self.values.first()?;
        let wider =
            |(least, greatest): (f64, f64), value: &f64| (least.min(*value), greatest.max(*value));
        Some(self.values.iter().fold((first, first), wider))
    }

    /// The 95 % confidence interval of the mean; `None` if there are too few runs or samples.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        if self.source == Source::Count {
            return self.range();
        }
        let count = self.values.len();
        if count < RUNS_MIN || self.samples.is_some_and(|samples| samples < SAMPLES_MIN) {
            return None;
        }
        let mean = self.values.iter().sum::<f64>() / count as f64;
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (count - 1) as f64 / count as f64).sqrt();
        let student_t = STUDENT_T[(count - RUNS_MIN).min(STUDENT_T.len() - 1)];
        Some((mean - error * student_t, mean + error * student_t))
    }

    /// True if the figure is above a bound, false if it is below; `None` if that cannot be judged.
    #[must_use]
    pub fn is_above(&self, border: f64) -> Option<bool> {
        let (least, greatest) = self.interval()?;
        let margin = if self.source == Source::Count { 0.0 } else { border.abs() * MARGIN };
        match () {
            () if least > border + margin => Some(true),
            () if greatest < border - margin => Some(false),
            // A count is always on one side.
            () if self.source == Source::Count => Some(least > border),
            () => None,
        }
    }

    /// True if the figure is not above a bound; `None` if that cannot be judged.
    #[must_use]
    pub fn is_below(&self, border: f64) -> Option<bool> {
        self.is_above(border).map(|is_above| !is_above)
    }

    /// True if the figure is within this factor of another value; `None` if that cannot be judged.
    #[must_use]
    pub fn is_near(&self, other: f64, factor: f64) -> Option<bool> {
        both(self.is_above(other / factor), self.is_below(other * factor))
    }

    /// The spread as text: `1.93 to 3.41 in 5 runs`.
    #[must_use]
    pub fn spread(&self) -> String {
        let Some((least, greatest)) = self.range() else { return "no run has it".to_owned() };
        let (count, named) = match self.source {
            Source::Count => return "counted".to_owned(),
            Source::Runs => (self.values.len(), "run"),
            Source::Stretches => (self.values.len(), "stretch"),
        };
        let plural = match (count, self.source) {
            (1, _) => "",
            (_, Source::Stretches) => "es",
            _ => "s",
        };
        let mut text = match count {
            1 => format!("1 {named}"),
            _ => {
                let (least, greatest) = (self.unit.show(least), self.unit.show(greatest));
                format!("{least} to {greatest} in {count} {named}{plural}")
            }
        };
        if let Some(samples) = self.samples {
            text.push_str(&format!(", {samples} samples"));
        }
        text
    }
}

/// Shows the median with its unit, or `not known` without values.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.value().map(|value| self.unit.show(value));
        f.write_str(text.as_deref().unwrap_or("not known"))
    }
}

/// One conclusion: the claim of the original, and the figures of this study about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// A name for programs, in snake case.
    pub name: String,
    /// The conclusion of the original study.
    pub original: String,
    /// The result of this study, in a sentence.
    pub sentence: String,
    /// The judgement of the original's claim.
    pub judgement: Judgement,
    /// The figures behind the sentence.
    pub figures: Vec<Estimate>,
}

impl Finding {
    /// A finding on a claim. `holds` is `None` if the claim cannot be judged.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        original: impl Into<String>,
        sentence: impl Into<String>,
        holds: Option<bool>,
        figures: impl Into<Vec<Estimate>>,
    ) -> Finding {
        Finding {
            name: name.into(),
            original: original.into(),
            sentence: sentence.into(),
            judgement: Judgement::of(holds),
            figures: figures.into(),
        }
    }

    /// Marks the finding as one that the original has no claim about.
    #[must_use]
    pub fn not_asked(mut self) -> Finding {
        self.judgement = Judgement::NotAsked;
        self
    }

    /// True unless more runs might lead to a judgement.
    #[must_use]
    pub fn is_told(&self) -> bool {
        match self.judgement {
            Judgement::CannotBeTold => {
                self.figures.iter().all(|figure| figure.source == Source::Count)
            }
            Judgement::NotAsked => self.figures.iter().all(|figure| figure.interval().is_some()),
            Judgement::Confirmed | Judgement::NotConfirmed => true,
        }
    }
}

/// One load of a study, with its verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgedLoad {
    /// The name of the load.
    pub name: String,
    /// The number of the run, from 1.
    pub run: usize,
    /// The requested rate; `None` in a closed loop.
    pub offered_per_second: Option<f64>,
    /// The rate at which requests were answered.
    pub answered_per_second: f64,
    /// The 99th percentile of the response time, in nanoseconds; `None` if only sums are known.
    pub p99_ns: Option<f64>,
    /// The verdict, such as `stable`.
    pub verdict: String,
    /// The evidence for it.
    pub evidence: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Estimate {
        Estimate::of_runs("x", Unit::Ratio, values.iter().map(|value| Some(*value)))
    }

    /// Regression: ratios of p99 of single runs, 2.80 and 0.36 of the same thing, were judged as
    /// findings.
    #[test]
    fn runs_that_differ_lead_to_no_judgement() {
        assert_eq!(runs(&[2.80]).is_above(1.0), None, "one run");
        assert_eq!(runs(&[2.80, 2.81]).is_above(1.0), None, "two runs");
        assert_eq!(runs(&[2.80, 0.36, 1.1]).is_above(1.0), None);
        assert_eq!(runs(&[2.80, 2.70, 2.75]).is_above(1.0), Some(true));
        assert_eq!(runs(&[0.5, 0.52, 0.51]).is_above(1.0), Some(false));
        // Regression: 0.92 from two runs of a connection pool was judged against 0.95.
        assert_eq!(runs(&[0.92, 0.92]).is_above(0.95), None);
        assert_eq!(runs(&[0.92, 0.92, 0.92]).is_above(0.95), None, "within the margin");
        assert_eq!(runs(&[0.8, 0.8, 0.8]).is_above(0.95), Some(false));
    }

    /// Regression: a share of a profile with 16 samples was judged as a finding.
    #[test]
    fn few_samples_lead_to_no_judgement() {
        let share = |samples| runs(&[0.5, 0.51, 0.52]).of_samples(samples);
        assert_eq!(share(16).is_above(0.3), None);
        assert_eq!(share(SAMPLES_MIN).is_above(0.3), Some(true));
        assert!(share(16).spread().ends_with("in 3 runs, 16 samples"), "{}", share(16).spread());
    }

    #[test]
    fn a_count_is_judged_at_once() {
        let counted = Estimate::counted("x", Unit::Count, 3.0);
        assert_eq!((counted.is_above(2.0), counted.is_above(3.0)), (Some(true), Some(false)));
        assert_eq!((counted.to_string(), counted.spread()), ("3".to_owned(), "counted".to_owned()));
    }

    #[test]
    fn claims_combine() {
        assert_eq!(both(Some(true), None), None);
        assert_eq!(both(Some(false), None), Some(false));
        assert_eq!(either(Some(true), None), Some(true));
        assert_eq!(either(Some(false), None), None);
        assert_eq!(either(Some(false), Some(false)), Some(false));
        assert_eq!(runs(&[1.0, 1.0, 1.01]).is_near(1.1, 1.25), Some(true));
    }

    #[test]
    fn the_spread_is_shown() {
        assert_eq!(runs(&[3.0, 1.0, 2.0]).spread(), "1.00 to 3.00 in 3 runs");
        assert_eq!(runs(&[4.0, 1.0]).in_stretches().spread(), "1.00 to 4.00 in 2 stretches");
        assert_eq!(runs(&[4.0, 1.0]).to_string(), "2.50");
        assert_eq!(runs(&[]).to_string(), "not known");
        let gaps = Estimate::of_runs("x", Unit::Ratio, [None, Some(f64::NAN), Some(2.0)]);
        assert_eq!((gaps.values.as_slice(), gaps.spread().as_str()), (&[2.0][..], "1 run"));
    }

    #[test]
    fn more_runs_may_lead_to_a_judgement() {
        let finding = |holds, values: &[f64]| Finding::new("f", "", "", holds, [runs(values)]);
        assert!(finding(Some(true), &[]).is_told() && !finding(None, &[]).is_told());
        let counted = Finding::new("f", "", "", None, [Estimate::counted("x", Unit::Count, 1.0)]);
        assert!(counted.is_told(), "another count would be the same");
        assert!(!finding(None, &[1.0]).not_asked().is_told());
        assert!(finding(None, &[1.0, 1.0, 1.0]).not_asked().is_told());
        assert_eq!(finding(None, &[]).judgement.name(), "cannot be told");
    }
}
