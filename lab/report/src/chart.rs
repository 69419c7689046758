//! Charts of any figures: lines and stacked areas over time, bars, curves, dots and tables. They
//! carry their numbers, so that the page draws them, its tables list them, and JSON has them all.

use serde::{Deserialize, Serialize};

use crate::span::Span;
use crate::units::{
    count, decimal_size, decimal_size_tick, duration, duration_tick, percent, rate,
};

/// The unit of a chart's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A duration in nanoseconds.
    Nanoseconds,
    /// A size in bytes.
    Bytes,
    /// Bytes in each second.
    BytesPerSecond,
    /// Events in each second.
    PerSecond,
    /// A number of things.
    Count,
    /// A part of a whole, 0 to 1.
    Share,
    /// One quantity over another.
    Ratio,
    /// Processor time over time.
    Cores,
}

impl Unit {
    /// The value as text, with its unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        let value = if value.is_finite() { value } else { 0.0 };
        match self {
            Unit::Nanoseconds => duration(value),
            Unit::Bytes => decimal_size(value),
            Unit::BytesPerSecond => format!("{}/s", decimal_size(value)),
            Unit::PerSecond if value > 0.0 && value < 0.01 => "< 0.01".to_owned(),
            Unit::PerSecond => rate(value),
            Unit::Count => count(value.max(0.0).round() as u64),
            Unit::Share => percent(value),
            Unit::Ratio | Unit::Cores => format!("{value:.2}"),
        }
    }

    /// The value as the label of an axis; empty for a value that cannot occur, such as half a
    /// request.
    pub(crate) fn tick(self, value: f64) -> String {
        let is_whole = value.fract() == 0.0;
        match self {
            Unit::Count | Unit::Bytes | Unit::BytesPerSecond if !is_whole && value < 1e3 => {
                String::new()
            }
            Unit::Bytes if value > 0.0 => decimal_size_tick(value),
            Unit::BytesPerSecond if value > 0.0 => format!("{}/s", decimal_size_tick(value)),
            Unit::Nanoseconds => duration_tick(value),
            Unit::Ratio | Unit::Cores if is_whole => format!("{value:.0}"),
            unit if value == 0.0 && unit != Unit::Share => "0".to_owned(),
            unit => unit.show(value),
        }
    }

    /// The title of an axis of such values.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "time",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes per second",
            Unit::PerSecond => "per second",
            Unit::Count => "number",
            Unit::Share => "share",
            Unit::Ratio => "ratio",
            Unit::Cores => "cores",
        }
    }
}

/// The form of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChartForm {
    /// Lines over time.
    Lines {
        /// The end of each interval, in seconds since the beginning, ascending.
        seconds: Vec<f64>,
        /// True if equal distances on the vertical axis are equal ratios.
        is_logarithmic: bool,
    },
    /// Areas over time, stacked.
    Areas {
        /// The end of each interval, in seconds since the beginning, ascending.
        seconds: Vec<f64>,
    },
    /// One stacked bar for each row, with one part for each series.
    Bars {
        /// The names of the rows.
        rows: Vec<String>,
    },
    /// Several bars for each row, one for each series, all from one origin and on one scale.
    Groups {
        /// The names of the rows.
        rows: Vec<String>,
    },
    /// Curves over quantiles: the further to the right, the rarer.
    Percentiles {
        /// The quantile of each value, ascending, below 1.
        quantiles: Vec<f64>,
    },
    /// Dots over time.
    Points {
        /// The time of each dot, in seconds since the beginning, ascending.
        seconds: Vec<f64>,
        /// The highest value that is drawn; the page tells how many dots lie above it.
        #[serde(default)]
        ceiling: Option<f64>,
    },
    /// A table and no drawing: each series is a row.
    Table {
        /// The names of the columns.
        columns: Vec<String>,
    },
}

impl ChartForm {
    /// The number of values of each series.
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            ChartForm::Lines { seconds, .. }
            | ChartForm::Areas { seconds }
            | ChartForm::Points { seconds, .. } => seconds.len(),
            ChartForm::Bars { rows } | ChartForm::Groups { rows } => rows.len(),
            ChartForm::Percentiles { quantiles } => quantiles.len(),
            ChartForm::Table { columns } => columns.len(),
        }
    }
}

/// The values of one line, of one area, or of one part of every bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name.
    pub name: String,
    /// The values; `None` for a value that does not exist, such as the mean of nothing.
    pub values: Vec<Option<f64>>,
}

impl Series {
    /// A series with this name.
    #[must_use]
    pub fn new(name: impl Into<String>, values: Vec<Option<f64>>) -> Series {
        Series { name: name.into(), values }
    }

    /// The value at index `at` if it can be drawn: not missing, not negative, and finite.
    pub(crate) fn drawn(&self, at: usize) -> Option<f64> {
        self.values.get(at).copied().flatten().filter(|value| value.is_finite() && *value >= 0.0)
    }

    /// The sum of all values that exist.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.values.iter().flatten().sum()
    }
}

/// A moment that a chart over time shows as a vertical line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChartEvent {
    /// The time, in seconds since the beginning.
    pub at_seconds: f64,
    /// The event that happened.
    pub label: String,
}

/// A chart with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// A name for programs, in snake case.
    pub name: String,
    /// The caption.
    pub title: String,
    /// The legend, in a sentence or two.
    pub how_to_read: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The form of the chart.
    pub form: ChartForm,
    /// The values to draw, from the bottom, or the left.
    pub series: Vec<Series>,
    /// The moments that are marked by vertical lines.
    #[serde(default)]
    pub moments: Vec<ChartEvent>,
    /// The spans beside a chart over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Span>,
}

impl Chart {
    /// A chart of these series, by its name, title and legend.
    #[must_use]
    pub fn new(
        (name, title, how_to_read): (impl Into<String>, impl Into<String>, impl Into<String>),
        unit: Unit,
        form: ChartForm,
        series: impl IntoIterator<Item = Series>,
    ) -> Chart {
        let (name, title, how_to_read) = (name.into(), title.into(), how_to_read.into());
        let series = series.into_iter().collect();
        let (moments, spans) = (Vec::new(), Vec::new());
        Chart { name, title, how_to_read, unit, form, series, moments, spans }
    }

    /// The series with this name.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// True if all values are zero or missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.iter().flat_map(|series| &series.values).flatten().all(|value| *value == 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_units() {
        let shown = [
            (Unit::Nanoseconds, 1_500.0, "1.50 µs"),
            (Unit::Bytes, 2_500_000.0, "2.50 MB"),
            (Unit::BytesPerSecond, 999.0, "999 B/s"),
            (Unit::PerSecond, 0.001, "< 0.01"),
            (Unit::PerSecond, 12_345.0, "12,345"),
            (Unit::Count, 7.0, "7"),
            (Unit::Share, 0.25, "25 %"),
            (Unit::Ratio, 1.5, "1.50"),
            (Unit::Cores, f64::NAN, "0.00"),
        ];
        for (unit, value, text) in shown {
            assert_eq!(unit.show(value), text);
        }
        assert_eq!(Unit::Bytes.tick(0.0), "0");
        assert_eq!(Unit::Ratio.tick(2.0), "2");
        // Regression: an axis up to two requests had two ticks labelled 1.
        assert_eq!((Unit::Count.tick(0.5), Unit::Count.tick(1.0)), (String::new(), "1".to_owned()));
        assert_eq!(Unit::BytesPerSecond.tick(0.2), "");
        assert_eq!(Unit::Bytes.tick(1_500.0), "1.5 kB");
    }

    #[test]
    fn a_chart_is_read_back_as_it_was_written() {
        let form = ChartForm::Lines { seconds: vec![1.0, 2.5], is_logarithmic: true };
        let series = [Series::new("x", vec![None, Some(0.5)])];
        let chart = Chart::new(("a", "A", ""), Unit::Share, form, series);
        let text = serde_json::to_string(&chart).unwrap();
        assert!(text.contains("\"kind\":\"lines\"") && text.contains("[null,0.5]"), "{text}");
        assert_eq!(serde_json::from_str::<Chart>(&text).unwrap(), chart);
        assert_eq!((chart.form.length(), chart.series("x").unwrap().sum()), (2, 0.5));
        assert!(!chart.is_empty() && chart.series("y").is_none());
    }
}
