//! `bench-profiles`: compares the server with itself without profiling, and measures the share of
//! its processor time that profiles explain.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::RunSettings;
use crate::bars::{Bar, median, ratios};
use crate::client::Client;
use crate::http::{self, Run};
use crate::interval::{judge, of_median};
use crate::peers::{LOAD_CORE, Server, start_pellucid_with, text};
use crate::profile_coverage;
use crate::quiet_rounds::turns;
use crate::wrk::script_file;

const CONNECTIONS: &str = "64";
/// The number of rounds for each run of the effort. There are many, because the difference is
/// small: the ratios of single rounds vary by two or three percent, and the median of 400 is exact
/// to a quarter of a percent.
const ROUNDS_PER_RUN: usize = 40;
/// The duration of one side of a round. It is short, because the speed of the machine changes
/// within seconds.
const SLICE: Duration = Duration::from_millis(300);
/// The path at which the sampling rates are set.
const RATES: &str = "/debug/pprof/rates";
/// The number of documents that a query of the second load scans; it constructs a new object for
/// each.
const DOCUMENTS: u64 = 100;
const COLLECTION: &str = "profiled";
/// The duration of the allocation profile that estimates the bytes of a request.
const ALLOCATING_SECONDS: u64 = 2;

/// The kind of requests of a load.
enum LoadKind {
    /// GETs of one entry. They are the shortest requests, so the cost of samples weighs most.
    Gets,
    /// Queries, which allocate much; GETs of entries hardly allocate.
    Queries,
}

/// The rates with only samples of the processor, with only samples of allocations, and with none.
/// Each kind is measured alone, since their costs arise in different places.
const CPU: &str = "hz=19&bytes=0";
const HEAP: &str = "hz=0&bytes=524288";
const OFF: &str = "hz=0&bytes=0";

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let held = [
        beside_none("cpu_ring", &LoadKind::Gets, CPU, OFF, Bar::AtLeast(0.995), effort)?,
        run_heap(effort)?,
    ];
    Ok(profile_coverage::run(effort)? && held.into_iter().all(|holds| holds))
}

/// Runs only the part that measures the cost of sampling allocations.
pub fn run_heap(effort: RunSettings) -> Result<bool, String> {
    beside_none("heap_sampling", &LoadKind::Queries, HEAP, OFF, Bar::AtLeast(0.99), effort)
}

/// Loads one server without a pause, and sets its rates to `with` and to `without` in turns, each
/// first in every second round. One process and one load serve both sides: the memory layout of a
/// process makes it a few percent faster or slower than another process of the same program, and so
/// does each start of a load. Both effects are greater than the measured difference.
fn beside_none(
    name: &str,
    work: &LoadKind,
    with: &str,
    without: &str,
    bar: Bar,
    effort: RunSettings,
) -> Result<bool, String> {
    let server = start_pellucid_with(&[])?;
    let mut client = Client::connect(&server.url)?;
    let script = script_file(&work.prepare(&mut client)?)?;
    let _load = EndlessLoad::start(&server.url, script.path())?;
    slice(&server, &mut client, with)?;
    println!("{name}: a request allocates {:.0} bytes", allocated_bytes(&mut client)?);
    let pairs = turns(effort.runs * ROUNDS_PER_RUN, |is_with| {
        slice(&server, &mut client, if is_with { with } else { without })
    })?;
    let (throughput, cpu) = (ratios(&pairs, http::RATE), ratios(&pairs, http::CPU));
    let told = |ratios: &[f64]| {
        let [low, high] = of_median(ratios);
        format!("{:.4} ({low:.4} to {high:.4})", median(ratios))
    };
    println!(
        "{name}: {} of the throughput and {} times the processor time without it; in brackets, \
         where the median is with 95 % certainty",
        told(&throughput),
        told(&cpu)
    );
    Ok(judge(&format!("{name}_throughput_vs_off"), &throughput, bar))
}

impl LoadKind {
    /// Creates the data that the load reads; returns wrk's script.
    fn prepare(&self, client: &mut Client) -> Result<String, String> {
        match self {
            LoadKind::Gets => Ok(String::new()),
            LoadKind::Queries => {
                let collection = format!("{{\"name\":\"{COLLECTION}\"}}");
                client.call("POST", "/_api/collection", &collection)?;
                let mut lines = String::new();
                for number in 0..DOCUMENTS {
                    let name = "n".repeat(40);
                    let line = format!("{{\"number\":{number},\"name\":\"{name}\"}}");
                    writeln!(lines, "{line}").map_err(text)?;
                }
                let target = format!("/_api/import?collection={COLLECTION}&type=documents");
                client.call("POST", &target, &lines)?;
                let query = format!(
                    "{{\"query\":\"FOR d IN {COLLECTION} RETURN {{number: d.number + 1, name: \
                     CONCAT(d.name, d._key)}}\",\"batchSize\":{DOCUMENTS}}}"
                );
                // A first query shows errors here; otherwise the load would measure refusals.
                client.call("POST", "/_api/cursor", &query)?;
                Ok(format!(
                    "wrk.method = 'POST'\nwrk.path = '/_api/cursor'\nwrk.body = [==[{query}]==]\n"
                ))
            }
        }
    }
}

/// Returns the bytes that a request allocates, as estimated from samples.
fn allocated_bytes(client: &mut Client) -> Result<f64, String> {
    client.call("PUT", &format!("{RATES}?bytes=65536"), "")?;
    let before = answered(client)?;
    let target = format!("/debug/pprof/allocs?seconds={ALLOCATING_SECONDS}&format=folded");
    let folded = String::from_utf8_lossy(client.call("GET", &target, "")?).into_owned();
    let requests = answered(client)? - before;
    let of_requests = folded.lines().filter(|line| !line.starts_with("job "));
    let bytes = of_requests.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    Ok(bytes.sum::<f64>() / requests.max(1.0))
}

/// Measures one slice of the running load at these sampling rates, by the server's own counters.
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

/// Returns the number of requests that the server has answered so far.
fn answered(client: &mut Client) -> Result<f64, String> {
    let page = String::from_utf8_lossy(client.call("GET", "/metrics", "")?).into_owned();
    let counts = page.lines().filter_map(|line| line.strip_prefix("pellucid_requests_total{"));
    let counts = counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    Ok(counts.sum())
}

/// A load that runs until it is dropped.
struct EndlessLoad(Child);

impl EndlessLoad {
    fn start(url: &str, script: &Path) -> Result<EndlessLoad, String> {
        let load = Command::new("taskset")
            .args(["-c", LOAD_CORE, "wrk", "-t", "1", "-c", CONNECTIONS, "-d", "1h", "-s"])
            .arg(script)
            .arg(url)
            .stdout(Stdio::null())
            .spawn()
            .map_err(text)?;
        Ok(EndlessLoad(load))
    }
}

impl Drop for EndlessLoad {
    fn drop(&mut self) {
        // `kill` fails only if the load has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
