//! The time axis of a chart: its plot, its intervals, and the moments that are marked on it.

use super::figure::{Mark, legend};
use super::markup::Markup;
use super::plot::{Axis, Plot, percentage};
use super::scale::Scale;
use crate::chart::{Chart, ChartEvent};
use crate::units::duration_tick;

pub(super) const SECOND_NS: f64 = 1e9;
/// The height of a plot.
const HEIGHT_PIXELS: u32 = 260;

pub(super) fn plot_over_time<'text>(chart: &'text Chart, end_ns: f64, scale: Scale) -> Plot<'text> {
    let unit = chart.unit;
    let logarithmic = matches!(scale, Scale::Logarithmic { .. });
    let title = format!("{}{}", unit.title(), if logarithmic { ", logarithmic" } else { "" });
    Plot {
        title: &chart.title,
        attributes: Vec::new(),
        height_pixels: HEIGHT_PIXELS,
        x: Axis::new(
            Scale::linear_until(end_ns),
            "time since the start of the load",
            5,
            duration_tick,
        ),
        y: Axis::new(scale, &title, 5, |value| unit.tick(value)),
    }
}

pub(super) fn interval(begin: f64, end: f64) -> String {
    format!("{} – {}", duration_tick(begin * SECOND_NS), duration_tick(end * SECOND_NS))
}

pub(super) fn write_moments(markup: &mut Markup, plot: &Plot<'_>, moments: &[ChartEvent]) {
    for moment in moments {
        let x = percentage(plot.x.scale.place(moment.at_seconds * SECOND_NS));
        let line = [("class", "moment"), ("x1", &x), ("x2", &x), ("y1", "0"), ("y2", "100%")];
        markup.empty("line", &line);
    }
}

/// Writes the moments with their times into the legend: a narrow plot has no room for them.
pub(super) fn write_moments_legend(markup: &mut Markup, moments: &[ChartEvent]) {
    let told = |moment: &ChartEvent| {
        format!("{}: {}", duration_tick(moment.at_seconds * SECOND_NS), moment.label)
    };
    let names: Vec<String> = moments.iter().map(told).collect();
    if !names.is_empty() {
        let entries = names.iter().map(|name| ("at-moment", Mark::Line, name.as_str()));
        legend(markup, &entries.collect::<Vec<_>>());
    }
}
