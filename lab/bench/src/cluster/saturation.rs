//! Measures forwarding of one key at full throttle: as many requests are in flight as there are
//! connections, so one wake-up serves many of them.

use super::{CONNECTIONS, Servers, processor_us};
use crate::RunSettings;
use crate::bars::{Bar, judge};
use crate::client::Client;
use crate::peers::{BODY_BYTES, Server};
use crate::quiet_rounds::{columns, rounds};
use crate::wrk::{full_throttle, full_throttle_put};

/// The cost of a load.
struct Cost {
    /// The processor time per request, in microseconds.
    us: f64,
    /// The rate in requests per second.
    rate: f64,
}

/// A function that runs wrk on a URL, with a number of connections, for a number of seconds, and
/// returns the rate in requests per second.
type RateFunction = fn(&str, usize, u64) -> Result<f64, String>;

pub(super) fn run(servers: &Servers, effort: RunSettings) -> Result<Vec<bool>, String> {
    let [own, other] = [servers.nodes.key_of(0)?, servers.nodes.key_of(1)?];
    for url in [&own, &other] {
        put(servers, url)?;
    }
    let both = servers.of_cluster();
    let of_both = |url: &str, throttle: RateFunction| cost(&both, url, throttle, effort);
    let ratios = rounds(effort.runs.div_ceil(4), |_| {
        let (local_get, far_get) = (of_both(&own, full_throttle)?, of_both(&other, full_throttle)?);
        let local_put = of_both(&own, full_throttle_put)?;
        let far_put = of_both(&other, full_throttle_put)?;
        let alone = cost(&[&servers.alone[0]], &servers.alone[0].url, full_throttle, effort)?;
        println!(
            "at full throttle, µs of a GET: {:.2} alone, {:.2} own, {:.2} forwarded; of a PUT: \
             {:.2} own, {:.2} forwarded; {:.0} forwarded GETs a second",
            alone.us, local_get.us, far_get.us, local_put.us, far_put.us, far_get.rate
        );
        Ok([far_get.us / local_get.us, far_put.us / local_put.us, local_get.us / alone.us])
    })?;
    let [get, put, own] = columns(&ratios);
    let limit = Bar::AtMost(1.8);
    Ok(vec![
        judge("cluster_cpu_forwarded_get_vs_local_full_throttle", &get, limit),
        judge("cluster_cpu_forwarded_put_vs_local_full_throttle", &put, limit),
        judge("cluster_cpu_own_get_vs_single_node_full_throttle", &own, Bar::AtMost(1.05)),
    ])
}

fn cost(
    servers: &[&Server],
    url: &str,
    throttle: RateFunction,
    effort: RunSettings,
) -> Result<Cost, String> {
    let before = processor_us(servers);
    let rate = throttle(url, CONNECTIONS, effort.seconds)?;
    let us = (processor_us(servers) - before) / (rate * effort.seconds as f64);
    Ok(Cost { us, rate })
}

fn put(servers: &Servers, url: &str) -> Result<(), String> {
    let target = url.split_once("/v0").map(|(_, rest)| format!("/v0{rest}")).unwrap_or_default();
    let value = "v".repeat(BODY_BYTES);
    Client::connect(servers.entry())?.call("PUT", &target, &value).map(|_| ())
}
