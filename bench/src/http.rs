//! `bench-http`: the server beside nginx, and beside itself without accounting.

use crate::Effort;
use crate::bars::{Bar, judge, median};
use crate::peers::{Server, start_nginx, start_pellucid};
use crate::wrk::full_throttle;

/// What one run shows.
#[derive(Clone, Copy)]
struct Run {
    requests_per_second: f64,
    cpu_us_per_request: f64,
}

const RATE: fn(&Run) -> f64 = |run| run.requests_per_second;
const CPU: fn(&Run) -> f64 = |run| run.cpu_us_per_request;

fn measure(server: &Server, connections: usize, seconds: u64) -> Result<Run, String> {
    let before = server.cpu_seconds();
    let requests_per_second = full_throttle(&server.url, connections, seconds)?;
    let cpu_seconds = server.cpu_seconds() - before;
    let requests = requests_per_second * seconds as f64;
    Ok(Run { requests_per_second, cpu_us_per_request: cpu_seconds * 1e6 / requests })
}

/// Runs both sides in turn, each side first in every second round.
fn alternate(
    ours: &Server,
    theirs: &Server,
    connections: usize,
    effort: Effort,
) -> Result<Vec<(Run, Run)>, String> {
    for server in [ours, theirs] {
        measure(server, connections, 1)?;
    }
    (0..effort.runs)
        .map(|round| {
            if round % 2 == 0 {
                let first = measure(ours, connections, effort.seconds)?;
                Ok((first, measure(theirs, connections, effort.seconds)?))
            } else {
                let first = measure(theirs, connections, effort.seconds)?;
                Ok((measure(ours, connections, effort.seconds)?, first))
            }
        })
        .collect()
}

fn ratios(runs: &[(Run, Run)], figure: fn(&Run) -> f64) -> Vec<f64> {
    runs.iter().map(|(ours, theirs)| figure(ours) / figure(theirs)).collect()
}

fn show(what: &str, runs: &[(Run, Run)]) {
    let of = |side: fn(&(Run, Run)) -> &Run, figure: fn(&Run) -> f64| {
        median(&runs.iter().map(|run| figure(side(run))).collect::<Vec<_>>())
    };
    println!(
        "{what}: {:.0} against {:.0} requests/s, {:.2} against {:.2} µs of CPU per request",
        of(|run| &run.0, RATE),
        of(|run| &run.1, RATE),
        of(|run| &run.0, CPU),
        of(|run| &run.1, CPU),
    );
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: Effort) -> Result<bool, String> {
    let beside_nginx = run_beside_nginx(effort)?;
    Ok(run_accounting(effort)? && beside_nginx)
}

fn run_beside_nginx(effort: Effort) -> Result<bool, String> {
    let (ours, nginx) = (start_pellucid("full")?, start_nginx()?);
    let many = alternate(&ours, &nginx, 64, effort)?;
    show("Pellucid against nginx, 64 connections", &many);
    let one = alternate(&ours, &nginx, 1, effort)?;
    show("Pellucid against nginx, 1 connection", &one);
    let held = [
        judge("http_cpu_per_get_vs_nginx", &ratios(&many, CPU), Bar::AtMost(1.0)),
        judge("http_throughput_64_vs_nginx", &ratios(&many, RATE), Bar::AtLeast(0.95)),
        judge("http_throughput_1_vs_nginx", &ratios(&one, RATE), Bar::AtLeast(0.95)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}

/// The part about the cost of accounting alone.
pub fn run_accounting(effort: Effort) -> Result<bool, String> {
    let (full, off) = (start_pellucid("full")?, start_pellucid("off")?);
    let many = alternate(&full, &off, 64, effort)?;
    show("Accounting full against off, 64 connections", &many);
    let one = alternate(&full, &off, 1, effort)?;
    show("Accounting full against off, 1 connection", &one);
    let held = [
        judge("accounting_full_vs_off", &ratios(&many, RATE), Bar::AtLeast(0.97)),
        judge("accounting_full_vs_off_1", &ratios(&one, RATE), Bar::AtLeast(0.97)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}
