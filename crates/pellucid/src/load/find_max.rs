//! `pellucid load --find-max --slo p99=5ms`: the highest rate that is held, how sure that is, and
//! which phase of the server grew on the way there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pellucid_load::{
    Figures, Knee, KneeSearch, Limit, LoadOptions, LoadResult, Objectives, SearchOptions, Step,
    Verdict, judge,
};
use serde_json::json;

use super::account::{self, Growth};
use super::arguments::Task;
use super::measure;
use super::server_timing::{self, Sums};
use super::show::time;
use crate::Failure;

/// How long a rate is tried, and how long one that was held is confirmed.
const TRIAL: Duration = Duration::from_secs(4);
const CONFIRMATION: Duration = Duration::from_secs(30);
const QUICK_TRIAL: Duration = Duration::from_secs(1);
const QUICK_CONFIRMATION: Duration = Duration::from_secs(5);
const REPEATS: usize = 3;
/// The closed loop that finds where to begin takes this long, and the search begins at this share
/// of what it reaches.
const PROBE: Duration = Duration::from_secs(1);
const START_SHARE: f64 = 0.25;
/// Time without requests between two trials, in which a backlog drains. A window of the server's
/// account counts whole seconds, so it also keeps one trial out of the other's.
const PAUSE: Duration = Duration::from_millis(1_100);
/// How often a rate is tried whose trial failed because of the generator.
const TRIES: usize = 3;
/// The loads between which the server's phases are compared, in terms of the knee.
const BELOW: f64 = 0.5;
const ABOVE: f64 = 1.05;

/// Runs the search and prints each trial and the knee.
pub(super) fn execute(task: &Task) -> Result<(), Failure> {
    let Some(objectives) = &task.objectives else {
        return Err(Failure::usage("--find-max needs --slo, such as --slo p99=5ms"));
    };
    let lengths = match task.quick {
        true => (QUICK_TRIAL, QUICK_CONFIRMATION),
        false => (TRIAL, CONFIRMATION),
    };
    let mut search = KneeSearch::new(SearchOptions {
        start_per_second: start(task)?,
        repeats: if task.quick { 1 } else { REPEATS },
        ..SearchOptions::default()
    });
    let mut trials = Vec::new();
    let knee = loop {
        match search.step() {
            Step::Done(knee) => break knee,
            Step::Try { rate_per_second, confirm } => {
                let length = if confirm { lengths.1 } else { lengths.0 };
                let (result, kept) = attempt(task, objectives, rate_per_second, length)?;
                if result.stopped_early {
                    break Knee::default();
                }
                tell(task, &result, confirm, &kept);
                trials.push(json!({
                    "rate_per_second": result.rate_per_second,
                    "answered_per_second": result.requests_per_second(),
                    "p99_ns": result.response_time.value_at_quantile(0.99),
                    "confirmation": confirm,
                    "held": kept.is_ok(),
                    "reason": kept.as_ref().err(),
                }));
                search.report(kept.is_ok());
            }
        }
    };
    if task.options.stop.load(Ordering::Relaxed) {
        return Err(Failure::work("the search was interrupted; the trials so far are above"));
    }
    let Some(rate) = knee.median_per_second() else {
        return Err(Failure::work("no rate is held within the objectives, not even one a second"));
    };
    let phases = phases_at(task, rate, lengths.0)?;
    conclude(task, &knee, rate, &phases, &trials);
    Ok(())
}

/// Where the search begins: well below what a closed loop reaches.
fn start(task: &Task) -> Result<f64, Failure> {
    let limit = Limit::Duration(PROBE);
    let options = LoadOptions { limit, warm_up: Duration::ZERO, ..task.options.clone() };
    let closed = LoadOptions { arrivals: pellucid_load::Arrivals::Constant, ..options };
    closed.check().map_err(Failure::usage)?;
    let result = measure(&closed, "")?;
    if result.requests == 0 {
        let first = result.first_error.as_deref().unwrap_or("no answer within a second");
        return Err(Failure::work(format!("no request was answered: {first}")));
    }
    Ok((result.requests_per_second() * START_SHARE).max(1.0))
}

/// Tries a rate. A trial that failed because of the generator says nothing of the service, so it is
/// made again before it counts.
fn attempt(
    task: &Task,
    objectives: &Objectives,
    rate: f64,
    length: Duration,
) -> Result<(LoadResult, Result<(), String>), Failure> {
    for _ in 1..TRIES {
        let (result, kept) = attempt_once(task, objectives, rate, length)?;
        let limited = judge(&Figures::of(&result)).verdict == Verdict::GeneratorLimited;
        if kept.is_ok() || result.stopped_early || !limited {
            return Ok((result, kept));
        }
    }
    attempt_once(task, objectives, rate, length)
}

fn attempt_once(
    task: &Task,
    objectives: &Objectives,
    rate: f64,
    length: Duration,
) -> Result<(LoadResult, Result<(), String>), Failure> {
    std::thread::sleep(PAUSE);
    let options = LoadOptions {
        rate_per_second: Some((rate.round() as u64).max(1)),
        limit: Limit::Duration(length),
        warm_up: task.options.warm_up.min(length / 4),
        ..task.options.clone()
    };
    options.check().map_err(Failure::usage)?;
    let result = measure(&options, "")?;
    let kept = objectives.check(&result);
    Ok((result, kept))
}

fn tell(task: &Task, result: &LoadResult, confirm: bool, kept: &Result<(), String>) {
    if task.json {
        return;
    }
    let rate = result.rate_per_second.unwrap_or(0);
    let p99 = time(result.response_time.value_at_quantile(0.99));
    let what = if confirm { "confirm" } else { "try" };
    match kept {
        Ok(()) => println!("  {what:<8}{rate:>10}/s  held      p99 {p99}"),
        Err(reason) => println!("  {what:<8}{rate:>10}/s  not held  p99 {p99}: {reason}"),
    }
}

/// How the server's phases grow from half the knee to just above it: by its account, or by what it
/// tells in `Server-Timing`.
fn phases_at(task: &Task, rate: f64, length: Duration) -> Result<Vec<Growth>, Failure> {
    let (mut accounts, mut told) = (Vec::new(), Vec::new());
    for share in [BELOW, ABOVE] {
        std::thread::sleep(PAUSE);
        let options = LoadOptions {
            rate_per_second: Some(((rate * share).round() as u64).max(1)),
            limit: Limit::Duration(length),
            ..task.options.clone()
        };
        let (result, sums) = measure_and_ask(&options)?;
        accounts.push(account::of_run(&options, &result));
        told.push(sums);
    }
    Ok(match (&accounts[..], &told[..]) {
        ([Some(before), Some(after)], _) => account::growth(before, after),
        (_, [before, after]) => server_timing::growth(before, after),
        _ => Vec::new(),
    })
}

/// Runs a load and asks the server beside it for its `Server-Timing`.
fn measure_and_ask(options: &LoadOptions) -> Result<(LoadResult, Sums), Failure> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let asking = scope.spawn(move || server_timing::ask_until(options, stop));
        let result = measure(options, "");
        stop.store(true, Ordering::Relaxed);
        let sums = asking.join().unwrap_or_default();
        Ok((result?, sums))
    })
}

fn conclude(task: &Task, knee: &Knee, rate: f64, phases: &[Growth], trials: &[serde_json::Value]) {
    let (least, greatest) = knee.spread_per_second();
    if task.json {
        let phases: Vec<_> = phases
            .iter()
            .map(|growth| {
                json!({
                    "phase": growth.phase,
                    "mean_at_half_ns": growth.before_ns,
                    "mean_above_ns": growth.after_ns,
                })
            })
            .collect();
        let found = json!({
            "schema": "pellucid.knee.v1",
            "rate_per_second": rate,
            "least_per_second": least,
            "greatest_per_second": greatest,
            "found_per_second": knee.found_per_second,
            "phases": phases,
            "trials": trials,
        });
        println!("{found}");
        return;
    }
    println!(
        "Highest stable rate: {rate:.0} requests/s (found {} times, {least:.0} to {greatest:.0}; \
         {} trials)",
        knee.found_per_second.len(),
        knee.trials
    );
    let added: f64 = phases.iter().map(|growth| growth.added_ns().max(0.0)).sum();
    match phases.first().filter(|growth| growth.added_ns() > 0.0 && added > 0.0) {
        Some(most) => println!(
            "  From half of that to just above it, the server's '{}' grew most: from {} to {} in \
             the mean, {:.2} of all that was added.",
            most.phase,
            time(most.before_ns.max(0.0) as u64),
            time(most.after_ns.max(0.0) as u64),
            most.added_ns() / added
        ),
        None => println!("  The server tells nothing of its phases, so what grew is unknown."),
    }
}
