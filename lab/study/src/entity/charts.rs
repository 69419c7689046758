//! The charts of the study: the engines side by side, then each kind of load with its percentiles,
//! histogram, account and jitter. The original's figures are beside ours.

use pellucid_report::{Chart, ChartForm, ChartSection, Sample, Series, Unit, thin_out};

use super::load_runs::LoadRuns;
use super::measure::Row;
use super::original::Original;
use super::run::EntityRun;
use super::workload::LoadKind;
use super::{job_impact, shares};
use crate::jitter::{Jitter, ZOOM_MARGIN};
use crate::jobs::counts;
use crate::means;
use crate::response_histogram::{BAR_ENDS_US, BARS, histogram_of, shares_of};

/// The names of the original in columns and rows, with the tool that measured its figures.
const ORIGINAL: &str = "the original, by wrk2";
const ORIGINAL_PROFILE: &str = "the original, by its profiler";
/// The percentiles of wrk2's table, and some higher ones.
const PERCENTILES: [(&str, f64); 11] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.5", 0.995),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
    ("p99.9999", 0.999999),
    ("greatest", 1.0),
];
/// The percentiles of the curves, as in wrk2's spectrum.
const CURVE: [f64; 16] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.85, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995,
    0.99999,
];
/// The most points of a jitter plot.
const POINTS_MAX: usize = 3_000;
/// The largest height of a zoomed plot as a share of the whole plot's height.
const ZOOMED_SHARE_MAX: f64 = 0.8;

pub(super) fn sections(measured: &EntityRun) -> Vec<ChartSection> {
    let side_by_side = ChartSection::new(
        "Side by side",
        "Rates of the engines on one connection, and what their stores did meanwhile. Rates of the \
         original are those of another machine.",
        vec![rates(measured), overload(measured), slowest(measured), jobs(measured)],
    );
    let each = LoadKind::ALL.into_iter().map(|work| section(measured, work));
    [side_by_side].into_iter().chain(each).collect()
}

/// A table with a column for each engine and one for the original.
fn table(
    measured: &EntityRun,
    words: (String, &str, &str),
    unit: Unit,
    rows: Vec<(String, Vec<Option<f64>>)>,
) -> Chart {
    let names = measured.engines.iter().map(|engine| engine.name().to_owned());
    let original = match unit {
        Unit::PerSecond | Unit::Nanoseconds => ORIGINAL,
        Unit::Share => ORIGINAL_PROFILE,
        _ => "the original",
    };
    let columns = names.chain([original.to_owned()]).collect();
    let series = rows.into_iter().map(|(name, values)| Series::new(name, values));
    Chart::new(words, unit, ChartForm::Table { columns }, series)
}

fn rates(measured: &EntityRun) -> Chart {
    let rows = LoadKind::ALL.into_iter().flat_map(|work| {
        let original = Original::of(work);
        let of = |value: &dyn Fn(&LoadRuns<'_>) -> Option<f64>, original: f64| {
            measured.of(work).iter().map(value).chain([Some(original)]).collect()
        };
        let answered = |loads: &LoadRuns<'_>| {
            let of = |row: &Row| Some(row.result.requests_per_second());
            loads.estimate("", Unit::PerSecond, of).value()
        };
        [
            (
                format!("{}, the highest", work.title()),
                of(&|loads| Some(loads.first().highest), original.reached),
            ),
            (
                format!("{}, put on", work.title()),
                of(&|loads| Some(loads.first().rate), original.rate),
            ),
            (format!("{}, answered of that", work.title()), of(&answered, original.answered)),
        ]
    });
    let how = if measured.is_found {
        "The highest rate is what --find-max holds with the 99th percentile that the original took \
         for stable: 82 ms for PUT, 47 ms for GET. There, it is what was answered of 20,000."
    } else {
        "The highest rate is what a closed loop reaches, in which each request waits for the \
         answer to the one before. There, it is what was answered of 20,000."
    };
    let names = ("rates".to_owned(), "Requests a second", how);
    table(measured, names, Unit::PerSecond, rows.collect())
}

/// Response times at the rate that the original could not hold.
fn overload(measured: &EntityRun) -> Chart {
    let rows = LoadKind::ALL.into_iter().flat_map(|work| {
        let rows = measured.overload.iter().filter(move |row| row.work == work);
        let of = |value: &dyn Fn(&Row) -> f64, original: Option<f64>| {
            rows.clone().map(|row| Some(value(row))).chain([original]).collect()
        };
        let [mean, greatest] = Original::of(work).overload_ns.map(Some);
        let name = |what: &str| format!("{}, {what}", work.title());
        [
            (name("mean"), of(&|row| row.result.times.response.mean(), mean)),
            (name("p50"), of(&|row| row.at(0.5), None)),
            (name("p99"), of(&|row| row.at(0.99), None)),
            (name("greatest"), of(&|row| row.at(1.0), greatest)),
        ]
    });
    let names = (
        "overload".to_owned(),
        "Response times when 20,000 requests/s are asked for",
        "On one connection, from the intended start: what cannot be answered at once waits, and \
         the longer the load, the longer. The verdict of these loads is among the loads below.",
    );
    table(measured, names, Unit::Nanoseconds, rows.collect())
}

/// The main chart of the study: the percentile spectrum of PUT.
pub(super) fn picture(measured: &EntityRun) -> Chart {
    curves(measured, LoadKind::Put, "put_picture")
}

/// The percentile spectrum of each engine and of the original.
fn curves(measured: &EntityRun, work: LoadKind, name: &str) -> Chart {
    let ours = measured.of(work);
    let ours = ours.iter().map(|loads| {
        let times = loads.times();
        let at = |quantile: &f64| Some(times.value_at_quantile(*quantile) as f64);
        Series::new(loads.engine.name(), CURVE.iter().map(at).collect())
    });
    let theirs = CURVE.iter().map(|quantile| Some(Original::of(work).at(*quantile))).collect();
    let words = (
        name,
        format!("Percentile spectrum of {}", work.title()),
        "The response time by the share of requests that took no longer, of all runs together.",
    );
    let form = ChartForm::Percentiles { quantiles: CURVE.to_vec() };
    Chart::new(words, Unit::Nanoseconds, form, ours.chain([Series::new(ORIGINAL, theirs)]))
}

/// The slowest requests with and without flushes and compactions.
fn slowest(measured: &EntityRun) -> Chart {
    let rows = LoadKind::ALL.into_iter().flat_map(|work| {
        let of = |value: fn(job_impact::JobImpact) -> f64| {
            let beside = |row: &Row| job_impact::of(row).map(value);
            let loads = measured.of(work);
            let medians = loads.iter().map(|on| on.estimate("", Unit::Nanoseconds, beside).value());
            medians.chain([None]).collect()
        };
        [
            (format!("{} beside a job", work.title()), of(|beside| beside.slowest_beside_ns)),
            (format!("{} without", work.title()), of(|beside| beside.slowest_without_ns)),
        ]
    });
    let names = (
        "slowest".to_owned(),
        "The slowest requests beside flushes and compactions",
        "Each load is cut into 400 stretches. Of the slowest request of each: the median of the \
         stretches in which a flush or compaction ran, and of the others; of the runs the median. \
         None where there are too few of either.",
    );
    table(measured, names, Unit::Nanoseconds, rows.collect())
}

/// The number of flushes and compactions.
fn jobs(measured: &EntityRun) -> Chart {
    let kinds = ["flushes", "compactions"];
    let rows = kinds.into_iter().enumerate().flat_map(|(at, kind)| {
        let filled = measured.filling.iter().map(|counts| Some(counts[at] as f64));
        let filling = (format!("{kind} while it was filled"), filled.chain([None]).collect());
        let loads = LoadKind::ALL.into_iter().map(move |work| {
            let all = measured.of(work);
            let counted = all.iter().map(|loads| Some(counts(&loads.first().spans)[at] as f64));
            (format!("{kind} during {}", work.title()), counted.chain([None]).collect())
        });
        [filling].into_iter().chain(loads)
    });
    let names = (
        "jobs".to_owned(),
        "Flushes and compactions",
        "How many there were: by the record of background jobs of the embedded engine, and by the \
         log of events of RocksDB, in the first run. When they were is marked in the jitter plots.",
    );
    table(measured, names, Unit::Count, rows.collect())
}

fn section(measured: &EntityRun, work: LoadKind) -> ChartSection {
    let loads = measured.of(work);
    let captions = loads.iter().map(|on| {
        let row = on.first();
        let share = on.estimate("", Unit::Share, |row| Some(job_impact::time_share(row)));
        format!(
            "{}: {} requests/s, {} of the highest rate, {} runs of {:.1} s, {share} of the time \
             beside a job.",
            on.engine.name(),
            Unit::PerSecond.show(row.rate),
            Unit::Share.show(row.rate / row.highest.max(1.0)),
            on.rows().len(),
            row.result.duration.as_secs_f64()
        )
    });
    let captions: Vec<String> = captions.collect();
    let mut charts = vec![
        percentiles(measured, work),
        percentiles_by_wrk2(measured, work),
        curves(measured, work, &format!("{}_curves", work.name())),
        histogram(measured, work),
        account(&loads, work),
    ];
    charts.extend(loads.iter().flat_map(|on| jitter(on.first())));
    charts.push(processor(measured, work));
    ChartSection::new(
        work.title(),
        format!(
            "{} of random keys on one connection at a constant rate, each request meant to start \
             on schedule whether the last one was answered or not. {}",
            work.title(),
            captions.join(" ")
        ),
        charts,
    )
}

fn percentiles(measured: &EntityRun, work: LoadKind) -> Chart {
    let (loads, original) = (measured.of(work), Original::of(work));
    let row = |name: &str, value: &dyn Fn(&LoadRuns<'_>) -> f64, original: Option<f64>| {
        let ours = loads.iter().map(|on| Some(value(on)));
        (name.to_owned(), ours.chain([original]).collect())
    };
    let mut rows: Vec<_> = PERCENTILES
        .iter()
        .map(|(name, at)| {
            let value = |on: &LoadRuns<'_>| on.times().value_at_quantile(*at) as f64;
            row(name, &value, Some(original.at(*at)))
        })
        .collect();
    rows.push(row("mean", &|on| on.times().mean(), Some(original.mean_ns)));
    let processor = |on: &LoadRuns<'_>| {
        let of = |row: &Row| Some(row.processor_by_request_ns());
        on.estimate("", Unit::Nanoseconds, of).value().unwrap_or(0.0)
    };
    rows.push(row("processor time by request", &processor, None));
    let names = (
        format!("{}_percentiles", work.name()),
        "Response times",
        "From the intended start to the answer, as the client saw it, of all runs together. Of \
         percentiles beyond the number of requests, the greatest time is shown, as wrk2 does. \
         Those of the original that it does not print lie between those that it does. Ours are \
         taken to the microsecond and those of the original by wrk2, whose timer of a millisecond \
         is in them: the next table has like beside like.",
    );
    table(measured, names, Unit::Nanoseconds, rows)
}

/// Our response times measured with wrk2's pacing, beside the original's.
fn percentiles_by_wrk2(measured: &EntityRun, work: LoadKind) -> Chart {
    let times: Vec<_> = measured.of(work).iter().map(LoadRuns::times_by_wrk2).collect();
    let rows = PERCENTILES.iter().map(|(name, at)| {
        let ours = times.iter().map(|times| Some(times.value_at_quantile(*at) as f64));
        ((*name).to_owned(), ours.chain([Some(Original::of(work).at(*at))]).collect())
    });
    let names = (
        format!("{}_percentiles_by_wrk2", work.name()),
        "Response times by the original's instrument",
        "The same load by the pacing of wrk2 (`load --pacing wrk2`), which sends by timers of \
         whole milliseconds and counts what it sends late: short response times are those of its \
         timer, here as in the original.",
    );
    table(measured, names, Unit::Nanoseconds, rows.collect())
}

/// The server's account: means of all requests, and of those around percentiles of the total.
fn account(loads: &[LoadRuns<'_>], work: LoadKind) -> Chart {
    let mut bars = Vec::new();
    for row in loads.iter().map(LoadRuns::first) {
        let Some(account) = &row.account else { continue };
        bars.push((format!("{}, mean", row.engine.name()), means::of_all(account)));
        for around in account.around.iter().filter(|around| around.count > 0) {
            let name = format!("{}, around p{}", row.engine.name(), around.quantile * 100.0);
            bars.push((name, means::around(around)));
        }
    }
    let names = (
        format!("{}_account", work.name()),
        "Where the time of a request goes",
        "The server's account of the same requests, phase by phase, with the store's own parts in \
         place of `execute`: means of all, and of those around percentiles of the total, as means \
         add up. What a request waits for the connection is before all this, and not in it.",
    );
    means::bars(names, &bars)
}

/// The histograms of the response times of each engine and of the original, on one scale.
fn histogram(measured: &EntityRun, work: LoadKind) -> Chart {
    let loads = measured.of(work);
    let ours = loads.iter().map(|on| (on.engine.name(), shares_of(&on.times())));
    let (mut theirs, original) = ([0.0; BARS], Original::of(work));
    let mut before = 0.0;
    for (bar, share) in theirs.iter_mut().enumerate() {
        let below = BAR_ENDS_US.get(bar).map_or(1.0, |us| original.share_below(*us));
        *share = below - before;
        before = below;
    }
    let all: Vec<_> = ours.chain([(ORIGINAL, theirs)]).collect();
    histogram_of(format!("{}_histogram", work.name()), &all)
}

fn jitter(row: &Row) -> Vec<Chart> {
    let engine = row.engine.name();
    let samples = row.result.course.samples.iter().map(|sample| Sample {
        offset_ns: sample.time_offset_ns.saturating_sub(sample.response_time_ns),
        response_time_ns: sample.response_time_ns,
        service_time_ns: sample.service_time_ns,
    });
    let kept = thin_out(&samples.collect::<Vec<_>>(), POINTS_MAX);
    let points: Vec<_> =
        kept.iter().map(|s| (s.offset_ns as f64 / 1e9, s.response_time_ns)).collect();
    let jitter = Jitter {
        name: &format!("{}_{engine}", row.work.name()),
        whose: engine,
        series: "response time",
        how_to_read: "Each point is a request: when it was due, and its response time. Of each \
                      stretch the slowest and the first are drawn. Flushes and compactions are \
                      marked at the top, and shaded.",
        points: &points,
        spans: &row.spans,
    };
    let ceiling_ns = row.at(0.999) * ZOOM_MARGIN;
    let mut charts = vec![jitter.whole()];
    // A zoomed plot is only useful if it cuts off a good part of the whole plot.
    if ceiling_ns < row.at(1.0) * ZOOMED_SHARE_MAX {
        charts.push(jitter.zoomed(ceiling_ns));
    }
    charts
}

fn processor(measured: &EntityRun, work: LoadKind) -> Chart {
    let loads = measured.of(work);
    let original = Original::of(work).processor_shares;
    let rows = shares::NAMES.into_iter().enumerate().map(|(at, name)| {
        let of = |row: &Row| shares::of(row)[at];
        let ours = loads.iter().map(|on| on.estimate("", Unit::Share, of).value());
        (name.to_owned(), ours.chain([original[at]]).collect())
    });
    let names = (
        format!("{}_processor", work.name()),
        "What the processor time of the server went into",
        "By the profiles below, whose samples have the phase of the request or the background job; \
         flushes and compactions of RocksDB by the time of its threads. The rest is between \
         requests: waiting for sockets, the account, the profilers.",
    );
    table(measured, names, Unit::Share, rows.collect())
}
