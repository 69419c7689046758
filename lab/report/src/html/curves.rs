//! Curves over percentiles, as wrk2 and HdrHistogram draw them: the further right, the rarer.

use super::figure::Table;
use super::markup::Markup;
use super::percentiles::nines;
use super::plot::{Axis, Plot, percentage};
use super::scale::Scale;
use super::series::{class_of, finite, mark_of, show, write_legend};
use crate::chart::{Chart, Series};
use crate::units::quantile_percent;

const HEIGHT_PIXELS: u32 = 300;
/// Quantiles at which the axis is labelled.
const MARKED_QUANTILES: [f64; 6] = [0.0, 0.9, 0.99, 0.999, 0.9999, 0.99999];

/// Writes the curves over the distance of each quantile from 100 %.
pub(super) fn write(markup: &mut Markup, chart: &Chart, quantiles: &[f64]) {
    let values = || chart.series.iter().flat_map(|series| &series.values);
    let values = || values().filter_map(|value| finite(*value)).filter(|value| *value > 0.0);
    let (least, greatest) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let end = quantiles.last().map_or(1.0, |last| nines(*last));
    let marked = MARKED_QUANTILES.iter().filter(|quantile| nines(**quantile) <= end + 0.01);
    let title = format!("{}, logarithmic", chart.unit.title());
    let plot = Plot {
        title: &chart.title,
        attributes: Vec::new(),
        height_pixels: HEIGHT_PIXELS,
        x: Axis {
            scale: Scale::linear_until(end),
            title: "percentile (distance to 100 %, logarithmic)".to_owned(),
            ticks: marked.map(|q| (nines(*q), quantile_percent(*q))).collect(),
        },
        y: Axis::new(Scale::logarithmic_around(least, greatest), &title, 9, |value| {
            chart.unit.tick(value)
        }),
    };
    let points = |series: &Series| -> Vec<(f64, f64)> {
        let pairs = quantiles.iter().zip(&series.values);
        pairs.filter_map(|(quantile, value)| Some((nines(*quantile), finite(*value)?))).collect()
    };
    write_legend(markup, chart, mark_of);
    plot.write(
        markup,
        |markup| {
            for (index, series) in chart.series.iter().enumerate() {
                let class = format!("line {}", class_of(index));
                let path = plot.line(points(series));
                markup.empty("path", &[("d", &path), ("class", &class)]);
            }
        },
        |markup| {
            for (index, series) in chart.series.iter().enumerate() {
                for (x, y) in points(series) {
                    let x = percentage(plot.x.scale.place(x));
                    let y = percentage(1.0 - plot.y.scale.place(y));
                    mark_of(index).write(markup, &x, &y, &class_of(index));
                }
            }
        },
    );
}

/// A row for each quantile.
pub(super) fn table_of(chart: &Chart, quantiles: &[f64]) -> Table {
    let mut table = Table::with_header(["percentile"]);
    table.header.extend(chart.series.iter().map(|series| series.name.clone()));
    for (at, quantile) in quantiles.iter().enumerate() {
        let value = |series: &Series| show(chart, series.values.get(at).copied().flatten());
        let name = format!("{} %", quantile_percent(*quantile));
        table.rows.push([name].into_iter().chain(chart.series.iter().map(value)).collect());
    }
    table
}
