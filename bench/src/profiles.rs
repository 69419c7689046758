//! `bench-profiles`: the server beside itself without profiling, and how much of its processor time
//! the profile of a PUT and of a GET load explains.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Effort;
use crate::bars::{Bar, judge, median};
use crate::client::Client;
use crate::peers::{LOAD_CORE, Server, pellucid, start_pellucid_with, text};
use crate::quiet::turns;

const CONNECTIONS: &str = "64";
/// Rounds for each run that is asked for: what is looked for is small.
const ROUNDS_PER_RUN: usize = 20;
/// One side of a round: short, as the machine is another one a few seconds later.
const SLICE: Duration = Duration::from_millis(300);
/// Where the rates are set.
const RATES: &str = "/debug/pprof/rates";
/// Keys that the loads ask for.
const KEYS: &str = "100000";

/// One run: requests a second, and processor time for each.
#[derive(Clone, Copy)]
struct Run {
    requests_per_second: f64,
    cpu_us_per_request: f64,
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: Effort) -> Result<bool, String> {
    // Each alone, since they are paid for in different places.
    let (cpu, heap, off) = ("hz=19&bytes=0", "hz=0&bytes=524288", "hz=0&bytes=0");
    let cpu_holds = beside_none("cpu_ring", cpu, off, Bar::AtLeast(0.995), effort)?;
    let heap_holds = beside_none("heap_sampling", heap, off, Bar::AtLeast(0.99), effort)?;
    Ok(explained(effort)? && cpu_holds && heap_holds)
}

/// Loads one server without a pause, and sets its rates to `with` and to `without` in turns, each
/// first in every second round. Where a process lies in memory makes it a few percent faster or
/// slower than the same program in the next one, and so does each start of a load: both are more
/// than what is looked for.
fn beside_none(
    name: &str,
    with: &str,
    without: &str,
    bar: Bar,
    effort: Effort,
) -> Result<bool, String> {
    let server = start_pellucid_with(&[])?;
    let _load = EndlessLoad::start(&server.url)?;
    let mut client = Client::connect(&server.url)?;
    slice(&server, &mut client, with)?;
    let pairs = turns(effort.runs * ROUNDS_PER_RUN, |is_with| {
        slice(&server, &mut client, if is_with { with } else { without })
    })?;
    let ratios = |of: fn(&Run) -> f64| -> Vec<f64> {
        pairs.iter().map(|(with, without)| of(with) / of(without)).collect()
    };
    let throughput = ratios(|run| run.requests_per_second);
    println!(
        "{name}: {:.4} of the throughput and {:.4} times the processor time without it",
        median(&throughput),
        median(&ratios(|run| run.cpu_us_per_request))
    );
    Ok(judge(&format!("{name}_throughput_vs_off"), &throughput, bar))
}

/// What the server, under load, does in one slice at these rates, by its own count.
fn slice(server: &Server, client: &mut Client, rates: &str) -> Result<Run, String> {
    client.call("PUT", &format!("{RATES}?{rates}"), "")?;
    let (cpu, begun, before) = (server.cpu_seconds(), Instant::now(), answered(client)?);
    std::thread::sleep(SLICE);
    let requests = answered(client)? - before;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), server.cpu_seconds() - cpu);
    if requests == 0.0 {
        return Err("the load has ended".to_owned());
    }
    Ok(Run { requests_per_second: requests / seconds, cpu_us_per_request: cpu * 1e6 / requests })
}

/// Requests that the server has answered until now.
fn answered(client: &mut Client) -> Result<f64, String> {
    let page = String::from_utf8_lossy(client.call("GET", "/metrics", "")?).into_owned();
    let counts = page.lines().filter_map(|line| line.strip_prefix("pellucid_requests_total{"));
    let counts = counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    Ok(counts.sum())
}

/// A load that goes on until it is dropped.
struct EndlessLoad(Child);

impl EndlessLoad {
    fn start(url: &str) -> Result<EndlessLoad, String> {
        let load = Command::new("taskset")
            .args(["-c", LOAD_CORE, "wrk", "-t", "1", "-c", CONNECTIONS, "-d", "1h", url])
            .stdout(Stdio::null())
            .spawn()
            .map_err(text)?;
        Ok(EndlessLoad(load))
    }
}

impl Drop for EndlessLoad {
    fn drop(&mut self) {
        // If it is gone already, there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Loads a server with PUTs, then with GETs, and asks each time where its time went.
fn explained(effort: Effort) -> Result<bool, String> {
    let server = start_pellucid_with(&[])?;
    let address = server.url.split("/v0").next().unwrap_or_default().to_owned();
    let mut all_hold = true;
    for method in ["PUT", "GET"] {
        let seconds = effort.seconds * 2;
        // It is there as long as the load may read it.
        let script = script(method)?;
        let mut load = Command::new("taskset")
            .args(["-c", LOAD_CORE])
            .arg(pellucid())
            .args(["load", "-c", CONNECTIONS, "-t", "1", "-d", &format!("{}s", seconds + 2), "-s"])
            .arg(script.path())
            .arg(&address)
            .stdout(Stdio::null())
            .spawn()
            .map_err(text)?;
        std::thread::sleep(Duration::from_secs(1));
        for kind in ["cpu", "allocs", "lock"] {
            let shares = shares(&address, kind, if kind == "cpu" { seconds - 1 } else { 1 })?;
            println!("{method}, {kind}:\n{shares}");
            if kind == "cpu" {
                let line = shares.lines().find_map(|line| line.strip_prefix("explained by "));
                let share = line.and_then(|line| line.rsplit(' ').next()?.strip_suffix('%'));
                let share: f64 = share.ok_or("no share")?.parse().map_err(text)?;
                let name = format!("{}_cpu_explained", method.to_lowercase());
                all_hold &= judge(&name, &[share / 100.0], Bar::AtLeast(0.97));
            }
        }
        if !load.wait().map_err(text)?.success() {
            return Err(format!("the load of {method}s failed, so the profiles are of none"));
        }
    }
    Ok(all_hold)
}

fn script(method: &str) -> Result<tempfile::NamedTempFile, String> {
    let file = tempfile::NamedTempFile::new().map_err(text)?;
    let body = if method == "PUT" { "string.rep('v', 103)" } else { "''" };
    let lua = format!(
        "request = function()\n  local id = math.random(1, {KEYS})\n  \
         return wrk.format('{method}', '/v0/entity?id=' .. id, {{}}, {body})\nend\n"
    );
    std::fs::write(file.path(), lua).map_err(text)?;
    Ok(file)
}

fn shares(url: &str, kind: &str, seconds: u64) -> Result<String, String> {
    let output = Command::new(pellucid())
        .args(["profile", url, kind, "--seconds", &seconds.to_string()])
        .output()
        .map_err(text)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
