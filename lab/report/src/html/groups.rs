//! Grouped bars: for each row one bar of each series, all on one scale.

use super::figure::Mark;
use super::markup::Markup;
use super::plot::percentage;
use super::series::{class_of, finite, show, write_bars_box, write_legend};
use crate::chart::Chart;

/// The height of a bar, and of a bar with its gap, in pixels.
const BAR_PIXELS: usize = 11;
const ROW_PIXELS: usize = 15;
/// The share of the width that the longest bar takes; its value is beside it.
const LONGEST: f64 = 0.74;

/// Writes the rows, each below its name.
pub(super) fn write(markup: &mut Markup, chart: &Chart, rows: &[String]) {
    let all = chart.series.iter().flat_map(|series| &series.values);
    let longest = all.filter_map(|value| finite(*value)).fold(0.0, f64::max);
    if chart.series.len() > 1 {
        write_legend(markup, chart, |_| Mark::Area);
    }
    for (row, name) in rows.iter().enumerate() {
        markup.leaf("p", &[("class", "bar-label")], name);
        let title = format!("{}: {name}", chart.title);
        write_bars_box(markup, &title, chart.series.len() * ROW_PIXELS, |markup| {
            for (index, series) in chart.series.iter().enumerate() {
                let value = series.drawn(row);
                let length = value.filter(|_| longest > 0.0).unwrap_or(0.0) / longest;
                let shown = show(chart, value);
                let told = format!("{}\n{shown}", series.name);
                write_bar(markup, index, &told, &shown, length * LONGEST);
            }
        });
    }
}

fn write_bar(markup: &mut Markup, index: usize, told: &str, shown: &str, length: f64) {
    let (top, base) = (index * ROW_PIXELS + 2, index * ROW_PIXELS + ROW_PIXELS - 3);
    let (top, base, height) = (top.to_string(), base.to_string(), BAR_PIXELS.to_string());
    let (width, class) = (percentage(length), format!("area {}", class_of(index)));
    let place = [("x", "0"), ("y", top.as_str()), ("width", &width), ("height", &height)];
    markup.element("rect", &[&place[..], &[("class", class.as_str())]].concat(), |markup| {
        markup.leaf("title", &[], told);
    });
    let place = [("class", "row-value"), ("x", &width), ("y", &base), ("dx", "6")];
    markup.leaf("text", &place, shown);
}
