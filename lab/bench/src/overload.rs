//! `bench-overload`: twice as many requests as the server can answer. It has to answer as many in
//! time as at its best, take no more memory for it, and be itself again within two seconds.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::Effort;
use crate::bars::{Bar, judge, median};
use crate::peers::{LOAD_CORE, Server, pellucid, start_pellucid, text};
use crate::quiet::{columns, rounds};

/// An answer that takes longer than this from its request's sending is too late.
const IN_TIME_NS: f64 = 100e6;
/// As many connections as elsewhere, which bound what can be waiting by themselves; and so many
/// that twenty milliseconds of requests are waiting at a time.
const CONNECTIONS: [usize; 2] = [64, 2_000];
/// Rates tried below full throttle, and how far they are apart.
const RATES_TRIED: u32 = 10;
const RATE_STEP: f64 = 0.05;
/// The share of a stable rate that is answered in time.
const ANSWERED_MIN: f64 = 0.99;
/// How long the server has to get back to normal.
const RECOVERY: Duration = Duration::from_secs(2);

/// What one load shows.
pub struct Run {
    /// Answers.
    pub requests: f64,
    /// Answers in time, each second, refusals not counted.
    pub in_time_per_second: f64,
    /// The 99th percentile of all answers, from when they were sent.
    pub p99_ns: f64,
    /// The 99.9th percentile of all answers, from when they were sent.
    pub p99_9_ns: f64,
    /// The same from when they were due.
    pub response_p99_9_ns: f64,
    /// Errors of all kinds.
    pub errors: f64,
}

impl Run {
    /// Both of two runs at the same time, with the worse of their percentiles.
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

/// Loads the server with what it can bear, and fails at the first request that fails.
pub fn load_within(
    server: &Server,
    connections: usize,
    rate: f64,
    seconds: u64,
) -> Result<Run, String> {
    let run = load(server, connections, Some(rate), seconds)?;
    if run.errors > 0.0 { Err(format!("{} requests failed", run.errors)) } else { Ok(run) }
}

/// Loads the server: at this rate, or with as much as the connections can take.
pub fn load(
    server: &Server,
    connections: usize,
    rate: Option<f64>,
    seconds: u64,
) -> Result<Run, String> {
    load_url(&server.url, &[], connections, rate, seconds)
}

/// The same of a URL, with further arguments of the load generator.
pub fn load_url(
    url: &str,
    arguments: &[&str],
    connections: usize,
    rate: Option<f64>,
    seconds: u64,
) -> Result<Run, String> {
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CORE]).arg(pellucid()).args(["load", "-t", "1", "--json"]);
    command.args(["-c", &connections.to_string(), "-d", &format!("{seconds}s")]);
    if let Some(rate) = rate {
        command.args(["-R", &format!("{rate:.0}")]);
    }
    // An overload is a verdict of the generator, and here it is what was asked for.
    let output = command.args(arguments).arg(url).output().map_err(text)?;
    let result: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
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
    // The largest share that is known to be in time.
    let is_in_time = |name: &str| times[name].as_f64().is_some_and(|ns| ns <= IN_TIME_NS);
    let share = shares.into_iter().find(|(name, _)| is_in_time(name)).map_or(0.0, |(_, s)| s);
    Ok(Run {
        requests: figure(&result["requests"])?,
        // All that was refused may have been among what was quick.
        in_time_per_second: figure(&result["requests_per_second"])? * share
            - figure(&result["errors"]["status"])? / figure(&result["duration_seconds"])?,
        p99_ns: figure(&times["p99_ns"])?,
        p99_9_ns: figure(&times["p99.9_ns"])?,
        response_p99_9_ns: figure(&result["response_time"]["p99.9_ns"])?,
        errors: errors(&result)?,
    })
}

/// The errors of all kinds in a result of the load generator.
fn errors(result: &Value) -> Result<f64, String> {
    let kinds = result["errors"].as_object().ok_or("the result does not list its errors")?;
    let counts = kinds.values().map(Value::as_f64).sum::<Option<f64>>();
    counts.ok_or_else(|| "an error without a count".to_owned())
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: Effort) -> Result<bool, String> {
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

/// One round with so many connections, from the best to the recovery, on a server of its own. What
/// is compared has the same connections: more of them cost any server more for each request, also
/// where nothing is too much.
fn overload(connections: usize, effort: Effort) -> Result<[f64; 3], String> {
    let server = start_pellucid("full")?;
    let peak = Peak::of(&server, connections, effort)?;
    let before = p99s_ns(&server, connections, peak.stable_rate / 2.0)?;
    // What requests take that are many at a time is there after the first overload.
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

/// The p99 of short runs at `rate`, one after the other. A pause of the host of some milliseconds
/// is in the p99 of the one into which it falls.
fn p99s_ns(server: &Server, connections: usize, rate: f64) -> Result<[f64; 3], String> {
    let mut p99s_ns = [0.0; 3];
    for p99_ns in &mut p99s_ns {
        *p99_ns = load_within(server, connections, rate, 2)?.p99_ns;
    }
    Ok(p99s_ns)
}

/// What a server can bear.
struct Peak {
    /// The highest rate of those tried at which it answered what it was asked.
    stable_rate: f64,
    /// The most that it answered in time each second, at whichever rate.
    in_time_per_second: f64,
}

impl Peak {
    /// Tries full throttle, and rates downwards from there until one is stable.
    fn of(server: &Server, connections: usize, effort: Effort) -> Result<Peak, String> {
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

    /// It was looked for in a list, which it never was, so that each load had no error.
    #[test]
    fn errors_of_each_kind_count() {
        let result = serde_json::json!({ "errors": {"status": 2, "timeout": 1} });
        assert_eq!(errors(&result), Ok(3.0));
        assert!(errors(&serde_json::json!({ "errors": [] })).is_err());
        assert!(errors(&serde_json::json!({ "errors": {"status": "2"} })).is_err());
    }
}
