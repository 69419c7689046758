//! Measures requests for many keys at half of the rate that the cluster can forward. At that rate
//! each request has its own wake-ups and system calls, which many requests share at full throttle.

use super::direct_clients;
use super::keys::{Method, owned, script};
use super::{CONNECTIONS, Servers};
use crate::RunSettings;
use crate::bars::{Bar, judge, ratios, tell};
use crate::overload::{Run, load_url};
use crate::peers::{Server, processor_us};
use crate::quiet_rounds::turns;
use crate::wrk::script_file;

/// The measured rate as a share of the highest rate.
const KNEE_SHARE: f64 = 0.5;

/// The keys of a load and the servers that it asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoutingVariant {
    /// Keys of the first node; asks the first node.
    Local,
    /// Keys of the second node; asks the first node.
    Forwarded,
    /// Keys of the first node; a direct client (`--direct`) asks the first node.
    DirectToOne,
    /// Keys of the first node; asks a single node without a cluster.
    AloneWithOne,
    /// All keys; a direct client asks the owner of each.
    Direct,
    /// All keys; asks a single node without a cluster.
    Alone,
    /// All keys; two direct clients ask one node each, for the keys of that node.
    DirectPair,
    /// The same requests as [`RoutingVariant::DirectPair`]; asks two single nodes without a
    /// cluster.
    AlonePair,
}

/// The owner of a load's keys: the first node, the other one, or both.
#[derive(Clone, Copy)]
enum KeyOwner {
    Own,
    Other,
    All,
}

impl RoutingVariant {
    /// The address and the keys of each load of this way.
    fn asked(self, servers: &Servers) -> Vec<(&str, KeyOwner)> {
        let [alone, other_alone] = [servers.alone_address(0), servers.alone_address(1)];
        let [entry, other] = [servers.address(0), servers.address(1)];
        match self {
            RoutingVariant::Local | RoutingVariant::DirectToOne => vec![(entry, KeyOwner::Own)],
            RoutingVariant::Forwarded => vec![(entry, KeyOwner::Other)],
            RoutingVariant::Direct => vec![(entry, KeyOwner::All)],
            RoutingVariant::DirectPair => vec![(entry, KeyOwner::Own), (other, KeyOwner::Other)],
            RoutingVariant::AloneWithOne => vec![(alone, KeyOwner::Own)],
            RoutingVariant::Alone => vec![(alone, KeyOwner::All)],
            RoutingVariant::AlonePair => {
                vec![(alone, KeyOwner::Own), (other_alone, KeyOwner::Other)]
            }
        }
    }

    /// The servers whose processor time is measured.
    fn loaded(self, servers: &Servers) -> Vec<&Server> {
        match self {
            RoutingVariant::Alone | RoutingVariant::AloneWithOne => vec![&servers.alone[0]],
            RoutingVariant::AlonePair => servers.alone.iter().collect(),
            // The other node only does work that is left from earlier loads.
            RoutingVariant::DirectToOne => vec![&servers.nodes.servers[0]],
            RoutingVariant::Local
            | RoutingVariant::Forwarded
            | RoutingVariant::Direct
            | RoutingVariant::DirectPair => servers.of_cluster(),
        }
    }

    /// Returns true if its clients are direct.
    fn is_direct(self) -> bool {
        matches!(
            self,
            RoutingVariant::DirectToOne | RoutingVariant::Direct | RoutingVariant::DirectPair
        )
    }
}

/// The cost of a load.
pub(super) struct Cost {
    /// The processor time of all its servers per request, in microseconds.
    pub(super) us: f64,
    p99_ns: f64,
}

/// The loads of one method: their scripts in files, and their rate.
pub(super) struct Load {
    pub(super) method: Method,
    local: tempfile::NamedTempFile,
    forwarded: tempfile::NamedTempFile,
    all: tempfile::NamedTempFile,
    pub(super) rate: f64,
}

pub(super) fn run(servers: &Servers, effort: RunSettings) -> Result<Vec<bool>, String> {
    let loads = loads(servers, effort)?;
    let few = RunSettings { runs: effort.runs.div_ceil(3), ..effort };
    let mut held = Vec::new();
    for load in &loads {
        held.extend(load.judged(servers, few)?);
    }
    held.extend(direct_clients::run(servers, &loads, effort)?);
    Ok(held)
}

/// Prepares the loads, with half of the highest rate of forwarded requests.
pub(super) fn loads(servers: &Servers, effort: RunSettings) -> Result<Vec<Load>, String> {
    let [own, other] = [owned(&servers.nodes, 0)?, owned(&servers.nodes, 1)?];
    let mut loads = Vec::new();
    for method in Method::ALL {
        let mut load = Load {
            method,
            local: script_file(&script(method, Some(&own)))?,
            forwarded: script_file(&script(method, Some(&other)))?,
            all: script_file(&script(method, None))?,
            rate: 0.0,
        };
        let knee =
            load.put_on(servers, RoutingVariant::Forwarded, None, effort)?.0.in_time_per_second;
        load.rate = knee * KNEE_SHARE;
        loads.push(load);
    }
    Ok(loads)
}

impl Load {
    /// Measures the costs of two ways alternately, at `rate` or in a closed loop.
    pub(super) fn compare(
        &self,
        servers: &Servers,
        [ours, theirs]: [RoutingVariant; 2],
        rate: Option<f64>,
        effort: RunSettings,
    ) -> Result<Vec<(Cost, Cost)>, String> {
        turns(effort.runs, |is_ours| {
            let way = if is_ours { ours } else { theirs };
            let (run, us) = self.put_on(servers, way, rate, effort)?;
            let cost = Cost { us: us / run.requests, p99_ns: run.p99_ns };
            println!(
                "{} {way:?}: {:.2} µs of processor time, {:.0}/s, p99 {:.3} ms",
                self.method.name(),
                cost.us,
                run.in_time_per_second,
                cost.p99_ns / 1e6
            );
            Ok(cost)
        })
    }

    /// Runs the load in this way, at `rate` or in a closed loop. Returns the result, and the
    /// processor time of all its servers in microseconds.
    fn put_on(
        &self,
        servers: &Servers,
        way: RoutingVariant,
        rate: Option<f64>,
        effort: RunSettings,
    ) -> Result<(Run, f64), String> {
        let (asked, loaded) = (way.asked(servers), way.loaded(servers));
        let rate = rate.map(|rate| rate / asked.len() as f64);
        let before = processor_us(&loaded);
        let runs = std::thread::scope(|scope| {
            let ask = |(address, keys)| self.ask(address, way, keys, rate, effort);
            let loads: Vec<_> =
                asked.into_iter().map(|asked| scope.spawn(move || ask(asked))).collect();
            let panicked = |_| Err("a load panicked".to_owned());
            let runs = loads.into_iter().map(|load| load.join().unwrap_or_else(panicked));
            runs.collect::<Result<Vec<Run>, String>>()
        })?;
        let us = processor_us(&loaded) - before;
        let run = runs.into_iter().reduce(Run::beside).ok_or("nobody was asked")?;
        Ok((run, us))
    }

    /// Asks the server of this address, and fails at the first request that fails.
    fn ask(
        &self,
        address: &str,
        way: RoutingVariant,
        keys: KeyOwner,
        rate: Option<f64>,
        effort: RunSettings,
    ) -> Result<Run, String> {
        let script = match keys {
            KeyOwner::Own => &self.local,
            KeyOwner::Other => &self.forwarded,
            KeyOwner::All => &self.all,
        };
        let script = script.path().to_str().ok_or("the path of the script is no text")?;
        let mut arguments = vec!["-s", script];
        arguments.extend(way.is_direct().then_some("--direct"));
        let url = format!("http://{address}/");
        let run = load_url(&url, &arguments, CONNECTIONS, rate, effort.seconds)?;
        if run.errors > 0.0 {
            return Err(format!("{} of {way:?} met {} errors", self.method.name(), run.errors));
        }
        Ok(run)
    }

    fn judged(&self, servers: &Servers, effort: RunSettings) -> Result<Vec<bool>, String> {
        let compare = |ways| self.compare(servers, ways, Some(self.rate), effort);
        let forwarded = compare([RoutingVariant::Forwarded, RoutingVariant::Local])?;
        let divided = compare([RoutingVariant::Direct, RoutingVariant::Alone])?;
        let name = self.method.name().to_lowercase();
        // Two nodes that share a core wake up more often, for fewer requests at a time, than one
        // node with all requests, even without a cluster. So this figure shows the cost of dividing
        // a load among processes, not of direct clients, and has no bar.
        let figure = format!("cluster_cpu_direct_{name}_to_two_vs_all_to_one");
        tell(&figure, &ratios(&divided, |cost| cost.us));
        Ok(vec![
            judge(
                &format!("cluster_cpu_forwarded_{name}_vs_local"),
                &ratios(&forwarded, |cost| cost.us),
                Bar::AtMost(1.8),
            ),
            judge(
                &format!("cluster_p99_forwarded_{name}_vs_local"),
                &ratios(&forwarded, |cost| cost.p99_ns),
                Bar::AtMost(2.5),
            ),
        ])
    }
}
