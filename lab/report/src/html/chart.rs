//! Charts of any figures: dispatches on their form, and draws lines, areas and bars, each chart
//! with its table.

use super::curves;
use super::figure::{Mark, Table, Width, figure};
use super::groups;
use super::markup::Markup;
use super::plot::{percentage, write_hit};
use super::points;
use super::rows;
use super::scale::Scale;
use super::series::{class_of, finite, mark_of, show, write_bars_box, write_legend};
use super::spans;
use super::time_axis::{SECOND_NS, interval, plot_over_time, write_moments, write_moments_legend};
use crate::chart::{Chart, ChartForm, Series, Unit};
use crate::units::quantile_percent;

/// The end of the axis, as a multiple of the greatest value, so that the greatest value is visible.
const HEADROOM: f64 = 1.05;
/// The number of points of a line that have a mark.
const MARKS_A_LINE: usize = 8;
/// The smallest share of the plot's height at which an area carries its name.
const NAMED_AREA_SHARE: f64 = 0.08;
/// The number by which the length of an axis is divided to get the reach of a name to either side.
const NAME_REACH: usize = 9;
/// The height of a bar in pixels.
const BAR_PIXELS: usize = 30;
/// The width of a character of a label, in percent of the narrowest bar.
const CHARACTER_PERCENT: f64 = 2.7;

pub(crate) fn write(markup: &mut Markup, chart: &Chart) {
    if let ChartForm::Table { columns } = &chart.form {
        return rows::write(markup, chart, columns);
    }
    let draw = |markup: &mut Markup| match &chart.form {
        ChartForm::Lines { seconds, is_logarithmic } => {
            write_lines(markup, chart, seconds, *is_logarithmic);
        }
        ChartForm::Areas { seconds } => write_areas(markup, chart, seconds),
        ChartForm::Bars { rows } => write_bars(markup, chart, rows),
        ChartForm::Groups { rows } => groups::write(markup, chart, rows),
        ChartForm::Percentiles { quantiles } => curves::write(markup, chart, quantiles),
        ChartForm::Points { seconds, ceiling } => points::write(markup, chart, seconds, *ceiling),
        ChartForm::Table { .. } => {}
    };
    let heading = (chart.title.as_str(), Width::Half);
    let table = match &chart.form {
        ChartForm::Points { seconds, .. } => points::table_of(chart, seconds),
        _ => table_of(chart),
    };
    figure(markup, heading, &chart.how_to_read, draw, &table);
}

/// The begin and the end of each interval, in seconds.
fn intervals(seconds: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    std::iter::once(0.0).chain(seconds.iter().copied()).zip(seconds.iter().copied())
}

/// The middle of each interval, and the end of the last one, in nanoseconds.
fn middles_ns(seconds: &[f64]) -> (Vec<f64>, f64) {
    let middles = intervals(seconds).map(|(begin, end)| begin.midpoint(end) * SECOND_NS);
    (middles.collect(), seconds.last().copied().unwrap_or(1.0) * SECOND_NS)
}

fn write_lines(markup: &mut Markup, chart: &Chart, seconds: &[f64], is_logarithmic: bool) {
    let (middles, end_ns) = middles_ns(seconds);
    let all = chart.series.iter().flat_map(|series| &series.values);
    let values = all.filter_map(|value| finite(*value));
    let greatest = values.clone().fold(0.0, f64::max);
    let least = values.filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    // A logarithmic axis does not go below 1: smaller values are not distinguished.
    let scale = match is_logarithmic && greatest > 0.0 {
        true => Scale::logarithmic_around(least, greatest),
        false => Scale::linear_to(greatest * HEADROOM),
    };
    let plot = plot_over_time(chart, end_ns, scale);
    write_legend(markup, chart, mark_of);
    spans::write_legend(markup, chart);
    write_moments_legend(markup, &chart.moments);
    let points = |series: &Series| -> Vec<Option<(f64, f64)>> {
        let places = middles.iter().enumerate();
        places.map(|(at, middle)| series.drawn(at).map(|value| (*middle, value))).collect()
    };
    plot.write(
        markup,
        |markup| {
            spans::write_shades(markup, &plot, chart);
            for (index, series) in chart.series.iter().enumerate() {
                let points = points(series);
                let stretches = points.split(Option::is_none).filter(|part| !part.is_empty());
                let path: String =
                    stretches.map(|part| plot.line(part.iter().flatten().copied())).collect();
                let class = format!("line {}", class_of(index));
                markup.empty("path", &[("d", &path), ("class", &class)]);
            }
        },
        |markup| {
            for (index, series) in chart.series.iter().enumerate() {
                let points: Vec<_> = points(series).into_iter().flatten().collect();
                let step = points.len().div_ceil(MARKS_A_LINE).max(1);
                for (x, y) in points.iter().step_by(step) {
                    let (x, y) = plot.at(*x, *y);
                    mark_of(index).write(markup, &x, &y, &class_of(index));
                }
            }
            write_moments(markup, &plot, &chart.moments);
            write_hover(markup, chart, seconds, end_ns);
            spans::write_lanes(markup, &plot, chart);
        },
    );
}

fn write_areas(markup: &mut Markup, chart: &Chart, seconds: &[f64]) {
    let (middles, end_ns) = middles_ns(seconds);
    // The upper border of each area. The border before it is its lower border.
    let mut borders = vec![vec![0.0; middles.len()]];
    for series in &chart.series {
        let below = &borders[borders.len() - 1];
        let above = below
            .iter()
            .enumerate()
            .map(|(at, sum)| sum + series.drawn(at).unwrap_or(0.0))
            .collect();
        borders.push(above);
    }
    let greatest = borders[borders.len() - 1].iter().copied().fold(0.0, f64::max);
    // An axis of shares ends at the whole.
    let scale = match chart.unit {
        Unit::Share if greatest <= 1.0 + 1e-9 => Scale::linear_until(1.0),
        _ => Scale::linear_to(greatest * HEADROOM),
    };
    let plot = plot_over_time(chart, end_ns, scale);
    write_legend(markup, chart, |_| Mark::Area);
    spans::write_legend(markup, chart);
    write_moments_legend(markup, &chart.moments);
    // The first and the last value are drawn to the ends of the axis.
    let stretched = |border: &[f64]| -> Vec<(f64, f64)> {
        let (Some(first), Some(last)) = (border.first(), border.last()) else { return Vec::new() };
        let inner = middles.iter().copied().zip(border.iter().copied());
        [(0.0, *first)].into_iter().chain(inner).chain([(end_ns, *last)]).collect()
    };
    plot.write(
        markup,
        |markup| {
            for index in 0..chart.series.len() {
                let above = stretched(&borders[index + 1]);
                let below = stretched(&borders[index]);
                let path = plot.line(above.into_iter().chain(below.into_iter().rev()));
                let class = format!("area over-time {}", class_of(index));
                markup.empty("path", &[("d", &format!("{path}Z")), ("class", &class)]);
            }
        },
        |markup| {
            let Scale::Linear { greatest } = plot.y.scale else { return };
            for (index, series) in chart.series.iter().enumerate() {
                let room = |at: usize| room_at(&borders[index], &borders[index + 1], at);
                // Not near the ends, where the name would leave the plot.
                let inner = middles.len() / 6..middles.len() - middles.len() / 6;
                let widest = inner
                    .max_by(|a, b| room(*a).total_cmp(&room(*b)))
                    .filter(|at| greatest > 0.0 && room(*at) >= greatest * NAMED_AREA_SHARE);
                let Some(at) = widest else { continue };
                let height = borders[index][at].midpoint(borders[index + 1][at]);
                let (x, y) = plot.at(middles[at], height);
                let class = format!("on on-{}", class_of(index));
                let place = [("class", class.as_str()), ("x", &x), ("y", &y), ("dy", "4")];
                markup.leaf("text", &place, &series.name);
            }
            write_moments(markup, &plot, &chart.moments);
            write_hover(markup, chart, seconds, end_ns);
            spans::write_lanes(markup, &plot, chart);
        },
    );
}

/// The height that an area has everywhere in the reach of a name around an interval.
fn room_at(below: &[f64], above: &[f64], at: usize) -> f64 {
    let reach = (above.len() / NAME_REACH).max(1);
    let around = at.saturating_sub(reach)..(at + reach + 1).min(above.len());
    let highest = below[around.clone()].iter().copied().fold(0.0, f64::max);
    let lowest = above[around].iter().copied().fold(f64::INFINITY, f64::min);
    lowest - highest
}

/// Writes invisible parts along the axis, whose titles show the figures below the pointer.
fn write_hover(markup: &mut Markup, chart: &Chart, seconds: &[f64], end_ns: f64) {
    for (at, (begin, end)) in intervals(seconds).enumerate() {
        let mut told = interval(begin, end);
        for series in &chart.series {
            told.push_str(&format!("\n{}: {}", series.name, show(chart, series.drawn(at))));
        }
        let (left, width) = (begin * SECOND_NS / end_ns, (end - begin) * SECOND_NS / end_ns);
        write_hit(markup, left, width, &told);
    }
}

fn write_bars(markup: &mut Markup, chart: &Chart, rows: &[String]) {
    let value = |series: &Series, row: usize| series.drawn(row).unwrap_or(0.0);
    let totals: Vec<f64> = (0..rows.len())
        .map(|row| chart.series.iter().map(|series| value(series, row)).sum())
        .collect();
    let longest = totals.iter().copied().fold(0.0, f64::max);
    write_legend(markup, chart, |_| Mark::Area);
    for (row, name) in rows.iter().enumerate() {
        markup.element("p", &[("class", "bar-label")], |markup| {
            markup.leaf("strong", &[], name);
            // The number stays with its unit where the line is short.
            let total = chart.unit.show(totals[row]).replace(' ', "\u{a0}");
            markup.text(&format!(" {total}"));
        });
        let segments = chart.series.iter().enumerate().map(|(index, series)| {
            let value = value(series, row);
            let width = if longest > 0.0 { value / longest } else { 0.0 };
            let told = format!("{}\n{}", series.name, chart.unit.show(value));
            Segment { class: class_of(index), name: &series.name, told, width }
        });
        write_stack(markup, &format!("{}: {name}", chart.title), segments);
    }
}

/// A part of a bar.
pub(super) struct Segment<'text> {
    pub(super) class: String,
    pub(super) name: &'text str,
    /// The text that is shown at the pointer.
    pub(super) told: String,
    /// The width as a share of the plot's width.
    pub(super) width: f64,
}

/// Writes a stacked bar.
pub(super) fn write_stack<'text>(
    markup: &mut Markup,
    title: &str,
    segments: impl Iterator<Item = Segment<'text>>,
) {
    write_bars_box(markup, title, BAR_PIXELS, |markup| {
        let mut left = 0.0;
        for segment in segments.filter(|segment| segment.width > 0.0) {
            write_segment(markup, &segment, left);
            left += segment.width;
        }
    });
}

/// Writes a part of a bar, from `left` on, with its name if there is room for it.
fn write_segment(markup: &mut Markup, segment: &Segment<'_>, left: f64) {
    let Segment { class, name, told, width } = segment;
    let (x, across) = (percentage(left), percentage(*width));
    let area = format!("area {class}");
    let place = [("x", x.as_str()), ("y", "1"), ("width", &across), ("height", "28")];
    markup.element("rect", &[&place[..], &[("class", area.as_str())]].concat(), |markup| {
        markup.leaf("title", &[], told);
    });
    if width * 100.0 > (name.chars().count() as f64 + 1.5) * CHARACTER_PERCENT {
        let middle = percentage(left + width / 2.0);
        let class = format!("on on-{class}");
        let place = [("class", class.as_str()), ("x", middle.as_str()), ("y", "20")];
        markup.leaf("text", &place, name);
    }
}

/// The table of a chart: a row for each interval, bar or quantile.
fn table_of(chart: &Chart) -> Table {
    let mut stretches: Vec<(f64, f64)> = Vec::new();
    let (first, names): (&str, Vec<String>) = match &chart.form {
        ChartForm::Lines { seconds, .. } | ChartForm::Areas { seconds } => {
            stretches.extend(intervals(seconds));
            ("time", stretches.iter().map(|(begin, end)| interval(*begin, *end)).collect())
        }
        ChartForm::Bars { rows } | ChartForm::Groups { rows } => ("", rows.clone()),
        ChartForm::Percentiles { quantiles } => {
            let name = |quantile: &f64| format!("{} %", quantile_percent(*quantile));
            ("percentile", quantiles.iter().map(name).collect())
        }
        // These forms have their own tables.
        ChartForm::Points { .. } | ChartForm::Table { .. } => ("", Vec::new()),
    };
    let mut table = Table::with_header([first]);
    table.header.extend(chart.series.iter().map(|series| series.name.clone()));
    if !stretches.is_empty() {
        table.header.extend(spans::columns(chart));
    }
    for (at, name) in names.into_iter().enumerate() {
        let values = chart.series.iter().map(|series| show(chart, series.drawn(at)));
        let mut row: Vec<_> = [name].into_iter().chain(values).collect();
        if let Some((begin, end)) = stretches.get(at) {
            row.extend(spans::values(chart, *begin, *end));
        }
        table.rows.push(row);
    }
    table
}
