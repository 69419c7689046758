//! The throughput chart: answers per second over the load, and the requested rate.

use super::figure::{Mark, Table, Width, figure, legend};
use super::markup::Markup;
use super::plot::{Axis, Plot};
use super::scale::Scale;
use crate::model::Section;
use crate::units::{duration_tick, rate};

/// The largest number of points of the line; longer loads are shown as means over several seconds.
const POINTS_MAX: usize = 300;
/// The end of the axis, as a multiple of the greatest rate, so that the line is visible.
const HEADROOM: f64 = 1.05;
const SECOND_NS: f64 = 1e9;
/// The shortest last interval that is shown; a shorter one says nothing about the rate.
const SHORTEST_NS: f64 = 5e7;

/// Writes the chart, or nothing if no second was counted.
pub(crate) fn write(markup: &mut Markup, section: &Section) {
    let seconds = &section.throughput_per_second;
    if seconds.is_empty() {
        return;
    }
    let stretch_seconds = seconds.len().div_ceil(POINTS_MAX);
    // The last second ends with the load.
    let (whole_ns, lasted_ns) =
        (seconds.len() as f64 * SECOND_NS, section.duration.as_nanos() as f64);
    let ends_within = lasted_ns > whole_ns - SECOND_NS && lasted_ns < whole_ns;
    let end_ns = if ends_within { lasted_ns } else { whole_ns };
    let edge_ns = |index: usize| ((index * stretch_seconds) as f64 * SECOND_NS).min(end_ns);
    let stretches = seconds.chunks(stretch_seconds).enumerate();
    let means: Vec<f64> = stretches
        .map(|(index, stretch)| (stretch, edge_ns(index + 1) - edge_ns(index)))
        .filter(|(_, length_ns)| *length_ns >= SHORTEST_NS)
        .map(|(stretch, ns)| stretch.iter().map(|c| *c as f64).sum::<f64>() * SECOND_NS / ns)
        .collect();
    let offered = section.offered_rate_per_second.filter(|offered| *offered > 0.0);
    let greatest = means.iter().copied().chain(offered).fold(1.0, f64::max);
    let plot = Plot {
        title: "Responses per second over time",
        attributes: Vec::new(),
        height_pixels: 220,
        x: Axis::new(Scale::linear_until(end_ns), "time since the start", 5, duration_tick),
        y: Axis::new(Scale::linear_to(greatest * HEADROOM), "responses per second", 5, rate),
    };
    let mut table = Table::with_header(["time", "responses per second"]);
    for (index, mean) in means.iter().enumerate() {
        let stretch =
            format!("{} – {}", duration_tick(edge_ns(index)), duration_tick(edge_ns(index + 1)));
        table.rows.push(vec![stretch, rate(*mean)]);
    }
    figure(
        markup,
        ("Throughput", Width::Half),
        "Responses in each second of the load.",
        |markup| {
            let mut entries = vec![("response", Mark::Line, "answered")];
            entries.extend(offered.map(|_| ("offered", Mark::Line, "offered")));
            legend(markup, &entries);
            plot.write(
                markup,
                |markup| {
                    if let Some(offered) = offered {
                        let path = plot.line([(0.0, offered), (end_ns, offered)]);
                        markup.empty("path", &[("d", &path), ("class", "line offered")]);
                    }
                    let steps = means.iter().enumerate().flat_map(|(index, mean)| {
                        [(edge_ns(index), *mean), (edge_ns(index + 1), *mean)]
                    });
                    markup.empty("path", &[("d", &plot.line(steps)), ("class", "line response")]);
                },
                |_| {},
            );
        },
        &table,
    );
}
