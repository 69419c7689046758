//! `pellucid load --connections 1,3,10,100`: the same load over several numbers of connections.

use pellucid_load::{Figures, LoadOptions, SweepPoint, judge, recommended};

use super::arguments::Task;
use super::show::time;
use super::{Ways, account, check, document, measure_and_watch};
use crate::Failure;

/// Runs the sweep and prints a row for each number of connections.
pub(super) fn execute(task: &Task) -> Result<(), Failure> {
    let (mut points, mut runs, mut documents) = (Vec::new(), Vec::new(), Vec::new());
    if !task.json {
        print_head(task);
    }
    for connections in &task.connections {
        let options = LoadOptions {
            connections: *connections,
            threads: task.options.threads.min(*connections),
            ..task.options.clone()
        };
        options.check().map_err(Failure::usage)?;
        let (result, background) = measure_and_watch(task, &options, "")?;
        let judgement = judge(&Figures::of(&result));
        let point = SweepPoint::of(&result);
        let ways = Ways::of(&result, task.around);
        if task.json {
            documents.push(document::of(&result, &judgement, None, &ways, &background));
        } else {
            print_row(&point, judgement.verdict.name());
        }
        points.push(point);
        let account = task.outputs.html.as_ref().and_then(|_| account::of_run(&options, &result));
        let stopped = result.stopped_early;
        let charts = [ways.charts(), background.charts()].concat();
        runs.push((result, judgement, account, charts));
        if stopped {
            break;
        }
    }
    let choice = recommended(&points, task.options.is_paced());
    if task.json {
        let sweep = serde_json::json!({
            "schema": "pellucid.sweep.v1", "recommended_connections": choice, "runs": documents,
        });
        println!("{sweep}");
    } else if let Some(choice) = choice {
        print_choice(task, &points, choice);
    }
    let runs: Vec<_> =
        runs.iter().map(|(r, j, a, c)| (r, j.clone(), a.clone(), c.clone())).collect();
    for path in task.outputs.write(&runs)? {
        eprintln!("wrote {}", path.display());
    }
    runs.iter().try_for_each(|(result, ..)| check(None, result))
}

fn print_head(task: &Task) {
    println!("Sweep over connections @ {}", task.options.target.url());
    println!(
        "  {:>11}{:>12}{:>12}{:>12}{:>12}{:>12}{:>10}  verdict",
        "connections", "answers/s", "p99", "service", "wait p99", "wait mean", "wait part"
    );
}

fn print_row(point: &SweepPoint, verdict: &str) {
    println!(
        "  {:>11}{:>12.0}{:>12}{:>12}{:>12}{:>12}{:>10.2}  {verdict}",
        point.connections,
        point.answered_per_second,
        time(point.response_p99_ns),
        time(point.service_p99_ns),
        time(point.connection_wait_p99_ns),
        time(point.connection_wait_mean_ns as u64),
        point.connection_wait_share(),
    );
}

fn print_choice(task: &Task, points: &[SweepPoint], choice: usize) {
    let share = points.iter().find(|point| point.connections == choice);
    let share = share.map_or(0.0, SweepPoint::connection_wait_share);
    println!("  Recommended: {choice} connections, the fewest with nearly the best figures;");
    match task.options.is_paced() {
        true => println!("    {share:.2} of the mean response time is then a wait for one."),
        false => println!("    it is by throughput alone: with a rate (-R), latency counts too."),
    }
    if Some(&choice) == task.connections.iter().max() {
        println!("    It is the greatest number that was tried: more may be better still.");
    }
}
