//! Measures requests for many keys at half of the rate that the cluster can forward. At that rate
//! each request has its own wake-ups and system calls, which many requests share at full throttle.

use super::direct_clients;
use super::keys::{Method, owned, script};
use super::{CONNECTIONS, Servers, file_of, processor_us};
use crate::RunSettings;
use crate::bars::{Bar, judge, tell};
use crate::overload::{Run, load_url};
use crate::peers::Server;
use crate::quiet_rounds::rounds;

/// The measured rate as a share of the highest rate.
const KNEE_SHARE: f64 = 0.5;

/// The keys of a load and the servers that it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The groups of ways that are measured together. Every second round runs each group in reverse.
const GROUPS: [&[RoutingVariant]; 2] = [
    &[RoutingVariant::Local, RoutingVariant::Forwarded],
    &[RoutingVariant::Alone, RoutingVariant::Direct],
];

/// The cost of a load.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// The processor time of all its servers per request, in microseconds.
    us: f64,
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

/// The costs of one method in one round, by way.
type Costs = Vec<(RoutingVariant, Cost)>;

pub(super) fn run(servers: &Servers, effort: RunSettings) -> Result<Vec<bool>, String> {
    let loads = loads(servers, effort)?;
    let measured = rounds(effort.runs.div_ceil(3), |round| {
        loads.iter().map(|load| load.costs(servers, round, effort)).collect::<Result<Vec<_>, _>>()
    })?;
    let mut held = direct_clients::run(servers, &loads, effort)?;
    for (place, load) in loads.iter().enumerate() {
        let rounds: Vec<_> = measured.iter().map(|round| &round[place]).collect();
        held.extend(load.judged(&rounds));
    }
    Ok(held)
}

/// Prepares the loads, with half of the highest rate of forwarded requests.
pub(super) fn loads(servers: &Servers, effort: RunSettings) -> Result<Vec<Load>, String> {
    let [own, other] = [owned(&servers.nodes, 0)?, owned(&servers.nodes, 1)?];
    let mut loads = Vec::new();
    for method in Method::ALL {
        let mut load = Load {
            method,
            local: file_of(&script(method, Some(&own)))?,
            forwarded: file_of(&script(method, Some(&other)))?,
            all: file_of(&script(method, None))?,
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
    /// Measures all ways in one round.
    fn costs(&self, servers: &Servers, round: usize, effort: RunSettings) -> Result<Costs, String> {
        let mut costs = Vec::new();
        for group in GROUPS {
            let mut ways = group.to_vec();
            if round % 2 == 1 {
                ways.reverse();
            }
            for way in ways {
                costs.push((way, self.cost(servers, way, effort)?));
            }
        }
        let of = |way| cost_of(&costs, way);
        println!(
            "{} at {:.0}/s, µs of processor time: {:.2} local, {:.2} forwarded; {:.2} alone, \
             {:.2} direct; p99: {:.3} ms local, {:.3} ms forwarded",
            self.method.name(),
            self.rate,
            of(RoutingVariant::Local).us,
            of(RoutingVariant::Forwarded).us,
            of(RoutingVariant::Alone).us,
            of(RoutingVariant::Direct).us,
            of(RoutingVariant::Local).p99_ns / 1e6,
            of(RoutingVariant::Forwarded).p99_ns / 1e6
        );
        Ok(costs)
    }

    /// The cost of a request in this way, at the load's rate.
    fn cost(
        &self,
        servers: &Servers,
        way: RoutingVariant,
        effort: RunSettings,
    ) -> Result<Cost, String> {
        let (run, us) = self.put_on(servers, way, Some(self.rate), effort)?;
        Ok(Cost { us: us / run.requests, p99_ns: run.p99_ns })
    }

    /// Runs the load in this way, at `rate` or in a closed loop. Returns the result, and the
    /// processor time of all its servers in microseconds.
    pub(super) fn put_on(
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

    fn judged(&self, rounds: &[&Costs]) -> Vec<bool> {
        let ratios =
            |one: RoutingVariant, other: RoutingVariant, of: fn(Cost) -> f64| -> Vec<f64> {
                let ratio = |costs: &&Costs| of(cost_of(costs, one)) / of(cost_of(costs, other));
                rounds.iter().map(ratio).collect()
            };
        let us = |cost: Cost| cost.us;
        let name = self.method.name().to_lowercase();
        // Two nodes that share a core wake up more often, for fewer requests at a time, than one
        // node with all requests, even without a cluster. So this figure shows the cost of dividing
        // a load among processes, not of direct clients, and has no bar.
        let divided = ratios(RoutingVariant::Direct, RoutingVariant::Alone, us);
        tell(&format!("cluster_cpu_direct_{name}_to_two_vs_all_to_one"), &divided);
        vec![
            judge(
                &format!("cluster_cpu_forwarded_{name}_vs_local"),
                &ratios(RoutingVariant::Forwarded, RoutingVariant::Local, us),
                Bar::AtMost(1.8),
            ),
            judge(
                &format!("cluster_p99_forwarded_{name}_vs_local"),
                &ratios(RoutingVariant::Forwarded, RoutingVariant::Local, |cost| cost.p99_ns),
                Bar::AtMost(2.5),
            ),
        ]
    }
}

/// The cost of this way; NaN if it was not measured.
fn cost_of(costs: &Costs, way: RoutingVariant) -> Cost {
    let found = costs.iter().find(|(of, _)| *of == way).map(|(_, cost)| *cost);
    found.unwrap_or(Cost { us: f64::NAN, p99_ns: f64::NAN })
}
