//! `bench-cluster`: what forwarding costs. Two nodes of a cluster share the first core; the load
//! asks one of them, for a key of its own and for one of the other's. Processor time is that of
//! both.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::Effort;
use crate::bars::{Bar, judge};
use crate::client::Client;
use crate::death;
use crate::nodes::{Nodes, start_nodes};
use crate::overload::load_url;
use crate::peers::{BODY_BYTES, Server, start_pellucid, text};
use crate::quiet::{columns, rounds, turns};
use crate::wrk::{full_throttle, full_throttle_put};

/// Connections, as in the study.
const CONNECTIONS: usize = 64;
/// Keys of the load with missing ones, and every how-many-th of them is asked for without being
/// there: 3 of 10.
const KEYS: u64 = 20_000;

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: Effort) -> Result<bool, String> {
    let nodes = start_nodes(2)?;
    let urls = [0, 1].map(|owner| nodes.key_of(owner));
    let [own, other] = [urls[0].clone()?, urls[1].clone()?];
    let alone = start_pellucid("full")?;
    put(&nodes, &own)?;
    put(&nodes, &other)?;
    let ratios = rounds(effort.runs.div_ceil(2), |_| {
        let local_get =
            cost_of(&nodes, || full_throttle(&own, CONNECTIONS, effort.seconds), effort)?;
        let far_get =
            cost_of(&nodes, || full_throttle(&other, CONNECTIONS, effort.seconds), effort)?;
        let local_put =
            cost_of(&nodes, || full_throttle_put(&own, CONNECTIONS, effort.seconds), effort)?;
        let far_put =
            cost_of(&nodes, || full_throttle_put(&other, CONNECTIONS, effort.seconds), effort)?;
        let one =
            cost(&[&alone], || full_throttle(&alone.url, CONNECTIONS, effort.seconds), effort)?;
        println!(
            "µs of a GET: {:.2} alone, {:.2} own, {:.2} forwarded; of a PUT: {:.2} own, {:.2} \
             forwarded; {:.0} forwarded GETs a second",
            one.us, local_get.us, far_get.us, local_put.us, far_put.us, far_get.rate
        );
        // Well below the knee of the slower.
        let rate = far_get.rate * 0.5;
        let local = load_at(&own, rate, effort)?;
        let far = load_at(&other, rate, effort)?;
        println!("p99 at {rate:.0}/s: {:.3} ms own, {:.3} ms forwarded", local / 1e6, far / 1e6);
        Ok([
            far_get.us / local_get.us,
            far_put.us / local_put.us,
            local_get.us / one.us,
            far / local,
        ])
    })?;
    let [get, put, single, tail] = columns(&ratios);
    let missing = missing_keys(&nodes, effort)?;
    drop((nodes, alone));
    let mut held = vec![
        judge("cluster_cpu_forwarded_get_vs_local", &get, Bar::AtMost(1.8)),
        judge("cluster_cpu_forwarded_put_vs_local", &put, Bar::AtMost(1.8)),
        judge("cluster_cpu_direct_get_vs_single_node", &single, Bar::AtMost(1.05)),
        judge("cluster_p99_forwarded_vs_local", &tail, Bar::AtMost(2.5)),
        judge("cluster_p99_missing_keys_vs_present", &missing, Bar::AtMost(1.2)),
    ];
    held.extend(death::run(effort)?);
    Ok(held.into_iter().all(|holds| holds))
}

/// The 99th percentile in nanoseconds of GETs of one key.
fn load_at(url: &str, rate: f64, effort: Effort) -> Result<f64, String> {
    Ok(load_url(url, &[], CONNECTIONS, Some(rate), effort.seconds)?.p99_ns)
}

/// Processor time of a request in microseconds, and how many there were in a second.
struct Cost {
    us: f64,
    rate: f64,
}

fn cost(
    servers: &[&Server],
    run: impl FnOnce() -> Result<f64, String>,
    effort: Effort,
) -> Result<Cost, String> {
    let cpu = || servers.iter().map(|server| server.cpu_seconds()).sum::<f64>();
    let before = cpu();
    let rate = run()?;
    let us = (cpu() - before) * 1e6 / (rate * effort.seconds as f64);
    Ok(Cost { us, rate })
}

fn cost_of(
    nodes: &Nodes,
    run: impl FnOnce() -> Result<f64, String>,
    effort: Effort,
) -> Result<Cost, String> {
    let servers: Vec<_> = nodes.servers.iter().collect();
    cost(&servers, run, effort)
}

fn put(nodes: &Nodes, url: &str) -> Result<(), String> {
    let target = url.split_once("/v0").map(|(_, rest)| format!("/v0{rest}")).unwrap_or_default();
    let value = "v".repeat(BODY_BYTES);
    Client::connect(&nodes.addresses[0])?.call("PUT", &target, &value).map(|_| ())
}

/// The 99th percentile of GETs of which 3 in 10 are for keys that are not there, by that of GETs
/// that all are.
fn missing_keys(nodes: &Nodes, effort: Effort) -> Result<Vec<f64>, String> {
    let mut client = Client::connect(&nodes.addresses[0])?;
    let value = "v".repeat(BODY_BYTES);
    for begin in (0..KEYS).step_by(100) {
        let keys = begin..begin + 100;
        client.call_all(keys.map(|key| ("PUT", format!("/v0/entity?id=m{key}"), &*value)))?;
    }
    let script = |missing: bool| {
        let mut lua = String::new();
        let _ = writeln!(lua, "math.randomseed(7)\nfunction request()");
        let _ = writeln!(lua, "  local key = math.random(0, {})", KEYS - 1);
        if missing {
            lua += "  if math.random(10) <= 3 then key = 'none' .. key end\n";
        }
        lua + "  return wrk.format('GET', '/v0/entity?id=m' .. key)\nend\n"
    };
    let url = format!("http://{}/", nodes.addresses[0]);
    let run = |missing: bool, rate: Option<f64>| {
        let mut file = tempfile::NamedTempFile::new().map_err(text)?;
        file.write_all(script(missing).as_bytes()).map_err(text)?;
        let path = file.path().to_str().ok_or("the path of the script is no text")?;
        load_url(&url, &["-s", path], CONNECTIONS, rate, effort.seconds)
    };
    let rate = run(false, None)?.in_time_per_second * 0.5;
    let pairs = turns(effort.runs, |missing| Ok(run(missing, Some(rate))?.p99_ns))?;
    for (some, present) in &pairs {
        println!(
            "p99 at {rate:.0}/s: {:.3} ms present, {:.3} ms 30 % missing",
            present / 1e6,
            some / 1e6
        );
    }
    Ok(pairs.iter().map(|(some, present)| some / present).collect())
}
