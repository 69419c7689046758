//! One fall of a node, from some seconds before it until a second after the node is back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::samples::{End, Sample, longest_refusal_s, p99_ns, refusals, sample};
use crate::client::Client;
use crate::nodes::{Nodes, PATIENCE, start_nodes};
use crate::overload::load_url;
use crate::peers::start_node;

/// Connections of the load, and what it asks for each second: far below what three nodes and the
/// load can carry together, since a percentile near the knee is of the queue and not of the death.
const CONNECTIONS: usize = 16;
const RATE_PER_SECOND: f64 = 5_000.0;
/// Seconds before the fall, from the fall to the return, for the return, and behind it.
const BEFORE: usize = 2;
const AWAY: usize = 3;
const RETURN: usize = 2;
const AFTER: usize = 1;
/// How many of the seconds away are given to whoever noticed.
const GRACE: usize = 1;
const SECOND: Duration = Duration::from_secs(1);
/// Clients that ask for the key of the node that falls, so that something is always on its way to
/// it, and their pause behind each answer: refusals are quick, and should be no load of their own.
const ASKERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(2);
/// The node that falls. The first is asked, and the second owns the keys of the load.
const FALLS: usize = 2;

/// How a node falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fall {
    /// Its process ends, and its connections with it.
    Killed,
    /// Its process stands still; the kernel keeps its connections open and takes new ones.
    Hung,
}

impl Fall {
    pub(super) const ALL: [Fall; 2] = [Fall::Killed, Fall::Hung];

    /// What its bars are called by.
    pub(super) fn name(self) -> &'static str {
        match self {
            Fall::Killed => "death",
            Fall::Hung => "hang",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Fall::Killed => "A node that is killed and started again",
            Fall::Hung => "A node that is stopped and goes on",
        }
    }

    fn befall(self, nodes: &mut Nodes) {
        match self {
            Fall::Killed => nodes.servers[FALLS].kill(),
            Fall::Hung => nodes.servers[FALLS].stop(),
        }
    }

    /// Undoes it; returns when the node is there.
    fn end(self, nodes: &mut Nodes) -> Result<(), String> {
        if self == Fall::Hung {
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

/// What one round shows.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// Requests for other owners' keys that failed.
    pub(super) others: f64,
    /// Requests for the fallen node's key that ended otherwise than they may.
    pub(super) unexpected: f64,
    /// Requests for it that were refused with 504 and its address.
    pub(super) refused: f64,
    /// The longest that one of these took.
    pub(super) refused_s: f64,
    /// From the return until both other nodes answered for its key.
    pub(super) back_s: f64,
    /// The 99th percentile for another owner's key, before.
    usual_ns: f64,
    /// The same in the second of the fall.
    falling_ns: f64,
    /// The worst of a second from [`GRACE`] on, by what is usual.
    pub(super) later: f64,
    /// That of the second after the return, by what is usual.
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

/// When what happened.
struct Times {
    fell: Instant,
    /// Both other nodes answered for the key.
    back: Instant,
    back_s: f64,
}

/// What all clients saw.
struct Seen {
    times: Times,
    others: Vec<Sample>,
    fallen: Vec<Sample>,
    /// Errors of the load.
    errors: f64,
}

pub(super) fn round(fall: Fall) -> Result<Round, String> {
    let Seen { times, others, fallen, errors } = watch(fall)?;
    let p99_ns = |zero: Instant, second: i32| p99_ns(&others, zero, second);
    let usual_ns =
        (1..=BEFORE as i32).map(|n| p99_ns(times.fell, -n)).fold(f64::INFINITY, f64::min);
    if usual_ns.is_infinite() {
        return Err("nothing was answered before the fall".to_owned());
    }
    let later = (GRACE..AWAY).map(|n| p99_ns(times.fell, n as i32)).fold(0.0, f64::max);
    let failures = others.iter().filter(|sample| sample.end != End::Answered);
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

/// Loads and asks while the node falls and comes back.
fn watch(fall: Fall) -> Result<Seen, String> {
    let mut nodes = start_nodes(3)?;
    let (alive, dead) = (nodes.key_of(1)?, nodes.key_of(FALLS)?);
    let (alive_target, dead_target) = (target_of(&alive), target_of(&dead));
    let (entry, owner) = (nodes.addresses[0].clone(), nodes.addresses[FALLS].clone());
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
        // Whatever came of it, or the clients would ask for ever.
        over.store(true, Ordering::Relaxed);
        let others = others.join().map_err(panicked)??;
        let mut fallen = Vec::new();
        for asker in askers {
            fallen.extend(asker.join().map_err(panicked)??);
        }
        let errors = load.join().map_err(panicked)??.errors;
        Ok(Seen { times: times?, others, fallen, errors })
    })
}

fn fall_and_return(fall: Fall, nodes: &mut Nodes, target: &str) -> Result<Times, String> {
    // The load begins within the half second that is too much.
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

fn target_of(url: &str) -> String {
    url.split_once("/v0").map(|(_, rest)| format!("/v0{rest}")).unwrap_or_default()
}
