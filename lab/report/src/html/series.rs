//! The series of a chart: their colours and marks, and their values as text.

use super::figure::{Mark, legend};
use super::markup::Markup;
use crate::chart::Chart;

/// The number of colours; a chart with more series repeats them in a paler form.
const COLOURS: usize = 9;

pub(super) fn class_of(index: usize) -> String {
    let paler = if index % (2 * COLOURS) >= COLOURS { " again" } else { "" };
    format!("series-{}{paler}", index % COLOURS)
}

/// The shape of a line's marks: a second cue besides its colour.
pub(super) fn mark_of(index: usize) -> Mark {
    [Mark::Circle, Mark::Square, Mark::Triangle][index % 3]
}

pub(super) fn write_legend(markup: &mut Markup, chart: &Chart, mark: impl Fn(usize) -> Mark) {
    let classes: Vec<String> = (0..chart.series.len()).map(class_of).collect();
    let entries = chart.series.iter().zip(&classes).enumerate();
    let entries: Vec<_> = entries
        .map(|(index, (series, class))| (class.as_str(), mark(index), series.name.as_str()))
        .collect();
    legend(markup, &entries);
}

/// Writes a drawing of bars, as wide as the page allows.
pub(super) fn write_bars_box(
    markup: &mut Markup,
    title: &str,
    height_pixels: usize,
    bars: impl FnOnce(&mut Markup),
) {
    let height = height_pixels.to_string();
    let size = [("class", "stack"), ("width", "100%"), ("height", height.as_str())];
    let named = [&size[..], &[("role", "img"), ("aria-label", title)]].concat();
    markup.element("svg", &named, |markup| {
        markup.leaf("title", &[], title);
        bars(markup);
    });
}

pub(super) fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value >= 0.0)
}

pub(super) fn show(chart: &Chart, value: Option<f64>) -> String {
    finite(value).map_or_else(|| "-".to_owned(), |value| chart.unit.show(value))
}
