//! `bench-overload`: loads the server with twice as many requests as it can answer. It must answer
//! nearly as many in time as at its best rate, use no more memory, and reach its usual latency
//! again within two seconds.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::RunSettings;
use crate::bars::{Bar, judge, median};
use crate::peers::{LOAD_CORE, Server, pellucid, start_pellucid, text};
use crate::quiet_rounds::{columns, rounds};

/// The longest time in nanoseconds from the sending of a request to an answer that is in time.
const IN_TIME_NS: f64 = 100e6;
/// The numbers of connections. The first is that of other benchmarks, where the connections
/// themselves limit the number of waiting requests. With the second, some twenty milliseconds of
/// requests wait at a time.
const CONNECTIONS: [usize; 2] = [64, 2_000];
/// The number of rates that are tried below full throttle, and the step between them as a share of
/// full throttle.
const RATES_TRIED: u32 = 10;
const RATE_STEP: f64 = 0.05;
/// The share of requests that must be answered in time at a stable rate.
const ANSWERED_MIN: f64 = 0.99;
/// The time that the server has to recover.
const RECOVERY: Duration = Duration::from_secs(2);

/// The result of one load.
pub struct Run {
    /// The number of answers.
    pub requests: f64,
    /// Answers in time per second, without refusals.
    pub in_time_per_second: f64,
    /// The 99th percentile of latencies that count from the sending of a request.
    pub p99_ns: f64,
    /// The 99.9th percentile of latencies that count from the sending of a request.
    pub p99_9_ns: f64,
    /// The 99.9th percentile of latencies that count from the time at which a request was due.
    pub response_p99_9_ns: f64,
    /// The number of errors of all kinds.
    pub errors: f64,
}

impl Run {
    /// Adds up two runs that took place at the same time, with the worse of their percentiles.
    pub fn beside(self, other: Run) -> Run {
        Run {
            requests: self.requests + other.requests,
            in_time_per_second: self.in_time_per_second + other.in_time_per_second,
            p99_ns: self.p99_ns.max(other.p99_ns),
            p99_9_ns: self.p99_9_ns.max(other.p99_9_ns),
            response_p99_9_ns: self.response_p99_9_ns.max(other.response_p99_9_ns),
            errors: self.errors + other.errors,
        }
    }
}

/// Loads the server at a rate that it can answer.
///
/// # Errors
///
/// An error of the load generator, or a text with the number of requests that failed.
pub fn load_within(
    server: &Server,
    connections: usize,
    rate: f64,
    seconds: u64,
) -> Result<Run, String> {
    let run = load(server, connections, Some(rate), seconds)?;
    if run.errors > 0.0 { Err(format!("{} requests failed", run.errors)) } else { Ok(run) }
}

/// Loads the server at `rate`, or without one at full throttle.
pub fn load(
    server: &Server,
    connections: usize,
    rate: Option<f64>,
    seconds: u64,
) -> Result<Run, String> {
    load_url(&server.url, &[], connections, rate, seconds)
}

/// Loads a URL as [`load_url`] does; returns the result of the load generator as it is.
pub fn load_result(
    url: &str,
    arguments: &[&str],
    connections: usize,
    rate: Option<f64>,
    seconds: u64,
) -> Result<Value, String> {
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CORE]).arg(pellucid()).args(["load", "-t", "1", "--json"]);
    command.args(["-c", &connections.to_string(), "-d", &format!("{seconds}s")]);
    if let Some(rate) = rate {
        command.args(["-R", &format!("{rate:.0}")]);
    }
    // The exit code is ignored: the generator fails if it judges the server overloaded, which is
    // intended here.
    let output = command.args(arguments).arg(url).output().map_err(text)?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Loads a URL at `rate`, or without one at full throttle, with further arguments of the load
/// generator.
pub fn load_url(
    url: &str,
    arguments: &[&str],
    connections: usize,
    rate: Option<f64>,
    seconds: u64,
) -> Result<Run, String> {
    let result = load_result(url, arguments, connections, rate, seconds)?;
    let figure = |value: &Value| value.as_f64().ok_or("the result lacks a figure");
    let times = &result["service_time"];
    let shares = [
        ("max_ns", 1.0),
        ("p99.99_ns", 0.9999),
        ("p99.9_ns", 0.999),
        ("p99_ns", 0.99),
        ("p90_ns", 0.9),
        ("p50_ns", 0.5),
    ];
    // The greatest percentile in time gives a lower bound of the share of answers in time.
    let is_in_time = |name: &str| times[name].as_f64().is_some_and(|ns| ns <= IN_TIME_NS);
    let share = shares.into_iter().find(|(name, _)| is_in_time(name)).map_or(0.0, |(_, s)| s);
    Ok(Run {
        requests: figure(&result["requests"])?,
        // All refusals may be among the quick answers.
        in_time_per_second: figure(&result["requests_per_second"])? * share
            - figure(&result["errors"]["status"])? / figure(&result["duration_seconds"])?,
        p99_ns: figure(&times["p99_ns"])?,
        p99_9_ns: figure(&times["p99.9_ns"])?,
        response_p99_9_ns: figure(&result["response_time"]["p99.9_ns"])?,
        errors: errors(&result)?,
    })
}

/// Adds up the errors of all kinds in a result of the load generator.
fn errors(result: &Value) -> Result<f64, String> {
    let kinds = result["errors"].as_object().ok_or("the result does not list its errors")?;
    let counts = kinds.values().map(Value::as_f64).sum::<Option<f64>>();
    counts.ok_or_else(|| "an error without a count".to_owned())
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let mut held = true;
    for connections in CONNECTIONS {
        let ratios = rounds(effort.runs.div_ceil(2), |_| overload(connections, effort))?;
        let [throughput, memory, recovery] = columns(&ratios);
        let bar = |name: &str| format!("overload_{name}_{connections}");
        held &= judge(&bar("in_time_vs_best"), &throughput, Bar::AtLeast(0.9));
        held &= judge(&bar("memory_growth"), &memory, Bar::AtMost(1.05));
        held &= judge(&bar("p99_2s_after_vs_before"), &recovery, Bar::AtMost(1.5));
    }
    Ok(held)
}

/// Runs one round on a server of its own, from the best rate to the recovery. Returns the ratios of
/// throughput, memory and p99. All loads have the same number of connections, because more
/// connections make each request dearer, even without an overload.
fn overload(connections: usize, effort: RunSettings) -> Result<[f64; 3], String> {
    let server = start_pellucid("full")?;
    let peak = Peak::of(&server, connections, effort)?;
    let before = p99s_ns(&server, connections, peak.stable_rate / 2.0)?;
    // The first overload allocates the memory that many requests at a time take, so that the growth
    // measured below is that of a lasting overload.
    load(&server, connections, Some(peak.stable_rate * 2.0), 1)?;
    let memory_before = server.anonymous_bytes();
    let cpu_before = server.cpu_seconds();
    let over = load(&server, connections, Some(peak.stable_rate * 2.0), effort.seconds * 2)?;
    let busy = (server.cpu_seconds() - cpu_before) / (effort.seconds * 2) as f64;
    let memory_growth = server.anonymous_bytes() as f64 / memory_before as f64;
    std::thread::sleep(RECOVERY);
    let after = p99s_ns(&server, connections, peak.stable_rate / 2.0)?;
    println!(
        "{connections} connections: {:.0}/s at most, stable up to {:.0}/s; at twice that {:.0}/s \
         in time, {:.0} failed, {:.0} % busy; p99 at half of it in ms {:.3?} before, {:.3?} after",
        peak.in_time_per_second,
        peak.stable_rate,
        over.in_time_per_second,
        over.errors,
        busy * 100.0,
        before.map(|ns| ns / 1e6),
        after.map(|ns| ns / 1e6)
    );
    let throughput = over.in_time_per_second / peak.in_time_per_second;
    Ok([throughput, memory_growth, median(&after) / median(&before)])
}

/// Measures the p99 of three short runs at `rate`, one after the other. A pause of the host of some
/// milliseconds affects only the p99 of one of them.
fn p99s_ns(server: &Server, connections: usize, rate: f64) -> Result<[f64; 3], String> {
    let mut p99s_ns = [0.0; 3];
    for p99_ns in &mut p99s_ns {
        *p99_ns = load_within(server, connections, rate, 2)?.p99_ns;
    }
    Ok(p99s_ns)
}

/// The capacity of a server.
struct Peak {
    /// The highest rate among those tried at which the server answered nearly all requests in time.
    stable_rate: f64,
    /// The most answers in time per second, at any rate.
    in_time_per_second: f64,
}

impl Peak {
    /// Tries full throttle, and rates downwards from there until one is stable.
    fn of(server: &Server, connections: usize, effort: RunSettings) -> Result<Peak, String> {
        let full = load(server, connections, None, effort.seconds)?.in_time_per_second;
        let mut most = full;
        for share in (1..=RATES_TRIED).map(|step| 1.0 - f64::from(step) * RATE_STEP) {
            let rate = full * share;
            let run = load_within(server, connections, rate, effort.seconds)?;
            most = most.max(run.in_time_per_second);
            if run.in_time_per_second >= rate * ANSWERED_MIN {
                return Ok(Peak { stable_rate: rate, in_time_per_second: most });
            }
        }
        Err(format!("{connections} connections: no rate near {full:.0}/s is stable"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the errors were read as a list, but they are an object, so no load had errors.
    #[test]
    fn errors_of_each_kind_count() {
        let result = serde_json::json!({ "errors": {"status": 2, "timeout": 1} });
        assert_eq!(errors(&result), Ok(3.0));
        assert!(errors(&serde_json::json!({ "errors": [] })).is_err());
        assert!(errors(&serde_json::json!({ "errors": {"status": "2"} })).is_err());
    }
}
