//! Charts of HEAD: look-ups by the place where they end, and the steps within the files.

use pellucid_report::{Chart, ChartForm, ChartSection, Series, Unit};

use super::super::sample::Sample;
use super::super::sample_series::{LEVELS, number, over_levels, places, ratio};
use super::super::source::Source;
use super::series::{shares, with_something};

/// The steps within a table: their titles, and their names in the engine's account.
const STEPS: [(&str, &str); 6] = [
    ("directory", "directory"),
    ("filter", "filter"),
    ("index", "index"),
    ("block fetch, page cache", "fetch_cached"),
    ("block fetch, disk", "fetch_disk"),
    ("search in block", "search"),
];

pub(super) fn section(source: &Source<'_>) -> ChartSection {
    let track = &source.track;
    let times = places().into_iter().map(|(name, place)| {
        Series::new(name, track.sampled(&format!("/reads/look_ups/{place}/time")))
    });
    let times = source.times(
        ("head_times", "Look-ups by where they end"),
        "Mean times of sampled look-ups, those of HEADs and of GETs: nowhere, in a memtable, or in \
         a level. Whoever is not found has asked every level.",
        with_something(times.collect()),
    );
    let found = places().into_iter().map(|(name, place)| {
        let path = format!("/reads/look_ups/{place}/count");
        Series::new(name, track.rate(|sample| number(sample, &path)))
    });
    let found = source.areas(
        ("head_found", "Where look-ups end"),
        "Shares of all look-ups.",
        Unit::Share,
        shares(with_something(found.collect())),
    );
    ChartSection::new(
        "HEAD",
        "A HEAD is a look-up in the ledger: memtables first, then one table after the other, from \
         the youngest level down. Missing are objects that are about to be made: their PUT asks \
         for the head first.",
        vec![times, found],
    )
}

/// The section about the steps within the files.
pub(super) fn files_section(source: &Source<'_>) -> ChartSection {
    ChartSection::new(
        "Within the files",
        "A table with a directory in memory has one step that says where a key is or that it is \
         not; one without asks its filter, and then its index which block to look into. The engine \
         has no cache of blocks: memory means the page cache. Nor has it one of recent keys.",
        vec![
            steps_over_time(source),
            steps_by_level(source),
            exits(source),
            exits_by_level(source),
        ],
    )
}

fn steps_over_time(source: &Source<'_>) -> Chart {
    let series = STEPS.map(|(name, step)| {
        let (sum, samples) = (format!("/steps/{step}/sum_ns"), format!("/steps/{step}/samples"));
        let values = source.track.mean(
            |sample| over_levels(sample, "/reads/levels", &sum),
            |sample| over_levels(sample, "/reads/levels", &samples),
        );
        Series::new(name, values)
    });
    source.times(
        ("file_steps", "Within a file: mean times of the steps"),
        "Sampled look-ups, over all levels. Each step counts where it was taken: blocks are \
         fetched only for keys that directory or filter let pass.",
        with_something(series.into()),
    )
}

/// The number of sampled look-ups in files of a level. Each begins with the step `directory` or
/// `filter`.
fn asks_sampled(source: &Source<'_>, level: usize) -> f64 {
    let samples = |step| source.grown(&format!("/reads/levels/{level}/steps/{step}/samples"));
    samples("directory") + samples("filter")
}

fn asked_levels(source: &Source<'_>) -> Vec<usize> {
    let asked = |level: &usize| source.grown(&format!("/reads/levels/{level}/asked")) > 0.0;
    (0..LEVELS).filter(asked).collect()
}

fn steps_by_level(source: &Source<'_>) -> Chart {
    let levels = asked_levels(source);
    let series = STEPS.map(|(name, step)| {
        let mean = |level: &usize| {
            let path = format!("/reads/levels/{level}/steps/{step}/sum_ns");
            ratio(source.grown(&path), asks_sampled(source, *level))
        };
        Series::new(name, levels.iter().map(mean).collect())
    });
    source.chart(
        ("file_steps_by_level", "Within a file, by level: what an ask costs"),
        "Time of each step divided by all asks of a file of the level, whether they got that far \
         or not: the bars add up to what it costs to ask.",
        Unit::Nanoseconds,
        ChartForm::Bars { rows: levels.iter().map(|level| format!("level {level}")).collect() },
        with_something(series.into()),
    )
}

/// The outcomes of look-ups in files, with their names and numbers.
fn ways(sum: impl Fn(&str) -> f64) -> [(&'static str, f64); 3] {
    let (asked, excluded, vain) = (sum("/asked"), sum("/excluded"), sum("/false_positives"));
    [
        ("ruled out by directory or filter", excluded),
        ("false positive", vain),
        ("found", (asked - excluded - vain).max(0.0)),
    ]
}

fn exits(source: &Source<'_>) -> Chart {
    let series = (0..3).map(|way| {
        let count =
            |sample: &Sample| ways(|path| over_levels(sample, "/reads/levels", path))[way].1;
        Series::new(ways(|_| 0.0)[way].0, source.track.rate(count))
    });
    source.areas(
        ("file_exits", "How requests leave files"),
        "Requests to single files in each second. Only those that are not ruled out fetch a block.",
        Unit::PerSecond,
        series.collect(),
    )
}

fn exits_by_level(source: &Source<'_>) -> Chart {
    let levels = asked_levels(source);
    let counts: Vec<_> = levels
        .iter()
        .map(|level| ways(|path| source.grown(&format!("/reads/levels/{level}{path}"))))
        .collect();
    let series = (0..3).map(|way| {
        let values = counts.iter().map(|ways| Some(ways[way].1));
        Series::new(ways(|_| 0.0)[way].0, values.collect())
    });
    source.chart(
        ("file_exits_by_level", "How requests leave files, by level"),
        "Requests to files of each level in the whole run.",
        Unit::Count,
        ChartForm::Bars { rows: levels.iter().map(|level| format!("level {level}")).collect() },
        series.collect(),
    )
}
