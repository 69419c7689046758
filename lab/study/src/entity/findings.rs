//! The conclusions of the original, and the readings of the figures of this run, in a sentence
//! each.

use std::collections::BTreeMap;

use pellucid_report::{Finding, Unit};

use super::measure::Row;
use super::work::Work;
use super::{EntityRun, beside, counts, original, shares};

/// Requests take longer beside a job if the slowest do by this factor.
const LONGER: f64 = 1.5;
/// A rate is held if this share of it is answered.
const HELD_SHARE: f64 = 0.99;

pub(super) fn of(measured: &EntityRun) -> Vec<Finding> {
    vec![
        rate(measured, Work::Put),
        rate(measured, Work::Get),
        tail(measured),
        gets_rest(measured),
        put_processor(measured),
        get_processor(measured),
    ]
}

fn time(ns: f64) -> String {
    Unit::Nanoseconds.show(ns)
}

/// The sentences on each engine, with its name before it.
fn by_engine<'a>(rows: impl Iterator<Item = &'a Row>, say: impl Fn(&Row) -> String) -> String {
    let told: Vec<_> = rows.map(|row| format!("{}: {}", row.engine.name(), say(row))).collect();
    told.join("; ")
}

/// A figure of each engine, by a name that begins with its own.
fn figures<'a>(
    rows: impl Iterator<Item = &'a Row>,
    of: impl Fn(&Row) -> Vec<(&'static str, f64)>,
) -> BTreeMap<String, f64> {
    rows.flat_map(|row| {
        let named = of(row).into_iter();
        named.map(|(name, value)| (format!("{}_{name}", row.engine.name()), value))
    })
    .collect()
}

fn rate(measured: &EntityRun, work: Work) -> Finding {
    let (name, original) = match work {
        Work::Put => (
            "put_rate",
            "12,000 PUT/s on one connection were stable, with a 99th percentile of 82 ms; of \
             20,000 asked for, 13,908 were answered.",
        ),
        Work::Get => (
            "get_rate",
            "10,000 GET/s on one connection were stable, with a 99th percentile of 47 ms; of \
             20,000 asked for, 17,419 were answered.",
        ),
    };
    let sentence = by_engine(measured.of(work), |row| {
        format!(
            "{:.0} of {:.0} {}/s answered, p99 {}, at most {:.0}/s",
            row.result.requests_per_second(),
            row.rate,
            work.title(),
            time(row.at(0.99)),
            row.highest
        )
    });
    let is_held = |row: &Row| {
        row.rate >= original::rate(work)
            && row.result.requests_per_second() >= row.rate * HELD_SHARE
            && row.at(0.99) <= original::at(work, 0.99)
    };
    Finding {
        name: name.to_owned(),
        original: original.to_owned(),
        sentence: format!("{sentence}."),
        is_same: Some(measured.of(work).all(is_held)),
        figures: figures(measured.of(work), |row| {
            vec![
                ("rate_per_second", row.rate),
                ("answered_per_second", row.result.requests_per_second()),
                ("highest_per_second", row.highest),
                ("p99_ns", row.at(0.99)),
            ]
        }),
    }
}

fn tail(measured: &EntityRun) -> Finding {
    let told: Vec<_> = measured.of(Work::Put).map(|row| (row, beside::of(row))).collect();
    let sentence = by_engine(measured.of(Work::Put), |row| match beside::of(row) {
        Some(beside) => format!(
            "the slowest PUTs took {} beside a flush or compaction, which ran for {} of the time, \
             and {} without",
            time(beside.slowest_beside_ns),
            Unit::Share.show(beside.time_share),
            time(beside.slowest_without_ns)
        ),
        None => format!(
            "flushes and compactions ran for {} of the time, which leaves too little on one side \
             to compare",
            Unit::Share.show(beside::time_share(row))
        ),
    });
    let ratios: Vec<f64> =
        told.iter().filter_map(|(_, beside)| beside.map(beside::Beside::ratio)).collect();
    let is_same = (!ratios.is_empty()).then(|| ratios.iter().any(|ratio| *ratio > LONGER));
    Finding {
        name: "jobs_make_the_tail".to_owned(),
        original:
            "The jump of PUT above the 80th percentile, from 4 to 88 ms, comes from the time \
                   when a compaction or flush ran, or from requests that waited for a selector."
                .to_owned(),
        sentence: format!("{sentence}."),
        is_same,
        figures: figures(measured.of(Work::Put), |row| {
            let ratio = beside::of(row).map(|beside| ("slowest_ratio", beside.ratio()));
            [("time_share", beside::time_share(row))].into_iter().chain(ratio).collect()
        }),
    }
}

fn gets_rest(measured: &EntityRun) -> Finding {
    let all = |row: &Row| counts(&row.spans).iter().sum::<usize>();
    let sentence = by_engine(measured.of(Work::Get), |row| {
        let [flushes, compactions] = counts(&row.spans);
        let put = measured.of(Work::Put).find(|put| put.engine == row.engine);
        format!(
            "{flushes} flushes and {compactions} compactions during GET, p99 {} against {} of PUT",
            time(row.at(0.99)),
            time(put.map_or(0.0, |put| put.at(0.99)))
        )
    });
    let is_quieter = |row: &Row| {
        let put = measured.of(Work::Put).find(|put| put.engine == row.engine);
        all(row) == 0 && put.is_some_and(|put| row.at(0.99) <= put.at(0.99))
    };
    Finding {
        name: "gets_run_no_jobs".to_owned(),
        original:
            "GET neither flushes nor compacts, which is one reason why its 99th percentile is \
                   lower than that of PUT."
                .to_owned(),
        sentence: format!("{sentence}."),
        is_same: Some(measured.of(Work::Get).all(is_quieter)),
        figures: figures(measured.of(Work::Get), |row| {
            vec![("jobs", all(row) as f64), ("p99_ns", row.at(0.99))]
        }),
    }
}

fn put_processor(measured: &EntityRun) -> Finding {
    let sentence = by_engine(measured.of(Work::Put), |row| {
        let [store, answers, requests, flushes, compactions] = shares::of(row).map(shown);
        format!(
            "{store} in the store, {answers} for answers, {requests} for reading requests, \
             {flushes} in flushes and {compactions} in compactions"
        )
    });
    let is_alike = |row: &Row| {
        let [store, .., compactions] = shares::of(row);
        Some(store? > 0.3 && compactions? < 0.1)
    };
    processor(
        measured,
        Work::Put,
        "put_processor_time",
        "Of the processor time of PUT, 46 % went into the store (23 % the log, 12 % the memtable), \
         18 % into answers, 10 % into reading requests, 4 % into compactions, below 1 % into \
         flushes.",
        sentence,
        is_alike,
    )
}

fn get_processor(measured: &EntityRun) -> Finding {
    let sentence = by_engine(measured.of(Work::Get), |row| {
        let [store, answers, requests, ..] = shares::of(row).map(shown);
        format!("{store} in the store, {answers} for answers, {requests} for reading requests")
    });
    processor(
        measured,
        Work::Get,
        "get_processor_time",
        "Of the processor time of GET, 36 % went into reading from the store.",
        sentence,
        |row| Some(shares::of(row)[0]? > 0.2),
    )
}

fn processor(
    measured: &EntityRun,
    work: Work,
    name: &str,
    original: &str,
    sentence: String,
    is_alike: impl Fn(&Row) -> Option<bool>,
) -> Finding {
    let alike: Option<Vec<bool>> = measured.of(work).map(is_alike).collect();
    Finding {
        name: name.to_owned(),
        original: original.to_owned(),
        sentence: format!("{sentence}."),
        is_same: alike.map(|alike| alike.into_iter().all(|is_alike| is_alike)),
        figures: figures(measured.of(work), |row| {
            let names = [
                "store_share",
                "answers_share",
                "requests_share",
                "flush_share",
                "compaction_share",
            ];
            let named = names.into_iter().zip(shares::of(row));
            named.filter_map(|(name, share)| Some((name, share?))).collect()
        }),
    }
}

fn shown(share: Option<f64>) -> String {
    share.map_or_else(|| "an unknown share".to_owned(), |share| Unit::Share.show(share))
}
