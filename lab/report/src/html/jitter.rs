//! Jitter plots: scatter plots of the response times of single requests over time, with and without
//! the outliers.

use super::figure::{Table, Width, figure};
use super::markup::Markup;
use super::plot::{Axis, Plot};
use super::scale::Scale;
use crate::model::{Sample, Section};
use crate::thinning::thin_out;
use crate::units::{count, duration, duration_tick};

/// The largest number of points in the jitter plot of one section.
const JITTER_POINTS_MAX: usize = 4_000;
/// The number of intervals of time, each a row, in the table that summarizes the requests.
const TABLE_INTERVALS: usize = 20;
/// The number of slowest requests that the table lists.
const TABLE_SLOWEST: usize = 10;
/// The plot without outliers reaches at least this multiple of the 99.9th percentile. Its axis ends
/// at the next round number.
const ZOOM_MARGIN: f64 = 1.1;

/// Writes both plots with at most `points_max` points, or nothing if there are no samples.
pub(crate) fn write(markup: &mut Markup, section: &Section, points_max: usize) {
    let samples = thin_out(&section.samples, points_max.min(JITTER_POINTS_MAX));
    let Some(last) = samples.last() else { return };
    let greatest_ns = samples.iter().map(|s| s.response_time_ns).max().unwrap_or(0) as f64;
    let end_ns = (section.duration.as_nanos() as f64).max(last.offset_ns as f64);
    let ceiling_ns = section.response_time.value_at_quantile(0.999) as f64 * ZOOM_MARGIN;
    let shown = match samples.len() < section.samples.len() {
        true => format!(
            "{} of {} recorded requests are drawn: of each group of consecutive requests the first \
             and the slowest.",
            count(samples.len() as u64),
            count(section.samples.len() as u64)
        ),
        false => format!("All {} recorded requests are drawn.", count(samples.len() as u64)),
    };
    figure(
        markup,
        ("Jitter over time", Width::Whole),
        &format!("Each point is a request: when it was due, and its response time. {shown}"),
        |markup| {
            markup.element("div", &[("class", "pair")], |markup| {
                markup.element("div", &[], |markup| {
                    markup.leaf("h4", &[], "All points");
                    let title = "Response time of single requests over time";
                    write_plot(markup, &plot_of(title, end_ns, greatest_ns), &samples);
                });
                write_without_outliers(markup, end_ns, ceiling_ns, &samples);
            });
        },
        // The points that are drawn are no sample of all requests: half of them are maxima.
        &table_of(&section.samples, end_ns),
    );
}

/// Writes the second plot, unless it would leave nothing out and repeat the first one.
fn write_without_outliers(markup: &mut Markup, end_ns: f64, ceiling_ns: f64, samples: &[Sample]) {
    let title = "The same without the outliers";
    let plot = plot_of(title, end_ns, ceiling_ns);
    let Scale::Linear { greatest: top_ns } = plot.y.scale else { return };
    let below = samples.iter().filter(|sample| sample.response_time_ns as f64 <= top_ns);
    let below: Vec<Sample> = below.copied().collect();
    let above = samples.len() - below.len();
    if above == 0 {
        return;
    }
    markup.element("div", &[], |markup| {
        markup.leaf("h4", &[], &format!("{title}: {} points lie above", count(above as u64)));
        write_plot(markup, &plot, &below);
    });
}

fn plot_of(title: &str, end_ns: f64, greatest_ns: f64) -> Plot<'_> {
    let x = Scale::linear_until(end_ns);
    let y = Scale::linear_to(greatest_ns.max(1.0));
    let (Scale::Linear { greatest: across }, Scale::Linear { greatest: up }) = (x, y) else {
        unreachable!("both axes are linear")
    };
    Plot {
        title,
        attributes: vec![
            ("class", "jitter".to_owned()),
            ("data-x-ns", format!("{across:.0}")),
            ("data-y-ns", format!("{up:.0}")),
        ],
        height_pixels: 280,
        x: Axis::new(x, "time since the start", 5, duration_tick),
        y: Axis::new(y, "response time", 5, duration_tick),
    }
}

/// Writes the points. All points are one path: a line of length zero with round caps is drawn as a
/// dot, and takes the fewest bytes.
fn write_plot(markup: &mut Markup, plot: &Plot<'_>, samples: &[Sample]) {
    let mut path = String::with_capacity(samples.len() * 12);
    for sample in samples {
        let (x, y) = plot.in_box(sample.offset_ns as f64, sample.response_time_ns as f64);
        path.push_str(&format!("M{x} {y}h0"));
    }
    plot.write(markup, |markup| markup.empty("path", &[("class", "dots"), ("d", &path)]), |_| {});
}

fn table_of(samples: &[Sample], end_ns: f64) -> Table {
    let mut table = Table::with_header(["time", "requests", "median", "greatest"]);
    let interval_of = |sample: &Sample| {
        let position = sample.offset_ns as f64 / end_ns.max(1.0) * TABLE_INTERVALS as f64;
        (position as usize).min(TABLE_INTERVALS - 1)
    };
    for interval in 0..TABLE_INTERVALS {
        let within = samples.iter().filter(|sample| interval_of(sample) == interval);
        let mut times: Vec<u64> = within.map(|sample| sample.response_time_ns).collect();
        times.sort_unstable();
        let Some(greatest) = times.last() else { continue };
        let bound = |index: usize| duration_tick(end_ns * index as f64 / TABLE_INTERVALS as f64);
        table.rows.push(vec![
            format!("{} – {}", bound(interval), bound(interval + 1)),
            count(times.len() as u64),
            duration(times[times.len() / 2] as f64),
            duration(*greatest as f64),
        ]);
    }
    let mut slowest = samples.to_vec();
    slowest.sort_by_key(|sample| std::cmp::Reverse(sample.response_time_ns));
    for (rank, sample) in slowest.iter().take(TABLE_SLOWEST).enumerate() {
        let time = duration(sample.response_time_ns as f64);
        let name = format!("slowest {}: at {}", rank + 1, duration(sample.offset_ns as f64));
        table.rows.push(vec![name, "1".to_owned(), time.clone(), time]);
    }
    table
}
