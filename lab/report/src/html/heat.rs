//! The heat map: the number of requests by time and response time. Percentiles over time show one
//! line even if there are two groups of requests; here both are visible.

use std::collections::BTreeMap;

use super::figure::{Mark, Table, Width, figure, legend};
use super::markup::Markup;
use super::plot::{Axis, Plot, write_hit};
use super::scale::Scale;
use crate::model::{Section, TimelineInterval};
use crate::units::{count, duration, duration_tick};

/// The largest number of columns; in longer runs, each has several intervals.
const COLUMNS_MAX: usize = 80;
/// The number of points of a jitter plot that take about as many bytes of the page as one column.
const POINTS_PER_COLUMN: usize = 70;
/// The number of rows for each doubling of the response time.
const ROWS_PER_DOUBLING: f64 = 3.0;
/// The number of shades, from few requests to many.
const SHADES: usize = 8;
/// The number of rows of the table.
const TABLE_ROWS: usize = 20;

/// A column: an interval of time, and its cells by row.
struct Column {
    begin_ns: u64,
    end_ns: u64,
    stretch: TimelineInterval,
    cells: Vec<(i32, u64)>,
}

/// Writes the chart, or nothing if there is no timeline with answers. It takes about as many bytes
/// of the page as `points_max` points.
pub(crate) fn write(markup: &mut Markup, section: &Section, points_max: usize) {
    let columns_max = (points_max / POINTS_PER_COLUMN).clamp(TABLE_ROWS, COLUMNS_MAX);
    let columns = columns_of(&section.timeline, columns_max);
    let cells = || columns.iter().flat_map(|column| &column.cells);
    let most = cells().map(|(_, count)| *count).max().unwrap_or(0);
    let rows = || cells().map(|(row, _)| *row);
    let (Some(lowest), Some(highest)) = (rows().min(), rows().max()) else { return };
    let end_ns = columns.last().map_or(1, |column| column.end_ns) as f64;
    let plot = Plot {
        title: "Response times over time",
        attributes: Vec::new(),
        height_pixels: 300,
        x: Axis::new(Scale::linear_until(end_ns), "time since the start", 5, duration_tick),
        y: Axis::new(
            Scale::logarithmic_around(floor_of(lowest), floor_of(highest + 1)),
            "response time, logarithmic",
            9,
            duration_tick,
        ),
    };
    figure(
        markup,
        ("Heat map", Width::Whole),
        "How many requests took how long at which time: the stronger the shade, the more. Each \
         shade stands for several times as many requests as the one before.",
        |markup| {
            write_legend(markup, most);
            plot.write(
                markup,
                |markup| write_cells(markup, &plot, &columns, most),
                |markup| write_hover(markup, &columns, end_ns),
            );
        },
        &table_of(&columns_of(&section.timeline, TABLE_ROWS)),
    );
}

fn row_of(time_ns: u64) -> i32 {
    ((time_ns.max(1) as f64).log2() * ROWS_PER_DOUBLING).floor() as i32
}

/// The shortest response time of a row.
fn floor_of(row: i32) -> f64 {
    (f64::from(row) / ROWS_PER_DOUBLING).exp2()
}

fn columns_of(timeline: &[TimelineInterval], columns_max: usize) -> Vec<Column> {
    joined(timeline, columns_max).into_iter().map(Column::of).collect()
}

/// Joins the timeline to at most `stretches_max` intervals.
pub(super) fn joined(timeline: &[TimelineInterval], stretches_max: usize) -> Vec<TimelineInterval> {
    let each = timeline.len().div_ceil(stretches_max.max(1)).max(1);
    timeline.chunks(each).map(join).collect()
}

fn join(stretches: &[TimelineInterval]) -> TimelineInterval {
    let mut sum =
        TimelineInterval { begin_ns: stretches[0].begin_ns, ..TimelineInterval::default() };
    let mut times = BTreeMap::new();
    for stretch in stretches {
        let end_ns = stretch.begin_ns.saturating_add(stretch.length_ns);
        sum.length_ns = end_ns.saturating_sub(sum.begin_ns);
        sum.answered = sum.answered.saturating_add(stretch.answered);
        sum.errors = sum.errors.saturating_add(stretch.errors);
        sum.backlog = stretch.backlog;
        for (time_ns, number) in &stretch.response_times {
            let sum = times.entry(*time_ns).or_insert(0_u64);
            *sum = sum.saturating_add(*number);
        }
    }
    sum.response_times = times.into_iter().collect();
    sum
}

impl Column {
    fn of(stretch: TimelineInterval) -> Column {
        let mut cells = BTreeMap::new();
        for (time_ns, number) in &stretch.response_times {
            let sum = cells.entry(row_of(*time_ns)).or_insert(0_u64);
            *sum = sum.saturating_add(*number);
        }
        let (begin_ns, cells) = (stretch.begin_ns, cells.into_iter().collect());
        Column { begin_ns, end_ns: begin_ns.saturating_add(stretch.length_ns), stretch, cells }
    }
}

/// The shade of a count: 0 for one request, the last shade for the greatest count.
fn shade_of(number: u64, most: u64) -> usize {
    let place = (number.max(1) as f64).ln() / (most.max(2) as f64).ln();
    ((place * SHADES as f64) as usize).min(SHADES - 1)
}

fn write_legend(markup: &mut Markup, most: u64) {
    let bound =
        |shade: usize| (most.max(2) as f64).powf(shade as f64 / SHADES as f64).ceil() as u64;
    let classes: Vec<String> = (0..SHADES).map(|shade| format!("heat-{shade}")).collect();
    let names: Vec<String> =
        (0..SHADES).map(|shade| format!("from {}", count(bound(shade)))).collect();
    let mut entries: Vec<(&str, Mark, &str)> = Vec::new();
    for (shade, (class, name)) in classes.iter().zip(&names).enumerate() {
        // With few requests, neighbouring shades begin at the same number.
        if shade + 1 == SHADES || bound(shade) < bound(shade + 1) {
            entries.push((class, Mark::Area, name));
        }
    }
    legend(markup, &entries);
}

/// Writes the cells. All cells of a shade are one path, which takes the fewest bytes.
fn write_cells(markup: &mut Markup, plot: &Plot<'_>, columns: &[Column], most: u64) {
    let mut paths = vec![String::new(); SHADES];
    for column in columns {
        for (row, number) in &column.cells {
            let (left, bottom) = plot.in_box(column.begin_ns as f64, floor_of(*row));
            let (right, top) = plot.in_box(column.end_ns as f64, floor_of(row + 1));
            let (width, height) = (right - left, bottom - top);
            let cell = format!("M{left} {top}h{width}v{height}h-{width}z");
            paths[shade_of(*number, most)].push_str(&cell);
        }
    }
    for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let class = format!("heat heat-{shade}");
        markup.empty("path", &[("class", class.as_str()), ("d", path)]);
    }
}

fn write_hover(markup: &mut Markup, columns: &[Column], end_ns: f64) {
    for column in columns {
        let (begin, end) = (column.begin_ns as f64, column.end_ns as f64);
        let [answered, p50, p99, greatest, ..] = words_of(column);
        let told = format!(
            "{} – {}\n{answered} answers\np50 {p50}, p99 {p99}, greatest {greatest}",
            duration_tick(begin),
            duration_tick(end)
        );
        write_hit(markup, begin / end_ns, (end - begin) / end_ns, &told);
    }
}

fn words_of(column: &Column) -> [String; 6] {
    let stretch = &column.stretch;
    let all = stretch.response_times.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n));
    let at = |quantile: f64| {
        let rank = (all as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        let found = stretch.response_times.iter().find(|(_, number)| {
            seen = seen.saturating_add(*number);
            seen >= rank
        });
        found.map_or_else(|| "-".to_owned(), |(time_ns, _)| duration(*time_ns as f64))
    };
    [
        count(stretch.answered),
        at(0.5),
        at(0.99),
        at(1.0),
        count(stretch.errors),
        count(stretch.backlog),
    ]
}

fn table_of(columns: &[Column]) -> Table {
    let mut table =
        Table::with_header(["time", "answers", "p50", "p99", "greatest", "errors", "backlog"]);
    for column in columns {
        let (begin, end) = (column.begin_ns as f64, column.end_ns as f64);
        let mut row = vec![format!("{} – {}", duration_tick(begin), duration_tick(end))];
        row.extend(words_of(column));
        table.rows.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_rise_with_the_count_and_rows_with_the_time() {
        assert_eq!([1, 10, 1_000_000].map(|n| shade_of(n, 1_000_000)), [0, 1, 7]);
        assert_eq!(shade_of(1, 1), 0);
        for time_ns in [1, 2, 999, 1_000_000, u64::MAX] {
            let row = row_of(time_ns);
            let time_ns = time_ns as f64;
            assert!(floor_of(row) <= time_ns * 1.000_001 && floor_of(row + 1) > time_ns * 0.999);
        }
    }

    #[test]
    fn columns_have_the_sums_of_their_intervals() {
        let stretch = |index: u64| TimelineInterval {
            begin_ns: index * 10,
            length_ns: 10,
            answered: 2,
            errors: 1,
            backlog: index,
            response_times: vec![(100, 1), (100 + index, 1)],
        };
        let timeline: Vec<TimelineInterval> = (0..200).map(stretch).collect();
        let columns = columns_of(&timeline, COLUMNS_MAX);
        assert_eq!(columns.len(), 67);
        assert_eq!(columns.iter().map(|column| column.stretch.answered).sum::<u64>(), 400);
        let cells = columns.iter().flat_map(|column| &column.cells);
        assert_eq!(cells.map(|(_, number)| number).sum::<u64>(), 400);
        assert_eq!((columns[66].begin_ns, columns[66].end_ns), (1_980, 2_000));
        assert_eq!(columns[0].stretch.backlog, 2);
    }
}
