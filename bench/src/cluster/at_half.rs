//! Requests at half of what the cluster can forward, for many keys: there each request pays for
//! itself, where at full throttle wake-ups and system calls are shared among many.

use super::direct;
use super::keys::{Method, owned, script};
use super::{CONNECTIONS, Servers, file_of, processor_us};
use crate::Effort;
use crate::bars::{Bar, judge, tell};
use crate::overload::{Run, load_url};
use crate::peers::Server;
use crate::quiet::rounds;

/// The share of the highest rate at which is measured.
const KNEE_SHARE: f64 = 0.5;

/// Which requests are put on which servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Keys of the node that is asked.
    Local,
    /// Keys of the other.
    Forwarded,
    /// Keys of one node, asked of it by a client that knows the way.
    DirectToOne,
    /// The same keys, of a node that is alone.
    AloneWithOne,
    /// All keys, by a client that knows the way.
    Direct,
    /// All keys, of a node that is alone.
    Alone,
    /// All keys, half of the requests of each of two such nodes, as two have that are asked
    /// directly.
    AlonePair,
}

/// They are measured in groups, in the opposite order in every second round.
const GROUPS: [&[Way]; 2] =
    [&[Way::Local, Way::Forwarded], &[Way::Alone, Way::Direct, Way::AlonePair]];

/// What a load costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Processor time of all servers by request, in microseconds.
    us: f64,
    p99_ns: f64,
}

/// The scripts of one method, in files.
pub(super) struct Load {
    pub(super) method: Method,
    local: tempfile::NamedTempFile,
    forwarded: tempfile::NamedTempFile,
    all: tempfile::NamedTempFile,
    pub(super) rate: f64,
}

/// Costs of one method in one round, by the way.
type Costs = Vec<(Way, Cost)>;

pub(super) fn run(servers: &Servers, effort: Effort) -> Result<Vec<bool>, String> {
    let loads = loads(servers, effort)?;
    let measured = rounds(effort.runs.div_ceil(3), |round| {
        loads.iter().map(|load| load.costs(servers, round, effort)).collect::<Result<Vec<_>, _>>()
    })?;
    let mut held = direct::run(servers, &loads, effort)?;
    for (place, load) in loads.iter().enumerate() {
        let rounds: Vec<_> = measured.iter().map(|round| &round[place]).collect();
        held.extend(load.judged(&rounds));
    }
    Ok(held)
}

/// The loads, at half of the rate that is the highest for forwarded requests.
pub(super) fn loads(servers: &Servers, effort: Effort) -> Result<Vec<Load>, String> {
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
        let knee = load.put_on(servers, Way::Forwarded, None, effort)?.0.in_time_per_second;
        load.rate = knee * KNEE_SHARE;
        loads.push(load);
    }
    Ok(loads)
}

impl Load {
    /// One round, of which every second has the ways of a group in the opposite order.
    fn costs(&self, servers: &Servers, round: usize, effort: Effort) -> Result<Costs, String> {
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
             {:.2} direct, {:.2} two alone; p99: {:.3} ms local, {:.3} ms forwarded",
            self.method.name(),
            self.rate,
            of(Way::Local).us,
            of(Way::Forwarded).us,
            of(Way::Alone).us,
            of(Way::Direct).us,
            of(Way::AlonePair).us,
            of(Way::Local).p99_ns / 1e6,
            of(Way::Forwarded).p99_ns / 1e6
        );
        Ok(costs)
    }

    /// What a request costs in this way, at the rate that is measured at.
    fn cost(&self, servers: &Servers, way: Way, effort: Effort) -> Result<Cost, String> {
        if way != Way::AlonePair {
            let (run, us) = self.put_on(servers, way, Some(self.rate), effort)?;
            return Ok(Cost { us: us / run.requests, p99_ns: run.p99_ns });
        }
        let loaded: Vec<&Server> = servers.alone.iter().collect();
        let before = processor_us(&loaded);
        let load = |which| {
            let rate = Some(self.rate / 2.0);
            self.ask(servers.alone_address(which), way, rate, effort)
        };
        let [one, other] = std::thread::scope(|scope| {
            let other = scope.spawn(|| load(1));
            [load(0), other.join().unwrap_or_else(|_| Err("a load panicked".to_owned()))]
        });
        let (one, other) = (one?, other?);
        let us = (processor_us(&loaded) - before) / (one.requests + other.requests);
        Ok(Cost { us, p99_ns: one.p99_ns.max(other.p99_ns) })
    }

    /// Loads; what came of it, and the processor time of all servers that it had to do with, in
    /// microseconds.
    pub(super) fn put_on(
        &self,
        servers: &Servers,
        way: Way,
        rate: Option<f64>,
        effort: Effort,
    ) -> Result<(Run, f64), String> {
        let address = match way {
            Way::Alone | Way::AloneWithOne | Way::AlonePair => servers.alone_address(0),
            Way::Local | Way::Forwarded | Way::DirectToOne | Way::Direct => servers.entry(),
        };
        let loaded: Vec<&Server> = match way {
            Way::Alone | Way::AloneWithOne | Way::AlonePair => vec![&servers.alone[0]],
            // What the other node does meanwhile is left over from loads before.
            Way::DirectToOne => vec![&servers.nodes.servers[0]],
            Way::Local | Way::Forwarded | Way::Direct => servers.of_cluster(),
        };
        let before = processor_us(&loaded);
        let run = self.ask(address, way, rate, effort)?;
        Ok((run, processor_us(&loaded) - before))
    }

    /// Asks the server of this address, and fails at the first request that fails.
    fn ask(
        &self,
        address: &str,
        way: Way,
        rate: Option<f64>,
        effort: Effort,
    ) -> Result<Run, String> {
        let script = match way {
            Way::Local | Way::DirectToOne | Way::AloneWithOne => &self.local,
            Way::Forwarded => &self.forwarded,
            Way::Direct | Way::Alone | Way::AlonePair => &self.all,
        };
        let script = script.path().to_str().ok_or("the path of the script is no text")?;
        let mut arguments = vec!["-s", script];
        let is_direct = matches!(way, Way::Direct | Way::DirectToOne);
        arguments.extend(is_direct.then_some("--direct"));
        let url = format!("http://{address}/");
        let run = load_url(&url, &arguments, CONNECTIONS, rate, effort.seconds)?;
        if run.errors > 0.0 {
            return Err(format!("{} of {way:?} met {} errors", self.method.name(), run.errors));
        }
        Ok(run)
    }

    fn judged(&self, rounds: &[&Costs]) -> Vec<bool> {
        let ratios = |one: Way, other: Way, of: fn(Cost) -> f64| -> Vec<f64> {
            let ratio = |costs: &&Costs| of(cost_of(costs, one)) / of(cost_of(costs, other));
            rounds.iter().map(ratio).collect()
        };
        let us = |cost: Cost| cost.us;
        let name = self.method.name().to_lowercase();
        // Two nodes that share a core wake up more often, for fewer requests at a time, than one
        // that has all of them, whether they are a cluster or not: this says what dividing a load
        // among processes costs, and nothing of direct clients.
        let divided = ratios(Way::Direct, Way::Alone, us);
        tell(&format!("cluster_cpu_direct_{name}_to_two_vs_all_to_one"), &divided);
        vec![
            judge(
                &format!("cluster_cpu_forwarded_{name}_vs_local"),
                &ratios(Way::Forwarded, Way::Local, us),
                Bar::AtMost(1.8),
            ),
            judge(
                &format!("cluster_p99_forwarded_{name}_vs_local"),
                &ratios(Way::Forwarded, Way::Local, |cost| cost.p99_ns),
                Bar::AtMost(2.5),
            ),
            // Two nodes of a cluster beside two that are none, each with half of the requests.
            judge(
                &format!("cluster_cpu_direct_{name}_vs_single_nodes"),
                &ratios(Way::Direct, Way::AlonePair, us),
                Bar::AtMost(1.05),
            ),
        ]
    }
}

/// The cost of this way; no number if it was not measured.
fn cost_of(costs: &Costs, way: Way) -> Cost {
    let found = costs.iter().find(|(of, _)| *of == way).map(|(_, cost)| *cost);
    found.unwrap_or(Cost { us: f64::NAN, p99_ns: f64::NAN })
}
