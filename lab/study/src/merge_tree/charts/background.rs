//! Charts of flushes and merges: the files they make, the parts of their time, and their costs.

use pellucid_report::{Chart, ChartForm, ChartSection, Series, Unit};

use super::super::sample::Sample;
use super::super::sample_series::{LEVELS, number, over_levels, stage_ns};
use super::super::source::Source;
use super::series::with_something;

/// The stages of jobs: their titles, and their names in the engine's account.
const STAGES: [(&str, &str); 8] = [
    ("fetch from memory", "order_ns"),
    ("merge", "merge_ns"),
    ("block building", "build_ns"),
    ("filter and index building", "filter_ns"),
    ("write", "write_ns"),
    ("sync", "sync_ns"),
    ("waiting for the journal's sync", "journal_sync_ns"),
    ("manifest", "commit_ns"),
];

/// A kind of job: its name, the path of its figures, and the level that its files go to.
struct Kind {
    name: String,
    path: String,
    to: usize,
}

fn kinds() -> Vec<Kind> {
    let flush = Kind { name: "flush".to_owned(), path: "/background/flush".to_owned(), to: 0 };
    let merges = (0..LEVELS).map(|level| Kind {
        name: format!("merge from level {level}"),
        path: format!("/background/compactions/{level}"),
        to: level + 1,
    });
    std::iter::once(flush).chain(merges).collect()
}

pub(super) fn section(source: &Source<'_>) -> ChartSection {
    ChartSection::new(
        "Flushes and merges",
        "Full memtables become files of level 0, and files of a level are merged into the next. \
         Values stay in the journal, so only heads move. Merging and block building are timed by \
         samples, all else every time.",
        vec![
            files(source),
            stages(source),
            stages_by_job(source),
            bytes(source),
            bytes_by_job(source),
            amplification(source),
            debt(source),
        ],
    )
}

fn files(source: &Source<'_>) -> Chart {
    let made = kinds().into_iter().map(|kind| {
        let path = format!("{}/tables_out", kind.path);
        Series::new(format!("level {}", kind.to), source.rate(&path))
    });
    source.areas(
        ("files_made", "Files made, by the level they go to"),
        "Files in each second.",
        Unit::PerSecond,
        with_something(made.collect()),
    )
}

fn stages(source: &Source<'_>) -> Chart {
    let series = STAGES.map(|(name, stage)| {
        let values = source.track.rate(|sample| stage_ns(sample, stage) / 1e9);
        Series::new(name, values)
    });
    source.areas(
        ("job_stages", "Where flushes and merges spend their time"),
        "Seconds in each second. The engine has one thread for both, so 1 is all of its time; a \
         job counts when it ends.",
        Unit::Cores,
        series.into(),
    )
}

fn busy_kinds(source: &Source<'_>) -> Vec<Kind> {
    let mut kinds = kinds();
    kinds.retain(|kind| source.grown(&format!("{}/runs", kind.path)) > 0.0);
    kinds
}

fn stages_by_job(source: &Source<'_>) -> Chart {
    let kinds = busy_kinds(source);
    let series = STAGES.map(|(name, stage)| {
        let grown = |kind: &Kind| Some(source.grown(&format!("{}/stages/{stage}", kind.path)));
        Series::new(name, kinds.iter().map(grown).collect())
    });
    source.chart(
        ("job_stages_by_level", "Where flushes and merges spend their time, by level"),
        "Time of the whole run.",
        Unit::Nanoseconds,
        ChartForm::Bars { rows: kinds.into_iter().map(|kind| kind.name).collect() },
        with_something(series.into()),
    )
}

fn bytes(source: &Source<'_>) -> Chart {
    let jobs = |sample: &Sample, which: &str| {
        number(sample, &format!("/background/flush/{which}"))
            + over_levels(sample, "/background/compactions", &format!("/{which}"))
    };
    let track = &source.track;
    source.lines(
        ("job_bytes", "Bytes into and out of flushes and merges, beside those of users"),
        "A flush reads memory; merges read and write files of the ledger.",
        Unit::BytesPerSecond,
        vec![
            Series::new("in", track.rate(|sample| jobs(sample, "bytes_in"))),
            Series::new("out", track.rate(|sample| jobs(sample, "bytes_out"))),
            Series::new("written by users", source.rate("/writes/user_bytes")),
        ],
    )
}

fn bytes_by_job(source: &Source<'_>) -> Chart {
    let kinds = busy_kinds(source);
    let rows =
        kinds.iter().flat_map(|kind| ["in", "out"].map(|way| format!("{}: {way}", kind.name)));
    let values = kinds.iter().flat_map(|kind| {
        ["bytes_in", "bytes_out"].map(|way| Some(source.grown(&format!("{}/{way}", kind.path))))
    });
    source.chart(
        ("job_bytes_by_level", "Bytes in and out, by level"),
        "Bytes of the whole run. What goes in and does not come out was overwritten.",
        Unit::Bytes,
        ChartForm::Bars { rows: rows.collect() },
        vec![Series::new("bytes", values.collect())],
    )
}

fn amplification(source: &Source<'_>) -> Chart {
    let state = |name: &str, path: &'static str| {
        let value = |sample: &Sample| sample.engine.pointer(path)?.as_f64();
        Series::new(name, source.track.state(value))
    };
    source.lines(
        ("amplification", "Write and space amplification"),
        "Bytes written to files for each byte that users wrote; and bytes of all files for each \
         byte of the journal that is not known to be dead.",
        Unit::Ratio,
        vec![
            state("write", "/state/write_amplification"),
            state("space", "/state/space_amplification"),
        ],
    )
}

fn debt(source: &Source<'_>) -> Chart {
    let state = |name: String, path: String| {
        Series::new(name, source.track.state(|sample| Some(number(sample, &path))))
    };
    let mut series = vec![state(
        "above targets: the debt".to_owned(),
        "/state/compaction_debt_bytes".to_owned(),
    )];
    series.extend(
        (0..LEVELS).map(|level| {
            state(format!("level {level}"), format!("/state/levels/{level}/size_bytes"))
        }),
    );
    source.lines(
        ("debt", "Levels, and the debt of merges"),
        "Bytes of the files of each level, and those by which levels are above their targets.",
        Unit::Bytes,
        with_something(series),
    )
}
