//! Curves over percentiles, as wrk2 and HdrHistogram draw them: the further to the right, the
//! rarer.

use super::markup::Markup;
use super::percentiles::{nines, percentile_axis};
use super::plot::{Axis, Plot};
use super::scale::Scale;
use super::series::{class_of, finite, mark_of, write_legend};
use crate::chart::{Chart, Series};

const HEIGHT_PIXELS: u32 = 300;
/// The quantiles at which the axis is labelled.
const MARKED_QUANTILES: [f64; 6] = [0.0, 0.9, 0.99, 0.999, 0.9999, 0.99999];

/// Writes the curves over the distance of each quantile from 100 %.
pub(super) fn write(markup: &mut Markup, chart: &Chart, quantiles: &[f64]) {
    let values = || chart.series.iter().flat_map(|series| &series.values);
    let values = || values().filter_map(|value| finite(*value)).filter(|value| *value > 0.0);
    let (least, greatest) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let end = quantiles.last().map_or(1.0, |last| nines(*last));
    let title = format!("{}, logarithmic", chart.unit.title());
    let plot = Plot {
        title: &chart.title,
        attributes: Vec::new(),
        height_pixels: HEIGHT_PIXELS,
        x: percentile_axis(&MARKED_QUANTILES, end),
        y: Axis::new(Scale::logarithmic_around(least, greatest), &title, 9, |value| {
            chart.unit.tick(value)
        }),
    };
    let points = |series: &Series| -> Vec<(f64, f64)> {
        let places = quantiles.iter().enumerate();
        places.filter_map(|(at, quantile)| Some((nines(*quantile), series.drawn(at)?))).collect()
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
                    let (x, y) = plot.at(x, y);
                    mark_of(index).write(markup, &x, &y, &class_of(index));
                }
            }
        },
    );
}
