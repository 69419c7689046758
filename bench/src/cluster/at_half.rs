//! Requests at half of what the cluster can forward, for many keys: there each request pays for
//! itself, where at full throttle wake-ups and system calls are shared among many.

use super::keys::{Method, owned, script};
use super::{CONNECTIONS, Servers, file_of, processor_us};
use crate::Effort;
use crate::bars::{Bar, judge};
use crate::overload::{Run, load_url};
use crate::peers::Server;
use crate::quiet::rounds;

/// The share of the highest rate at which is measured.
const KNEE_SHARE: f64 = 0.5;

/// Which requests are put on which servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Keys of the node that is asked.
    Local,
    /// Keys of the other.
    Forwarded,
    /// All keys, by a client that knows the way.
    Direct,
    /// All keys, of a node that is alone.
    Alone,
    /// The same with half of the requests, as each of two nodes that are asked directly has.
    AloneHalf,
}

/// They are measured in pairs, each first in every second round.
const PAIRS: [&[Way]; 2] =
    [&[Way::Local, Way::Forwarded], &[Way::Alone, Way::Direct, Way::AloneHalf]];

/// What a load costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Processor time of all servers by request, in microseconds.
    us: f64,
    p99_ns: f64,
}

/// The scripts of one method, in files.
struct Load {
    method: Method,
    local: tempfile::NamedTempFile,
    forwarded: tempfile::NamedTempFile,
    all: tempfile::NamedTempFile,
    rate: f64,
}

/// Costs of one method in one round, by the way.
type Costs = Vec<(Way, Cost)>;

pub(super) fn run(servers: &Servers, effort: Effort) -> Result<Vec<bool>, String> {
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
    let measured = rounds(effort.runs.div_ceil(3), |round| {
        loads.iter().map(|load| load.costs(servers, round, effort)).collect::<Result<Vec<_>, _>>()
    })?;
    let mut held = Vec::new();
    for (place, load) in loads.iter().enumerate() {
        let rounds: Vec<_> = measured.iter().map(|round| &round[place]).collect();
        held.extend(load.judged(&rounds));
    }
    Ok(held)
}

impl Load {
    /// One round, of which every second has the ways of a pair in the opposite order.
    fn costs(&self, servers: &Servers, round: usize, effort: Effort) -> Result<Costs, String> {
        let mut costs = Vec::new();
        for pair in PAIRS {
            let mut ways = pair.to_vec();
            if round % 2 == 1 {
                ways.reverse();
            }
            for way in ways {
                let rate = if way == Way::AloneHalf { self.rate / 2.0 } else { self.rate };
                let (run, us) = self.put_on(servers, way, Some(rate), effort)?;
                costs.push((way, Cost { us: us / run.requests, p99_ns: run.p99_ns }));
            }
        }
        let of = |way| cost_of(&costs, way);
        println!(
            "{} at {:.0}/s, µs of processor time: {:.2} local, {:.2} forwarded; {:.2} alone, \
             {:.2} direct, {:.2} alone at half of that; p99: {:.3} ms local, {:.3} ms forwarded",
            self.method.name(),
            self.rate,
            of(Way::Local).us,
            of(Way::Forwarded).us,
            of(Way::Alone).us,
            of(Way::Direct).us,
            of(Way::AloneHalf).us,
            of(Way::Local).p99_ns / 1e6,
            of(Way::Forwarded).p99_ns / 1e6
        );
        Ok(costs)
    }

    /// Loads; what came of it, and the processor time of all servers that it had to do with, in
    /// microseconds.
    fn put_on(
        &self,
        servers: &Servers,
        way: Way,
        rate: Option<f64>,
        effort: Effort,
    ) -> Result<(Run, f64), String> {
        let (script, address): (_, &str) = match way {
            Way::Local => (&self.local, servers.entry()),
            Way::Forwarded => (&self.forwarded, servers.entry()),
            Way::Direct => (&self.all, servers.entry()),
            Way::Alone | Way::AloneHalf => (&self.all, servers.alone_address()),
        };
        let loaded: Vec<&Server> = match way {
            Way::Alone | Way::AloneHalf => vec![&servers.alone],
            _ => servers.of_cluster(),
        };
        let script = script.path().to_str().ok_or("the path of the script is no text")?;
        let mut arguments = vec!["-s", script];
        arguments.extend((way == Way::Direct).then_some("--direct"));
        let url = format!("http://{address}/");
        let before = processor_us(&loaded);
        let run = load_url(&url, &arguments, CONNECTIONS, rate, effort.seconds)?;
        if run.errors > 0.0 {
            return Err(format!("{} of {way:?} met {} errors", self.method.name(), run.errors));
        }
        Ok((run, processor_us(&loaded) - before))
    }

    fn judged(&self, rounds: &[&Costs]) -> Vec<bool> {
        let ratios = |one: Way, other: Way, of: fn(Cost) -> f64| -> Vec<f64> {
            let ratio = |costs: &&Costs| of(cost_of(costs, one)) / of(cost_of(costs, other));
            rounds.iter().map(ratio).collect()
        };
        let us = |cost: Cost| cost.us;
        let name = self.method.name().to_lowercase();
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
            judge(
                &format!("cluster_cpu_direct_{name}_vs_single_node"),
                &ratios(Way::Direct, Way::Alone, us),
                Bar::AtMost(1.05),
            ),
            // Two nodes of half the load each wake up twice as often for as many requests; this one
            // compares what the client adds.
            judge(
                &format!("cluster_cpu_direct_{name}_vs_single_node_with_as_much_to_do"),
                &ratios(Way::Direct, Way::AloneHalf, us),
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
