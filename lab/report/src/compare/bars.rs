//! The bounds that a change must not cross, as `--fail-if` takes them. Such a bound is called a
//! bar.
//!
//! ```text
//! bars   := bar { "," bar }
//! bar    := metric ( ">" | "<" ) bound
//! metric := "p" PERCENT | "mean" | "max" | "throughput" | "errors"
//! bound  := ( "+" | "-" ) NUMBER "%"             the change from the first run to the second
//!         | NUMBER ( "ns" | "us" | "ms" | "s" )  the second run's time: pN, mean, max
//!         | NUMBER "%"                           the second run's share: errors
//!         | NUMBER                               the second run's throughput per second
//! ```
//!
//! A change of a quantile crosses its bar only if its confidence interval does not include zero
//! change: chance must not fail a build.

use super::{Change, Comparison, SAME_QUANTILE};
use crate::quantiles::quantile_of_percent;

/// The largest number of bars in a list.
const BARS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    Quantile(f64),
    Mean,
    Greatest,
    Throughput,
    Errors,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// A relative change: 0.1 for +10 %.
    Change(f64),
    /// A value of the second run: in nanoseconds, per second, or as a share.
    Value(f64),
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    text: String,
    metric: Metric,
    above: bool,
    bound: Bound,
}

/// Bars that a change must not cross.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars(Vec<Bar>);

impl Bars {
    /// Reads a list such as `p99>+10%,errors>0.1%`.
    ///
    /// # Errors
    /// The text says what was given and what is allowed.
    pub fn parse(text: &str) -> Result<Bars, String> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        if parts.len() > BARS_MAX {
            return Err(format!(
                "there are {} bars, and at most {BARS_MAX} are taken",
                parts.len()
            ));
        }
        parts.into_iter().map(Bar::parse).collect::<Result<Vec<Bar>, String>>().map(Bars)
    }

    /// The quantiles that the bars name, for [`super::compare`].
    #[must_use]
    pub fn quantiles(&self) -> Vec<f64> {
        let quantiles = self.0.iter().filter_map(|bar| match bar.metric {
            Metric::Quantile(quantile) => Some(quantile),
            _ => None,
        });
        quantiles.collect()
    }

    /// The bars that were crossed, each with the value that crossed it.
    #[must_use]
    pub fn crossed(&self, comparison: &Comparison) -> Vec<String> {
        self.0.iter().filter_map(|bar| bar.crossing(comparison)).collect()
    }
}

impl Bar {
    fn parse(text: &str) -> Result<Bar, String> {
        let wrong = |why: &str| {
            format!(
                "'{text}' is no bar: {why}; allowed are changes such as p99>+10% or \
                 throughput<-5%, and values such as p99>5ms, errors>0.1% or throughput<9000"
            )
        };
        let at = text.find(['>', '<']).ok_or_else(|| wrong("it has neither > nor <"))?;
        let (name, bound) = (text[..at].trim(), text[at + 1..].trim());
        let metric = metric_of(name).ok_or_else(|| {
            wrong(&format!("'{name}' is none of pN, mean, max, throughput and errors"))
        })?;
        let bound = bound_of(metric, bound)
            .ok_or_else(|| wrong(&format!("'{bound}' is no bound of {name}")))?;
        Ok(Bar { text: text.to_owned(), metric, above: text.as_bytes()[at] == b'>', bound })
    }

    fn crossing(&self, comparison: &Comparison) -> Option<String> {
        let mut by_chance = false;
        let (before, after) = match self.metric {
            Metric::Quantile(quantile) => {
                let near = |other: f64| (other - quantile).abs() < SAME_QUANTILE;
                let delta = comparison.quantiles.iter().find(|delta| near(delta.quantile));
                let Some(delta) = delta else {
                    let why = "the runs have too few requests to tell this quantile";
                    return Some(format!("{}: {why}", self.text));
                };
                by_chance = delta.direction() == Change::Same;
                (delta.before_ns.value, delta.after_ns.value)
            }
            Metric::Mean => comparison.mean_ns,
            Metric::Greatest => (comparison.greatest_ns.0 as f64, comparison.greatest_ns.1 as f64),
            Metric::Throughput => comparison.throughput_per_second,
            Metric::Errors => comparison.error_share,
        };
        let (value, bound, shown) = match self.bound {
            Bound::Change(bound) => {
                // If the first value is 0, any other one is an infinite change.
                let change = if before == after { 0.0 } else { after / before - 1.0 };
                (change, bound, format!("{:+.2} %", change * 100.0))
            }
            Bound::Value(bound) => (after, bound, self.shown(after)),
        };
        let over = if self.above { value > bound } else { value < bound };
        let counts = !(by_chance && matches!(self.bound, Bound::Change(_)));
        (over && counts).then(|| format!("{}: it is {shown}", self.text))
    }

    fn shown(&self, value: f64) -> String {
        match self.metric {
            Metric::Throughput => crate::units::rate(value),
            Metric::Errors => crate::units::percent(value),
            _ => crate::units::duration(value),
        }
    }
}

fn metric_of(name: &str) -> Option<Metric> {
    Some(match name {
        "mean" => Metric::Mean,
        "max" => Metric::Greatest,
        "throughput" => Metric::Throughput,
        "errors" => Metric::Errors,
        _ => Metric::Quantile(quantile_of_percent(name.strip_prefix('p')?)?),
    })
}

fn bound_of(metric: Metric, text: &str) -> Option<Bound> {
    let number = |digits: &str| digits.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    if let Some(percent) = text.strip_suffix('%') {
        let signed = percent.starts_with(['+', '-']);
        let share = number(percent)? / 100.0;
        return match (signed, metric) {
            (true, _) => Some(Bound::Change(share)),
            (false, Metric::Errors) => Some(Bound::Value(share)),
            (false, _) => None,
        };
    }
    match metric {
        Metric::Throughput => number(text).map(Bound::Value),
        Metric::Errors => None,
        Metric::Quantile(_) | Metric::Mean | Metric::Greatest => {
            let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
            let fitting = units.iter().find_map(|(unit, ns)| {
                text.strip_suffix(unit).and_then(number).map(|value| value * ns)
            });
            fitting.filter(|value| *value >= 0.0).map(Bound::Value)
        }
    }
}
