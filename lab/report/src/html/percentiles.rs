//! The percentile curve: latency over 1/(1−p), as the client saw it and as the server spent it.

use super::figure::{Mark, Table, Width, figure, legend};
use super::markup::Markup;
use super::plot::{Axis, Plot, write_hit};
use super::scale::Scale;
use crate::model::Section;
use crate::quantiles::{Curve, NAMED_QUANTILES};
use crate::units::{duration, duration_tick, quantile_percent};

/// The number of steps of a curve from its left end to its right end.
const CURVE_STEPS: u32 = 160;
/// The number of parts of the axis that react to the pointer.
const HOVER_STEPS: u32 = 64;
/// The quantiles at which the axis is labelled and curves have marks.
const MARKED_QUANTILES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

/// The largest number of decimals of a percentile.
const DIGITS_MAX: usize = 9;
/// The height of the plot, about that of the stacked bars beside it.
const HEIGHT_PIXELS: u32 = 350;

/// One of the curves.
struct Line<'section> {
    name: &'static str,
    class: &'static str,
    mark: Mark,
    curve: Curve<'section>,
}

fn lines_of(section: &Section) -> Vec<Line<'_>> {
    let line = |name, class, mark, curve| Line { name, class, mark, curve };
    let response = Curve::Client(&section.response_time);
    let service = section.service_time.as_ref().map(Curve::Client);
    let server = section.account.as_ref().map(|account| Curve::Server(&account.total));
    let mut lines = vec![line("client: response time", "response", Mark::Circle, response)];
    lines.extend(service.map(|curve| line("client: service time", "service", Mark::Square, curve)));
    lines.extend(server.map(|curve| line("server: total", "server", Mark::Triangle, curve)));
    lines.retain(|line| line.curve.count() > 0);
    lines
}

/// Writes the chart, or nothing if no request was counted.
pub(crate) fn write(markup: &mut Markup, section: &Section) {
    let lines = lines_of(section);
    if lines.is_empty() {
        return;
    }
    let plot = plot_of(&lines);
    figure(
        markup,
        ("Percentiles", Width::Half),
        "How slow the slowest requests are: at 99 %, one request in a hundred takes longer. \
         Response time counts from the intended start, service time from the actual send, the \
         server's total from the request received to the response written.",
        |markup| {
            let entries: Vec<_> =
                lines.iter().map(|line| (line.class, line.mark, line.name)).collect();
            legend(markup, &entries);
            plot.write(
                markup,
                |markup| {
                    for line in &lines {
                        let path = plot.line(points(line));
                        let class = format!("line {}", line.class);
                        markup.empty("path", &[("d", &path), ("class", &class)]);
                    }
                },
                |markup| {
                    lines.iter().for_each(|line| write_points(markup, &plot, line));
                    write_hover(markup, &plot, &lines);
                },
            );
        },
        &table_of(&lines),
    );
}

/// The position of a quantile on the axis, by its distance from 100 %: 0 at 0 %, 1 at 90 %, 2 at 99
/// %.
pub(super) fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

fn quantile_at(nines: f64) -> f64 {
    1.0 - 10_f64.powf(-nines)
}

/// The end of a curve: the position of its maximum, which is one of this many values.
fn end_of(curve: Curve<'_>) -> f64 {
    (curve.count().max(2) as f64).log10()
}

fn points(line: &Line<'_>) -> Vec<(f64, f64)> {
    let end = end_of(line.curve);
    let places = (0..=CURVE_STEPS).map(|step| end * f64::from(step) / f64::from(CURVE_STEPS));
    places.map(|nines| (nines, line.curve.value_ns(quantile_at(nines)) as f64)).collect()
}

fn plot_of(lines: &[Line<'_>]) -> Plot<'static> {
    let least = lines.iter().map(|line| line.curve.value_ns(0.0)).min().unwrap_or(1);
    let greatest = lines.iter().map(|line| line.curve.value_ns(1.0)).max().unwrap_or(1);
    let end = lines.iter().map(|line| end_of(line.curve)).fold(1.0, f64::max);
    let scale = Scale::logarithmic_around(least as f64, greatest as f64);
    Plot {
        title: "Latency by percentile",
        attributes: Vec::new(),
        height_pixels: HEIGHT_PIXELS,
        x: percentile_axis(&MARKED_QUANTILES, end),
        y: Axis::new(scale, "latency, logarithmic", 9, duration_tick),
    }
}

/// An axis of percentiles up to the position `end`, with labels at those of the `marked` quantiles
/// that are on it.
pub(super) fn percentile_axis(marked: &[f64], end: f64) -> Axis {
    let marked = marked.iter().filter(|quantile| nines(**quantile) <= end + 0.01);
    Axis {
        scale: Scale::linear_until(end),
        title: "percentile (distance to 100 %, logarithmic)".to_owned(),
        ticks: marked.map(|q| (nines(*q), quantile_percent(*q))).collect(),
    }
}

fn write_points(markup: &mut Markup, plot: &Plot<'_>, line: &Line<'_>) {
    for quantile in MARKED_QUANTILES.iter().filter(|quantile| line.curve.resolves(**quantile)) {
        let value_ns = line.curve.value_ns(*quantile) as f64;
        let (x, y) = plot.at(nines(*quantile), value_ns);
        line.mark.write(markup, &x, &y, line.class);
    }
}

/// Writes invisible parts along the axis, whose titles show the figures below the pointer.
fn write_hover(markup: &mut Markup, plot: &Plot<'_>, lines: &[Line<'_>]) {
    let Scale::Linear { greatest: end } = plot.x.scale else { return };
    let width = 1.0 / f64::from(HOVER_STEPS);
    for step in 0..HOVER_STEPS {
        let left = f64::from(step) * width;
        let quantile = quantile_at(end * (left + 0.5 * width));
        let digits = (nines(quantile).ceil() as usize).saturating_sub(1).min(DIGITS_MAX);
        let mut told = format!("{:.digits$} %", quantile * 100.0);
        for line in lines.iter().filter(|line| line.curve.resolves(quantile)) {
            let value = duration(line.curve.value_ns(quantile) as f64);
            told.push_str(&format!("\n{}: {value}", line.name));
        }
        write_hit(markup, left, width, &told);
    }
}

fn table_of(lines: &[Line<'_>]) -> Table {
    let mut table = Table::with_header(["percentile"]);
    table.header.extend(lines.iter().map(|line| line.name.to_owned()));
    let resolved = |quantile: &&f64| lines.iter().any(|line| line.curve.resolves(**quantile));
    for quantile in NAMED_QUANTILES.iter().filter(resolved) {
        let name = match quantile {
            1.0 => "100 % (greatest)".to_owned(),
            part => format!("{} %", quantile_percent(*part)),
        };
        let mut row = vec![name];
        row.extend(lines.iter().map(|line| match line.curve.resolves(*quantile) {
            true => duration(line.curve.value_ns(*quantile) as f64),
            false => "too few".to_owned(),
        }));
        table.rows.push(row);
    }
    table
}
