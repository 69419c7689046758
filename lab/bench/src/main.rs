//! Benchmarks that compare Pellucid with its peers. No two machines are equal, and one machine
//! changes over time. So peer and Pellucid run in turns within one call, and the result is the
//! median of the ratios.
//!
//! Each benchmark ends with one JSON line per bar, and exits with 1 if a bar does not hold.

mod accuracy;
mod bare_server;
mod bars;
mod client;
mod cluster;
mod death;
mod documents;
mod http;
mod interval;
mod knee;
mod lateness_floor;
mod load;
mod neighbours;
mod nodes;
mod overload;
mod peers;
mod profile_coverage;
mod profiles;
mod quiet_rounds;
mod space;
mod wrk;

use std::process::ExitCode;

use crate::peers::text;

const BENCHMARKS: &str = "http, http2, idle, accounting, cluster, direct, death, documents, \
     neighbours, cold-reads, overload, profiles, heap, explained, load, lateness, accuracy, knee \
     or space";

/// The length and the number of the runs. `QUICK=1` reduces both, for a first impression.
#[derive(Clone, Copy)]
pub struct RunSettings {
    /// The measured seconds of each run.
    pub seconds: u64,
    /// The number of runs of each side.
    pub runs: usize,
}

fn main() -> ExitCode {
    let quick = std::env::var_os("QUICK").is_some_and(|value| value != "0");
    let effort = if quick {
        RunSettings { seconds: 2, runs: 3 }
    } else {
        RunSettings { seconds: 5, runs: 10 }
    };
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("http") => http::run(effort),
        Some("http2") => http::run_http2(effort),
        Some("idle") => http::run_idle(),
        Some("accounting") => http::run_accounting(effort),
        Some("load") => load::run(effort)
            .and_then(|held| Ok(accuracy::run(effort)? && held))
            .and_then(|held| Ok(knee::run(effort)? && held)),
        Some("lateness") => load::run_lateness(effort),
        Some("knee") => knee::run(effort),
        Some("accuracy") => accuracy::run(effort),
        Some("bare") => {
            let port = std::env::args().nth(2).and_then(|port| port.parse().ok());
            port.ok_or("say on which port".to_owned()).and_then(bare_server::serve).map(|()| true)
        }
        // Another benchmark starts this one in a process of its own, which is bound to one core.
        Some("floor") => lateness_floor::look(),
        Some("cluster") => cluster::run(effort),
        Some("direct") => cluster::run_direct(effort),
        Some("death") => death::run(effort).map(|held| held.into_iter().all(|holds| holds)),
        Some("documents") => documents::run(effort),
        Some("neighbours") => neighbours::run(effort),
        Some("cold-reads") => neighbours::run_cold_reads(effort),
        Some("overload") => overload::run(effort),
        Some("profiles") => profiles::run(effort),
        Some("heap") => profiles::run_heap(effort),
        Some("explained") => profile_coverage::run(effort),
        Some("space") => space::run(quick),
        _ => Err(format!("name the benchmark: {BENCHMARKS}")),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}
