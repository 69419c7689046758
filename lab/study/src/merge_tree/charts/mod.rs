//! The charts of the original, from the engine's account and that of the requests.

mod background;
mod get;
mod head;
mod put;
mod whole;

pub(super) use background::stage_ns;
pub(super) use whole::processor_ns;

use pellucid_report::{Chart, ChartSection, Form, Moment, Series, Unit};

use super::sample::Sample;
use super::track::{Track, Values, number};

/// Levels of the ledger that are looked at; deeper ones have no tables in any run.
pub(super) const LEVELS: usize = 7;
/// The label of the line across.
const OUTGROWN: &str = "the store outgrows memory";

/// The data of all charts.
pub(super) struct Source<'a> {
    pub(super) track: Track<'a>,
    /// The bound of memory.
    pub(super) memory_bytes: Option<u64>,
    /// The time at which the store's files and the process's own memory were first more than that.
    pub(super) outgrown_seconds: Option<f64>,
}

/// All sections.
pub(super) fn sections(source: &Source<'_>) -> Vec<ChartSection> {
    vec![
        whole::section(source),
        get::section(source),
        put::section(source),
        head::section(source),
        head::files_section(source),
        background::section(source),
    ]
}

/// Head and body of a GET over time: the picture of the study.
pub(super) fn picture(source: &Source<'_>) -> Chart {
    Chart { name: "picture".to_owned(), ..get::parts(source) }
}

impl Source<'_> {
    fn moments(&self) -> Vec<Moment> {
        let moment = |at_seconds| Moment { at_seconds, label: OUTGROWN.to_owned() };
        self.outgrown_seconds.map(moment).into_iter().collect()
    }

    fn chart(
        &self,
        (name, title): (&str, &str),
        how_to_read: &str,
        unit: Unit,
        form: Form,
        series: Vec<Series>,
    ) -> Chart {
        let moments = match form {
            Form::Lines { .. } | Form::Areas { .. } => self.moments(),
            _ => Vec::new(),
        };
        Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            how_to_read: how_to_read.to_owned(),
            unit,
            form,
            series,
            moments,
            spans: Vec::new(),
        }
    }

    fn areas(
        &self,
        names: (&str, &str),
        how_to_read: &str,
        unit: Unit,
        series: Vec<Series>,
    ) -> Chart {
        let form = Form::Areas { seconds: self.track.seconds() };
        self.chart(names, how_to_read, unit, form, series)
    }

    fn lines(
        &self,
        names: (&str, &str),
        how_to_read: &str,
        unit: Unit,
        series: Vec<Series>,
    ) -> Chart {
        let form = Form::Lines { seconds: self.track.seconds(), is_logarithmic: false };
        self.chart(names, how_to_read, unit, form, series)
    }

    /// Lines of durations that are powers of ten apart.
    fn times(&self, names: (&str, &str), how_to_read: &str, series: Vec<Series>) -> Chart {
        let form = Form::Lines { seconds: self.track.seconds(), is_logarithmic: true };
        self.chart(names, how_to_read, Unit::Nanoseconds, form, series)
    }

    /// By how much a number of the engine's account grew in the whole run.
    pub(super) fn grown(&self, path: &str) -> f64 {
        let Some((first, last)) = self.track.ends() else { return 0.0 };
        number(last, path) - number(first, path)
    }

    /// The rate of a number of the engine's account.
    fn rate(&self, path: &str) -> Values {
        self.track.rate(|sample| number(sample, path))
    }
}

/// The places where look-ups end, by their names in the engine's account.
pub(super) fn places() -> Vec<(String, String)> {
    let levels = (0..LEVELS).map(|level| (format!("level {level}"), format!("level_{level}")));
    let first = [("missing", "missing"), ("memtable", "memtable")];
    first.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).chain(levels).collect()
}

/// Those of the series that have something to show; all of them if none has.
fn with_something(series: Vec<Series>) -> Vec<Series> {
    let has = |series: &Series| series.sum() > 0.0;
    if series.iter().any(has) { series.into_iter().filter(has).collect() } else { series }
}

/// Shares of what stands at the same place in all series.
fn shares(series: Vec<Series>) -> Vec<Series> {
    let length = series.iter().map(|one| one.values.len()).max().unwrap_or(0);
    let sums: Vec<f64> = (0..length)
        .map(|at| series.iter().filter_map(|one| one.values.get(at).copied().flatten()).sum())
        .collect();
    let share = |one: Series| {
        let values = one.values.iter().zip(&sums);
        let values = values.map(|(value, sum)| value.filter(|_| *sum > 0.0).map(|v| v / sum));
        Series::new(one.name, values.collect())
    };
    series.into_iter().map(share).collect()
}

/// The difference of two series, nowhere below zero.
fn less(whole: &Values, parts: &[&Values]) -> Values {
    let at = |(index, whole): (usize, &Option<f64>)| {
        let taken: f64 = parts.iter().filter_map(|part| part.get(index).copied().flatten()).sum();
        whole.map(|whole| (whole - taken).max(0.0))
    };
    whole.iter().enumerate().map(at).collect()
}

/// The mean time of a part of an operation, over all its requests.
fn part_mean(track: &Track<'_>, operation: &'static str, part: &'static str) -> Values {
    let sum = move |sample: &Sample| {
        super::track::operation(sample, operation).parts_ns.get(part).copied().unwrap_or(0.0)
    };
    track.mean(sum, move |sample| super::track::operation(sample, operation).count as f64)
}

/// The mean time of an operation.
fn total_mean(track: &Track<'_>, operation: &'static str) -> Values {
    track.mean(
        move |sample| super::track::operation(sample, operation).total_ns,
        move |sample| super::track::operation(sample, operation).count as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_where_there_is_something() {
        let series = vec![
            Series::new("a", vec![Some(1.0), None, Some(0.0)]),
            Series::new("b", vec![Some(3.0), Some(2.0), Some(0.0)]),
        ];
        let shares = shares(series);
        assert_eq!(shares[0].values, [Some(0.25), None, None]);
        assert_eq!(shares[1].values, [Some(0.75), Some(1.0), None]);
    }

    #[test]
    fn what_is_left_is_never_below_zero() {
        let left =
            less(&vec![Some(5.0), Some(1.0), None], &[&vec![Some(2.0), Some(3.0), Some(1.0)]]);
        assert_eq!(left, [Some(3.0), Some(0.0), None]);
        let kept = with_something(vec![
            Series::new("a", vec![Some(0.0)]),
            Series::new("b", vec![Some(1.0)]),
        ]);
        assert_eq!(kept.len(), 1);
    }
}
