//! `bench-load`: the load generator beside wrk, both at full throttle on the same nginx; and how
//! late its sends are at a constant rate, which wrk has not.

use std::process::Command;

use crate::Effort;
use crate::bars::{Bar, judge, median};
use crate::peers::{LOAD_CORE, Server, pellucid, start_nginx, text};
use crate::wrk::{full_throttle, requests_per_second};

fn ours(server: &Server, connections: usize, seconds: u64) -> Result<f64, String> {
    let program = pellucid();
    let program = program.to_str().ok_or("the path of the binary is no text")?;
    let (connections, seconds) = (connections.to_string(), format!("{seconds}s"));
    let arguments = ["load", "-t", "1", "-c", &connections, "-d", &seconds, &server.url];
    requests_per_second(program, &arguments)
}

/// The 99th percentile of the send lateness in microseconds, at 10,000 requests per second.
fn lateness_us(server: &Server, seconds: u64) -> Result<f64, String> {
    let output = Command::new("taskset")
        .args(["-c", LOAD_CORE])
        .arg(pellucid())
        .args(["load", "-t", "1", "-c", "64", "-R", "10000", "--json", "-d"])
        .args([&format!("{seconds}s"), &server.url])
        .output()
        .map_err(text)?;
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(text)?;
    let p99_ns = result["send_lateness"]["p99_ns"].as_f64();
    p99_ns.map(|ns| ns / 1e3).ok_or_else(|| "the result has no send lateness".to_owned())
}

fn alternate(server: &Server, connections: usize, effort: Effort) -> Result<Vec<f64>, String> {
    let Effort { seconds, runs } = effort;
    let mut pairs = Vec::new();
    for round in 0..runs {
        pairs.push(if round % 2 == 0 {
            let first = ours(server, connections, seconds)?;
            (first, full_throttle(&server.url, connections, seconds)?)
        } else {
            let first = full_throttle(&server.url, connections, seconds)?;
            (ours(server, connections, seconds)?, first)
        });
    }
    let side = |pick: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(pick).collect::<Vec<_>>());
    println!(
        "pellucid load against wrk, {connections} connections: {:.0} against {:.0} requests/s",
        side(|pair| pair.0),
        side(|pair| pair.1)
    );
    Ok(pairs.iter().map(|(ours, theirs)| ours / theirs).collect())
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: Effort) -> Result<bool, String> {
    let nginx = start_nginx()?;
    let (one, many) = (alternate(&nginx, 1, effort)?, alternate(&nginx, 64, effort)?);
    let lateness = (0..effort.runs).map(|_| lateness_us(&nginx, effort.seconds));
    let lateness = lateness.collect::<Result<Vec<_>, _>>()?;
    let held = [
        judge("load_throughput_1_vs_wrk", &one, Bar::AtLeast(1.0)),
        judge("load_throughput_64_vs_wrk", &many, Bar::AtLeast(1.0)),
        judge("load_send_lateness_p99_us", &lateness, Bar::AtMost(50.0)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}
