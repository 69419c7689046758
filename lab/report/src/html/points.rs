//! Dots over time: each is a single request, where lines would show only means.

use super::figure::{Mark, Table};
use super::markup::Markup;
use super::scale::Scale;
use super::series::{class_of, finite, show, write_legend};
use super::spans;
use super::time_axis::{SECOND_NS, interval, plot_over_time, write_moments, write_moments_legend};
use crate::chart::{Chart, Series};
use crate::units::count;

/// The number of rows of the table that summarizes the dots over time.
const TABLE_STRETCHES: usize = 20;

/// Writes the drawing. All dots of a series are one path: a stroke of no length with round ends is
/// a dot, which takes the fewest bytes.
pub(super) fn write(markup: &mut Markup, chart: &Chart, seconds: &[f64], ceiling: Option<f64>) {
    let end_ns = seconds.last().copied().unwrap_or(1.0) * SECOND_NS;
    let values = || chart.series.iter().flat_map(|series| &series.values);
    let greatest = values().filter_map(|value| finite(*value)).fold(0.0, f64::max);
    let scale = Scale::linear_to(ceiling.unwrap_or(greatest));
    let Scale::Linear { greatest: top } = scale else { return };
    let plot = plot_over_time(chart, end_ns, scale);
    if chart.series.len() > 1 {
        write_legend(markup, chart, |_| Mark::Area);
    }
    spans::write_legend(markup, chart);
    write_moments_legend(markup, &chart.moments);
    let above = values().filter(|value| finite(**value).is_some_and(|value| value > top)).count();
    if above > 0 {
        let text = format!("{} points lie above", count(above as u64));
        markup.leaf("p", &[("class", "muted")], &text);
    }
    plot.write(
        markup,
        |markup| {
            spans::write_shades(markup, &plot, chart);
            for (index, series) in chart.series.iter().enumerate() {
                let mut path = String::with_capacity(series.values.len() * 12);
                for (at, value) in seconds.iter().zip(&series.values) {
                    let Some(value) = finite(*value).filter(|value| *value <= top) else {
                        continue;
                    };
                    let (x, y) = plot.in_box(at * SECOND_NS, value);
                    path.push_str(&format!("M{x} {y}h0"));
                }
                // A single series has the usual colour of dots.
                let class = match chart.series.len() {
                    1 => "dots".to_owned(),
                    _ => format!("dots line {}", class_of(index)),
                };
                markup.empty("path", &[("class", &class), ("d", &path)]);
            }
        },
        |markup| {
            write_moments(markup, &plot, &chart.moments);
            spans::write_lanes(markup, &plot, chart);
        },
    );
}

/// The table of the dots in each part of the time: their number, their median and maximum, and the
/// time that each activity ran meanwhile.
pub(super) fn table_of(chart: &Chart, seconds: &[f64]) -> Table {
    let mut table = Table::with_header(["time"]);
    for series in &chart.series {
        let columns = ["points", "median", "greatest"];
        let named = |column: &str| match chart.series.len() {
            1 => column.to_owned(),
            _ => format!("{}, {column}", series.name),
        };
        table.header.extend(columns.map(named));
    }
    table.header.extend(spans::columns(chart));
    let end = seconds.last().copied().unwrap_or(1.0).max(f64::MIN_POSITIVE);
    for stretch in 0..TABLE_STRETCHES {
        let bound = |index: usize| end * index as f64 / TABLE_STRETCHES as f64;
        let mut row = vec![interval(bound(stretch), bound(stretch + 1))];
        for series in &chart.series {
            row.extend(summary(chart, series, seconds, |at| {
                let place = (at / end * TABLE_STRETCHES as f64) as usize;
                place.min(TABLE_STRETCHES - 1) == stretch
            }));
        }
        row.extend(spans::values(chart, bound(stretch), bound(stretch + 1)));
        table.rows.push(row);
    }
    table
}

fn summary(
    chart: &Chart,
    series: &Series,
    seconds: &[f64],
    is_within: impl Fn(f64) -> bool,
) -> [String; 3] {
    let pairs = seconds.iter().zip(&series.values).filter(|(at, _)| is_within(**at));
    let mut values: Vec<f64> = pairs.filter_map(|(_, value)| finite(*value)).collect();
    values.sort_unstable_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied();
    [count(values.len() as u64), show(chart, median), show(chart, values.last().copied())]
}
