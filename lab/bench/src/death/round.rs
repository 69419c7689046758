//! One fall of a node, from some seconds before it until a second after the node is back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::samples::{GetOutcome, Sample, longest_refusal_s, p99_ns, refusals, sample};
use crate::client::Client;
use crate::nodes::{Nodes, PATIENCE, start_nodes};
use crate::overload::load_url;
use crate::peers::start_node;

/// The connections of the load and its rate. The rate is far below the capacity of the machine that
/// the nodes and the load share: a percentile near the knee would measure queues, not the fall.
const CONNECTIONS: usize = 16;
const RATE_PER_SECOND: f64 = 5_000.0;
/// The seconds before the fall, from the fall to the return, for the return, and after it.
const BEFORE: usize = 2;
const AWAY: usize = 3;
const RETURN: usize = 2;
const AFTER: usize = 1;
/// The number of seconds after the fall in which the other nodes may react; later ones are judged.
const GRACE: usize = 1;
const SECOND: Duration = Duration::from_secs(1);
/// The number of clients that request the key of the node that falls, so that some request to it is
/// always in flight, and their pause after each answer. Without the pause, the quick refusals would
/// be a load of their own.
const ASKERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(2);
/// The index of the node that falls. Node 0 receives the requests, node 1 owns the load's keys.
const FALLS: usize = 2;

/// The kind of a node's fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFailure {
    /// Its process ends, and its connections with it.
    Killed,
    /// Its process is stopped; the kernel keeps its connections open and accepts new ones.
    Hung,
}

impl NodeFailure {
    pub(super) const ALL: [NodeFailure; 2] = [NodeFailure::Killed, NodeFailure::Hung];

    /// The part of the bars' names for this kind.
    pub(super) fn name(self) -> &'static str {
        match self {
            NodeFailure::Killed => "death",
            NodeFailure::Hung => "hang",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            NodeFailure::Killed => "A node that is killed and started again",
            NodeFailure::Hung => "A node that is stopped and goes on",
        }
    }

    fn befall(self, nodes: &mut Nodes) {
        match self {
            NodeFailure::Killed => nodes.servers[FALLS].kill(),
            NodeFailure::Hung => nodes.servers[FALLS].stop(),
        }
    }

    /// Ends the fall; returns once the node runs again.
    fn end(self, nodes: &mut Nodes) -> Result<(), String> {
        if self == NodeFailure::Hung {
            nodes.servers[FALLS].go_on();
            return Ok(());
        }
        let folder = nodes.servers[FALLS].take_folder();
        let list: Vec<_> = nodes.addresses.iter().map(|a| format!("http://{a}")).collect();
        nodes.servers.truncate(FALLS);
        nodes.servers.push(start_node(&nodes.addresses[FALLS], &list.join(","), folder)?);
        Ok(())
    }
}

/// The result of one round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The number of failed requests for keys of other owners.
    pub(super) others: f64,
    /// The number of requests for the fallen node's key that ended in a way that is not allowed.
    pub(super) unexpected: f64,
    /// The number of requests for the fallen node's key that were refused with 504 and its address.
    pub(super) refused: f64,
    /// The longest time of such a refusal, in seconds.
    pub(super) refused_s: f64,
    /// The seconds from the return until both other nodes answered a request for its key.
    pub(super) back_s: f64,
    /// The 99th percentile for another owner's key before the fall.
    usual_ns: f64,
    /// The 99th percentile for another owner's key in the second of the fall.
    falling_ns: f64,
    /// The worst 99th percentile of the seconds after [`GRACE`], as a multiple of the usual one.
    pub(super) later: f64,
    /// The 99th percentile of the second after the return, as a multiple of the usual one.
    pub(super) again: f64,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Round { usual_ns, falling_ns, later, again, refused, refused_s, back_s, .. } = self;
        write!(
            f,
            "99th percentile for another owner: {:.3} ms before, {:.3} ms in the second of the \
             fall, at most {later:.2} times as before later, {again:.2} after the return; \
             {refused} times 504, after {refused_s:.3} s at most; back after {back_s:.3} s",
            usual_ns / 1e6,
            falling_ns / 1e6
        )
    }
}

/// The times of the events.
struct Times {
    fell: Instant,
    /// The time at which both other nodes had answered for the key.
    back: Instant,
    back_s: f64,
}

/// The results of all clients.
struct ClientResults {
    times: Times,
    others: Vec<Sample>,
    fallen: Vec<Sample>,
    /// The number of errors of the load.
    errors: f64,
}

pub(super) fn round(fall: NodeFailure) -> Result<Round, String> {
    let ClientResults { times, others, fallen, errors } = watch(fall)?;
    let p99_ns = |zero: Instant, second: i32| p99_ns(&others, zero, second);
    let usual_ns =
        (1..=BEFORE as i32).map(|n| p99_ns(times.fell, -n)).fold(f64::INFINITY, f64::min);
    if usual_ns.is_infinite() {
        return Err("nothing was answered before the fall".to_owned());
    }
    let later = (GRACE..AWAY).map(|n| p99_ns(times.fell, n as i32)).fold(0.0, f64::max);
    let failures = others.iter().filter(|sample| sample.end != GetOutcome::Answered);
    let failures = failures.inspect(|sample| eprintln!("another owner's key: {:?}", sample.end));
    let (refused, unexpected) = refusals(&fallen, times.fell, times.back);
    Ok(Round {
        others: errors + failures.count() as f64,
        unexpected,
        refused,
        refused_s: longest_refusal_s(&fallen),
        back_s: times.back_s,
        usual_ns,
        falling_ns: p99_ns(times.fell, 0),
        later: later / usual_ns,
        again: p99_ns(times.back, 0) / usual_ns,
    })
}

/// Runs the load and the clients while the node falls and comes back.
fn watch(fall: NodeFailure) -> Result<ClientResults, String> {
    let mut nodes = start_nodes(3)?;
    let target_of = |key| format!("/v0/entity?id={key}");
    let (alive_target, dead_target) =
        (target_of(nodes.key_of(1)?), target_of(nodes.key_of(FALLS)?));
    let (entry, owner) = (nodes.addresses[0].clone(), nodes.addresses[FALLS].clone());
    let alive = format!("http://{entry}{alive_target}");
    let over = AtomicBool::new(false);
    let panicked = |_| "a client panicked".to_owned();
    let ask = |target: &str, pause| sample(&entry, target, &owner, pause, &over);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let seconds = (BEFORE + AWAY + RETURN + AFTER) as u64 + 1;
            load_url(&alive, &[], CONNECTIONS, Some(RATE_PER_SECOND), seconds)
        });
        let others = scope.spawn(|| ask(&alive_target, Duration::ZERO));
        let askers: Vec<_> =
            (0..ASKERS).map(|_| scope.spawn(|| ask(&dead_target, PAUSE))).collect();
        let times = fall_and_return(fall, &mut nodes, &dead_target);
        // This is set on an error too; otherwise the clients would never end.
        over.store(true, Ordering::Relaxed);
        let others = others.join().map_err(panicked)??;
        let mut fallen = Vec::new();
        for asker in askers {
            fallen.extend(asker.join().map_err(panicked)??);
        }
        let errors = load.join().map_err(panicked)??.errors;
        Ok(ClientResults { times: times?, others, fallen, errors })
    })
}

fn fall_and_return(fall: NodeFailure, nodes: &mut Nodes, target: &str) -> Result<Times, String> {
    // The load begins within the additional half second.
    std::thread::sleep(SECOND / 2 + SECOND * BEFORE as u32);
    let fell = Instant::now();
    fall.befall(nodes);
    std::thread::sleep((SECOND * AWAY as u32).saturating_sub(fell.elapsed()));
    fall.end(nodes)?;
    let returned = Instant::now();
    for entry in &nodes.addresses[..FALLS] {
        while Client::connect_within(entry, PATIENCE)?.call("GET", target, "").is_err() {
            if returned.elapsed() > PATIENCE {
                return Err(format!("the node is not taken back by {entry}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let back = Instant::now();
    std::thread::sleep(SECOND * AFTER as u32);
    Ok(Times { fell, back, back_s: (back - returned).as_secs_f64() })
}
