//! `bench-load`: the load generator beside wrk, both at full throttle on the same nginx.

use crate::Effort;
use crate::bars::{Bar, judge, median};
use crate::peers::{Server, pellucid, start_nginx};
use crate::wrk::{full_throttle, requests_per_second};

fn ours(server: &Server, connections: usize, seconds: u64) -> Result<f64, String> {
    let program = pellucid();
    let program = program.to_str().ok_or("the path of the binary is no text")?;
    let (connections, seconds) = (connections.to_string(), format!("{seconds}s"));
    let arguments = ["load", "-t", "1", "-c", &connections, "-d", &seconds, &server.url];
    requests_per_second(program, &arguments)
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
    let held = [
        judge("load_throughput_1_vs_wrk", &one, Bar::AtLeast(0.9)),
        judge("load_throughput_64_vs_wrk", &many, Bar::AtLeast(0.9)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}
