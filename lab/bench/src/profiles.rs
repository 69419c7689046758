//! `bench-profiles`: the server beside itself without profiling, and how much of its processor time
//! profiles explain.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Effort;
use crate::bars::{Bar, median};
use crate::client::Client;
use crate::explained;
use crate::interval::{judge, of_median};
use crate::peers::{LOAD_CORE, Server, start_pellucid_with, text};
use crate::quiet::turns;

const CONNECTIONS: &str = "64";
/// Rounds for each run that is asked for: what is looked for is small. Rounds of one slice are two
/// or three in a hundred apart, and the median of 400 is known to a quarter of a hundredth.
const ROUNDS_PER_RUN: usize = 40;
/// One side of a round: short, as the machine is another one a few seconds later.
const SLICE: Duration = Duration::from_millis(300);
/// Where the rates are set.
const RATES: &str = "/debug/pprof/rates";
/// Documents that a query of the second load goes through and returns, each made anew.
const DOCUMENTS: u64 = 100;
const COLLECTION: &str = "profiled";
/// How long is looked at what the loads allocate.
const ALLOCATING_SECONDS: u64 = 2;

/// One run: requests a second, and processor time for each.
#[derive(Clone, Copy)]
struct Run {
    requests_per_second: f64,
    cpu_us_per_request: f64,
}

/// A load, and what it is to be asked for.
enum Work {
    /// GETs of one entry, which are over soonest, so that what each sample costs weighs most.
    Gets,
    /// Queries, which allocate: GETs of entries do hardly.
    Queries,
}

/// The rates of either kind alone, since they are paid for in different places, and of none.
const CPU: &str = "hz=19&bytes=0";
const HEAP: &str = "hz=0&bytes=524288";
const OFF: &str = "hz=0&bytes=0";

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: Effort) -> Result<bool, String> {
    let held = [
        beside_none("cpu_ring", &Work::Gets, CPU, OFF, Bar::AtLeast(0.995), effort)?,
        run_heap(effort)?,
    ];
    Ok(explained::run(effort)? && held.into_iter().all(|holds| holds))
}

/// What sampling of memory costs, alone.
pub fn run_heap(effort: Effort) -> Result<bool, String> {
    beside_none("heap_sampling", &Work::Queries, HEAP, OFF, Bar::AtLeast(0.99), effort)
}

/// Loads one server without a pause, and sets its rates to `with` and to `without` in turns, each
/// first in every second round. Where a process lies in memory makes it a few percent faster or
/// slower than the same program in the next one, and so does each start of a load: both are more
/// than what is looked for.
fn beside_none(
    name: &str,
    work: &Work,
    with: &str,
    without: &str,
    bar: Bar,
    effort: Effort,
) -> Result<bool, String> {
    let server = start_pellucid_with(&[])?;
    let mut client = Client::connect(&server.url)?;
    let script = tempfile::NamedTempFile::new().map_err(text)?;
    std::fs::write(script.path(), work.prepare(&mut client)?).map_err(text)?;
    let _load = EndlessLoad::start(&server.url, script.path())?;
    slice(&server, &mut client, with)?;
    println!("{name}: a request allocates {:.0} bytes", allocated_bytes(&mut client)?);
    let pairs = turns(effort.runs * ROUNDS_PER_RUN, |is_with| {
        slice(&server, &mut client, if is_with { with } else { without })
    })?;
    let ratios = |of: fn(&Run) -> f64| -> Vec<f64> {
        pairs.iter().map(|(with, without)| of(with) / of(without)).collect()
    };
    let (throughput, cpu) =
        (ratios(|run| run.requests_per_second), ratios(|run| run.cpu_us_per_request));
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

impl Work {
    /// Makes what is asked for; returns wrk's script.
    fn prepare(&self, client: &mut Client) -> Result<String, String> {
        match self {
            Work::Gets => Ok(String::new()),
            Work::Queries => {
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
                // One that fails would be measured as a load of refusals.
                client.call("POST", "/_api/cursor", &query)?;
                Ok(format!(
                    "wrk.method = 'POST'\nwrk.path = '/_api/cursor'\nwrk.body = [==[{query}]==]\n"
                ))
            }
        }
    }
}

/// Bytes that a request allocates, as sampling estimates it.
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
        // If it is gone already, there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
