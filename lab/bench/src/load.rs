//! `bench-load`: compares the load generator with wrk, both at full throttle on the same nginx,
//! with and without scripts. It also measures the send lateness at a constant rate, without a
//! comparison: wrk has no constant rate.

use crate::RunSettings;
use crate::bars::{Bar, judge, median, ratios};
use crate::lateness_floor::floor;
use crate::overload::load_result;
use crate::peers::{Server, pellucid, start_nginx};
use crate::quiet_rounds::{columns, rounds, turns};
use crate::wrk::{requests_per_second, script_file};

/// The number of connections in the loads with many of them.
const CONNECTIONS: usize = 64;

/// The scripts by operation, like those of the study `entity` (docs/studies.md): each request has a
/// random key, and a PUT has a value of 103 bytes.
const SCRIPTS: [(&str, &str); 2] = [
    (
        "put",
        "request = function()
  key = math.random(1, 5000000)
  url = '/v0/entity?id=' .. key
  value = string.rep('v', 103)
  return wrk.format('PUT', url, {}, value)
end
",
    ),
    (
        "get",
        "request = function()
  key = math.random(1, 5000000)
  url = '/v0/entity?id=' .. key
  return wrk.format(nil, url)
end
",
    ),
];

/// A load that both generators run.
struct Load<'a> {
    url: &'a str,
    connections: usize,
    /// The path of the script, if the load has one.
    script: Option<&'a str>,
}

impl Load<'_> {
    /// Runs `program` with `before` as its first arguments; returns its requests per second.
    fn run(&self, program: &str, before: &[&str], seconds: u64) -> Result<f64, String> {
        let (connections, seconds) = (self.connections.to_string(), format!("{seconds}s"));
        let mut arguments = before.to_vec();
        arguments.extend(["-t", "1", "-c", &connections, "-d", &seconds]);
        arguments.extend(self.script.iter().flat_map(|script| ["-s", script]));
        arguments.push(self.url);
        requests_per_second(program, &arguments)
    }

    fn ours(&self, seconds: u64) -> Result<f64, String> {
        let program = pellucid();
        let program = program.to_str().ok_or("the path of the binary is no text")?;
        self.run(program, &["load"], seconds)
    }

    fn wrks(&self, seconds: u64) -> Result<f64, String> {
        self.run("wrk", &[], seconds)
    }
}

/// Measures the 99th percentile of the send lateness in microseconds, at 10,000 requests per
/// second.
fn lateness_us(server: &Server, seconds: u64) -> Result<f64, String> {
    let result = load_result(&server.url, &[], CONNECTIONS, Some(10_000.0), seconds)?;
    let p99_ns = result["send_lateness"]["p99_ns"].as_f64();
    p99_ns.map(|ns| ns / 1e3).ok_or_else(|| "the result has no send lateness".to_owned())
}

/// Measures our throughput divided by wrk's, one ratio a round. Each of them is first in every
/// second round.
fn alternate(name: &str, load: &Load<'_>, effort: RunSettings) -> Result<Vec<f64>, String> {
    let RunSettings { seconds, runs } = effort;
    let pairs =
        turns(runs, |is_ours| if is_ours { load.ours(seconds) } else { load.wrks(seconds) })?;
    let side = |pick: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(pick).collect::<Vec<_>>());
    println!(
        "pellucid load against wrk, {name}, {} connections: {:.0} against {:.0} requests/s",
        load.connections,
        side(|pair| pair.0),
        side(|pair| pair.1)
    );
    Ok(ratios(&pairs, |rate| *rate))
}

/// Runs the benchmark; true if all figures meet their required values.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let nginx = start_nginx()?;
    let mut all_hold = true;
    for connections in [1, CONNECTIONS] {
        let load = Load { url: &nginx.url, connections, script: None };
        let ratios = alternate("no script", &load, effort)?;
        let name = format!("load_throughput_{connections}_vs_wrk");
        all_hold &= judge(&name, &ratios, Bar::AtLeast(1.0));
    }
    for (operation, code) in SCRIPTS {
        let file = script_file(code)?;
        let script = file.path().to_str().ok_or("the path of the script is no text")?;
        let load = Load { url: &nginx.url, connections: CONNECTIONS, script: Some(script) };
        let ratios = alternate(&format!("{operation}.lua"), &load, effort)?;
        let name = format!("load_throughput_{operation}_script_vs_wrk");
        all_hold &= judge(&name, &ratios, Bar::AtLeast(1.0));
    }
    drop(nginx);
    Ok(run_lateness(effort)? && all_hold)
}

/// Measures the send lateness at a constant rate; returns true if it is small enough. Before and
/// after each run, the lateness that the machine alone causes is measured; it is printed to judge
/// the figure.
pub fn run_lateness(effort: RunSettings) -> Result<bool, String> {
    let nginx = start_nginx()?;
    let figures = rounds(effort.runs, |_| {
        let before = floor()?;
        let late = lateness_us(&nginx, effort.seconds)?;
        let after = floor()?;
        let clock_only = before.looking_us.midpoint(after.looking_us);
        Ok([late, clock_only, before.waking_us.midpoint(after.waking_us)])
    })?;
    let [lateness, clock_only, with_wakeups] = columns(&figures);
    println!(
        "p99 of the lateness of a thread that only looks at the clock, on the same core: {:.1} µs; \
         of one that wakes a process on the other core every 100 µs: {:.1} µs",
        median(&clock_only),
        median(&with_wakeups)
    );
    Ok(judge("load_send_lateness_p99_us", &lateness, Bar::AtMost(50.0)))
}
