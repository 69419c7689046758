//! Measures forwarding of one key at full throttle: as many requests are in flight as there are
//! connections, so one wake-up serves many of them.

use super::{CONNECTIONS, Servers};
use crate::RunSettings;
use crate::bars::{Bar, judge};
use crate::client::Client;
use crate::http::{CPU, RATE, gets, measure, puts};
use crate::peers::{BODY_BYTES, Server};
use crate::quiet_rounds::{columns, rounds};

pub(super) fn run(servers: &Servers, effort: RunSettings) -> Result<Vec<bool>, String> {
    let target_of = |key| format!("/v0/entity?id={key}");
    let targets = [target_of(servers.nodes.key_of(0)?), target_of(servers.nodes.key_of(1)?)];
    let mut client = Client::connect(servers.entry())?;
    for target in &targets {
        client.call("PUT", target, &"v".repeat(BODY_BYTES))?;
    }
    let [own, other] = targets.map(|target| format!("http://{}{target}", servers.entry()));
    let both = servers.of_cluster();
    let get =
        |servers: &[&Server], url: &str| measure(servers, url, &gets(CONNECTIONS), effort.seconds);
    let put = |url: &str| measure(&both, url, &puts(CONNECTIONS), effort.seconds);
    let ratios = rounds(effort.runs.div_ceil(4), |_| {
        let (local_get, far_get) = (get(&both, &own)?, get(&both, &other)?);
        let far_rate = RATE(&far_get);
        let [local_get, far_get] = [local_get, far_get].map(|run| CPU(&run));
        let [local_put, far_put] = [put(&own)?, put(&other)?].map(|run| CPU(&run));
        let alone = CPU(&get(&[&servers.alone[0]], &servers.alone[0].url)?);
        println!(
            "at full throttle, µs of a GET: {alone:.2} alone, {local_get:.2} own, {far_get:.2} \
             forwarded; of a PUT: {local_put:.2} own, {far_put:.2} forwarded; {far_rate:.0} \
             forwarded GETs a second"
        );
        Ok([far_get / local_get, far_put / local_put, local_get / alone])
    })?;
    let [get, put, own] = columns(&ratios);
    let limit = Bar::AtMost(1.8);
    Ok(vec![
        judge("cluster_cpu_forwarded_get_vs_local_full_throttle", &get, limit),
        judge("cluster_cpu_forwarded_put_vs_local_full_throttle", &put, limit),
        judge("cluster_cpu_own_get_vs_single_node_full_throttle", &own, Bar::AtMost(1.05)),
    ])
}
