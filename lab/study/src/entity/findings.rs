//! Compares the conclusions of the original study with our runs.

use hdrhistogram::Histogram;
use pellucid_report::{Estimate, Finding, Unit, both, either};

use super::load_runs::LoadRuns;
use super::measure::Row;
use super::original::Original;
use super::run::EntityRun;
use super::workload::LoadKind;
use super::{job_impact, shares};
use crate::jobs::counts;
use crate::loads::has_times;

/// Requests take longer beside a job if the slowest take at least this many times as long.
const LONGER: f64 = 1.5;
/// A rate is held if at most this share of it is not answered.
const UNANSWERED_SHARE: f64 = 0.01;
/// The store's share of the processor time of PUT agrees with the original from this value on.
const PUT_STORE_SHARE: f64 = 0.3;
/// The store's share of the processor time of GET agrees with the original from this value on.
const GET_STORE_SHARE: f64 = 0.2;
/// The compactions' share of the processor time of PUT agrees with the original below this value.
const COMPACTION_SHARE: f64 = 0.1;

/// The answer for one engine.
struct EngineAnswer {
    sentence: String,
    /// True if the original's claim holds; `None` if the runs do not decide it.
    holds: Option<bool>,
    figures: Vec<Estimate>,
}

/// Makes a finding from the answers for all engines. `join` combines whether the claim holds.
fn finding(
    (name, original): (&str, &str),
    measured: &EntityRun,
    work: LoadKind,
    join: fn(Option<bool>, Option<bool>) -> Option<bool>,
    on: impl Fn(&LoadRuns<'_>) -> EngineAnswer,
) -> Finding {
    let answers: Vec<EngineAnswer> = measured.of(work).iter().map(on).collect();
    let names = measured.engines.iter().map(|engine| engine.name());
    let sentences = names.zip(&answers).map(|(name, on)| format!("{name}: {}", on.sentence));
    let sentence = sentences.collect::<Vec<_>>().join("; ");
    let holds = answers.iter().map(|on| on.holds).reduce(join).flatten();
    let figures: Vec<Estimate> = answers.into_iter().flat_map(|on| on.figures).collect();
    Finding::new(name, original, format!("{sentence}."), holds, figures)
}

pub(super) fn of(measured: &EntityRun) -> Vec<Finding> {
    vec![
        rate(measured, LoadKind::Put),
        rate(measured, LoadKind::Get),
        tail(measured),
        gets_rest(measured),
        put_processor(measured),
        get_processor(measured),
    ]
}

/// A percentile of a row; `None` if the load's verdict makes its times unusable.
fn at(row: &Row, quantile: f64) -> Option<f64> {
    has_times(&row.judged).then(|| row.at(quantile))
}

fn rate(measured: &EntityRun, work: LoadKind) -> Finding {
    let names = match work {
        LoadKind::Put => (
            "put_rate",
            "12,000 PUT/s on one connection were stable, with a 99th percentile of 82 ms; of \
             20,000 asked for, 13,908 were answered.",
        ),
        LoadKind::Get => (
            "get_rate",
            "10,000 GET/s on one connection were stable, with a 99th percentile of 47 ms; of \
             20,000 asked for, 17,419 were answered.",
        ),
    };
    finding(names, measured, work, both, |loads| {
        let title = work.title();
        let answered = loads.estimate(&format!("{title}/s answered"), Unit::PerSecond, |row| {
            Some(row.result.requests_per_second())
        });
        let unanswered =
            loads.estimate(&format!("{title}s not answered in time"), Unit::Share, |row| {
                Some((1.0 - row.result.requests_per_second() / row.rate).max(0.0))
            });
        let p99 =
            loads.estimate(&format!("p99 of {title}"), Unit::Nanoseconds, |row| at(row, 0.99));
        let highest =
            loads.estimate(&format!("{title}/s of a closed loop"), Unit::PerSecond, |row| {
                has_times(&row.closed).then_some(row.closed.answered_per_second)
            });
        let p50 = |of: Histogram<u64>| Unit::Nanoseconds.show(of.value_at_quantile(0.5) as f64);
        let medians = [loads.times(), loads.times_by_wrk2()].map(p50);
        let (row, original) = (loads.first(), Original::of(work));
        let is_put_on = row.rate >= original.rate;
        let holds = match is_put_on {
            true => both(unanswered.is_below(UNANSWERED_SHARE), p99.is_below(original.at(0.99))),
            // One connection does not reach the original's rate.
            false => highest.is_below(original.rate).filter(|is_below| *is_below).map(|_| false),
        };
        EngineAnswer {
            sentence: format!(
                "{answered} of {} {title}/s answered, p99 {p99}, p50 {} (by wrk2's timer {}, as \
                 the original's {}); a closed loop reaches {highest}/s",
                Unit::PerSecond.show(row.rate),
                medians[0],
                medians[1],
                Unit::Nanoseconds.show(original.at(0.5))
            ),
            holds,
            figures: vec![answered, unanswered, p99, highest],
        }
    })
}

fn tail(measured: &EntityRun) -> Finding {
    let names = (
        "jobs_make_the_tail",
        "The jump of PUT above the 80th percentile, from 4 to 88 ms, comes from the time when a \
         compaction or flush ran, or from requests that waited for a selector.",
    );
    finding(names, measured, LoadKind::Put, either, |loads| {
        let beside = |row: &Row| job_impact::of(row).filter(|_| has_times(&row.judged));
        let share = loads.estimate("time with a flush or compaction", Unit::Share, |row| {
            Some(job_impact::time_share(row))
        });
        let name = "slowest PUTs beside a job over those without";
        let ratio = loads.estimate(name, Unit::Ratio, |row| Some(beside(row)?.ratio()));
        let sentence = match ratio.value() {
            Some(_) => format!(
                "the slowest PUTs took {ratio} times as long beside a flush or compaction, which \
                 ran for {share} of the time"
            ),
            None => format!(
                "flushes and compactions ran for {share} of the time, which leaves too little on \
                 one side to compare"
            ),
        };
        EngineAnswer { sentence, holds: ratio.is_above(LONGER), figures: vec![share, ratio] }
    })
}

fn gets_rest(measured: &EntityRun) -> Finding {
    let names = (
        "gets_run_no_jobs",
        "GET neither flushes nor compacts, which is one reason why its 99th percentile is lower \
         than that of PUT.",
    );
    finding(names, measured, LoadKind::Get, both, |loads| {
        let jobs = loads.estimate("flushes and compactions during GET", Unit::Count, |row| {
            Some(counts(&row.spans).iter().sum::<usize>() as f64)
        });
        let of_put = |row: &Row| {
            let puts = LoadRuns::of(&measured.rows, row.engine, LoadKind::Put)?;
            at(puts.rows().iter().find(|put| put.judged.run == row.judged.run)?, 0.99)
        };
        let ratio = loads.estimate("p99 of GET over that of PUT", Unit::Ratio, |row| {
            Some(at(row, 0.99)? / of_put(row)?)
        });
        let told = match ratio.value() {
            Some(_) => format!("whose p99 is {ratio} times that of PUT"),
            None => "whose p99 cannot be compared with that of PUT".to_owned(),
        };
        EngineAnswer {
            sentence: format!("{jobs} flushes and compactions during GET, {told}"),
            holds: both(jobs.is_below(0.5), ratio.is_below(1.0)),
            figures: vec![jobs, ratio],
        }
    })
}

/// The shares of the processor time of one engine's loads, each with the number of samples behind
/// it.
fn processor_shares(loads: &LoadRuns<'_>) -> [Estimate; 5] {
    let samples = loads.rows().iter().filter_map(|row| shares::samples(row)).sum();
    [0, 1, 2, 3, 4].map(|part| {
        let name = format!("processor time: {}", shares::NAMES[part]);
        loads.estimate(&name, Unit::Share, |row| shares::of(row)[part]).of_samples(samples)
    })
}

fn put_processor(measured: &EntityRun) -> Finding {
    let names = (
        "put_processor_time",
        "Of the processor time of PUT, 46 % went into the store (23 % the log, 12 % the \
         memtable), 18 % into answers, 10 % into reading requests, 4 % into compactions, below 1 % \
         into flushes.",
    );
    finding(names, measured, LoadKind::Put, both, |loads| {
        let shares = processor_shares(loads);
        let [store, answers, requests, flushes, compactions] = &shares;
        EngineAnswer {
            sentence: format!(
                "{store} in the store, {answers} for answers, {requests} for reading requests, \
                 {flushes} in flushes and {compactions} in compactions"
            ),
            holds: both(store.is_above(PUT_STORE_SHARE), compactions.is_below(COMPACTION_SHARE)),
            figures: shares.to_vec(),
        }
    })
}

fn get_processor(measured: &EntityRun) -> Finding {
    let names = (
        "get_processor_time",
        "Of the processor time of GET, 36 % went into reading from the store.",
    );
    finding(names, measured, LoadKind::Get, both, |loads| {
        let [store, answers, requests, ..] = processor_shares(loads);
        EngineAnswer {
            sentence: format!(
                "{store} in the store, {answers} for answers, {requests} for reading requests"
            ),
            holds: store.is_above(GET_STORE_SHARE),
            figures: vec![store, answers, requests],
        }
    })
}
