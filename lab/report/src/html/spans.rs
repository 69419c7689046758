//! Marks of other activities in charts over time: a shade behind the drawing, and a lane at the top
//! for each kind, so that kinds can be distinguished without their colours.

use super::figure::{Mark, legend};
use super::markup::Markup;
use super::plot::{BOX_HEIGHT, BOX_WIDTH, Plot, percentage};
use super::time_axis::{SECOND_NS, interval};
use crate::chart::Chart;
use crate::span::{Span, covered_seconds, span_labels};
use crate::units::{count, duration};

/// The number of colours; more kinds repeat them.
const COLOURS: usize = 4;
/// The largest number of spans that are drawn; the table includes all.
const SPANS_MAX: usize = 1_000;
/// The smallest width of a mark, as a share of the plot, so that short jobs are visible.
const WIDTH_MIN: f64 = 0.002;
/// The height of a lane, and of a mark in it, in pixels.
const LANE_PIXELS: usize = 9;
const MARK_PIXELS: usize = 7;

/// Writes the legend of the spans, with the number of spans of each kind.
pub(super) fn write_legend(markup: &mut Markup, chart: &Chart) {
    let labels = span_labels(&chart.spans);
    if labels.is_empty() {
        return;
    }
    let classes: Vec<String> = (0..labels.len()).map(class_of).collect();
    let names: Vec<String> = labels
        .iter()
        .enumerate()
        .map(|(lane, label)| {
            let number = chart.spans.iter().filter(|span| span.label == *label).count();
            format!("{label}: {} (lane {} from the top)", count(number as u64), lane + 1)
        })
        .collect();
    let entries: Vec<_> = classes
        .iter()
        .zip(&names)
        .map(|(class, name)| (class.as_str(), Mark::Area, name.as_str()))
        .collect();
    legend(markup, &entries);
}

/// Writes the shades into the plot's box, before the marks that are drawn over them.
pub(super) fn write_shades(markup: &mut Markup, plot: &Plot<'_>, chart: &Chart) {
    let height = format!("{BOX_HEIGHT}");
    for (lane, span) in drawn(chart) {
        let (left, width) = place_of(plot, span);
        let (x, width) = (format!("{:.0}", left * BOX_WIDTH), format!("{:.0}", width * BOX_WIDTH));
        let class = format!("shade {}", class_of(lane));
        let place = [("class", class.as_str()), ("x", &x), ("y", "0"), ("width", &width)];
        markup.empty("rect", &[&place[..], &[("height", height.as_str())]].concat());
    }
}

/// Writes the lanes at the top of the plot.
pub(super) fn write_lanes(markup: &mut Markup, plot: &Plot<'_>, chart: &Chart) {
    let height = MARK_PIXELS.to_string();
    for (lane, span) in drawn(chart) {
        let (left, width) = place_of(plot, span);
        let (x, width, y) = (percentage(left), percentage(width), (lane * LANE_PIXELS).to_string());
        let class = format!("span {}", class_of(lane));
        let place = [("class", class.as_str()), ("x", &x), ("y", &y), ("width", &width)];
        let place = [&place[..], &[("height", height.as_str())]].concat();
        let stretch = interval(span.from_seconds.max(0.0), span.to_seconds);
        markup.element("rect", &place, |markup| {
            markup.leaf("title", &[], &format!("{}\n{stretch}", span.label));
        });
    }
}

/// The names of the columns for spans in a table over time.
pub(super) fn columns(chart: &Chart) -> Vec<String> {
    span_labels(&chart.spans).into_iter().map(|label| format!("{label} ran for")).collect()
}

/// The values of these columns from `begin` to `end` seconds.
pub(super) fn values(chart: &Chart, begin: f64, end: f64) -> Vec<String> {
    let of = |label: &str| {
        let spans = chart.spans.iter().filter(|span| span.label == label);
        duration(covered_seconds(spans, begin, end) * SECOND_NS)
    };
    span_labels(&chart.spans).into_iter().map(of).collect()
}

/// The spans that are drawn, each with its lane.
fn drawn(chart: &Chart) -> impl Iterator<Item = (usize, &Span)> {
    let labels = span_labels(&chart.spans);
    let lane_of = move |span: &Span| labels.iter().position(|label| *label == span.label);
    let is_shown = |span: &&Span| span.to_seconds >= 0.0;
    let shown = chart.spans.iter().filter(is_shown).take(SPANS_MAX);
    shown.map(move |span| (lane_of(span).unwrap_or(0), span))
}

/// The left end and the width of a span, as shares of the plot.
fn place_of(plot: &Plot<'_>, span: &Span) -> (f64, f64) {
    let place = |seconds: f64| plot.x.scale.place(seconds.max(0.0) * SECOND_NS).clamp(0.0, 1.0);
    let (left, right) = (place(span.from_seconds), place(span.to_seconds));
    let left = left.min(1.0 - WIDTH_MIN);
    (left, (right - left).max(WIDTH_MIN))
}

fn class_of(lane: usize) -> String {
    format!("span-{}", lane % COLOURS)
}
