//! A node of three that is killed under load: what those notice that ask for the keys of others,
//! what is answered for its own, and how soon it is back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Effort;
use crate::bars::{Bar, judge};
use crate::client::Client;
use crate::nodes::{Nodes, PATIENCE, start_nodes};
use crate::overload::load_url;
use crate::peers::start_node;
use crate::quiet::{columns, rounds};

/// Connections of the load, and what it asks for each second: far below what three nodes and the
/// load can carry together, since a percentile near the knee is of the queue and not of the death.
const CONNECTIONS: usize = 16;
const RATE_PER_SECOND: f64 = 5_000.0;
/// Seconds before the death and after it; and how many of these are given to whoever noticed.
const BEFORE: usize = 2;
const AFTER: usize = 4;
const GRACE: usize = 1;
const SECOND: Duration = Duration::from_secs(1);

/// Kills a node in round after round; whether each bar holds.
pub fn run(effort: Effort) -> Result<Vec<bool>, String> {
    let figures = rounds(effort.runs.div_ceil(2), |_| round())?;
    let [named, refused, back, errors, later] = columns(&figures);
    // One round that fails is one too many, which a median would hide.
    let named = named.into_iter().fold(1.0, f64::min);
    let errors = errors.into_iter().fold(0.0, f64::max);
    Ok(vec![
        judge("cluster_504_names_the_owner", &[named], Bar::AtLeast(1.0)),
        judge("cluster_504_seconds", &refused, Bar::AtMost(1.1)),
        judge("cluster_back_seconds", &back, Bar::AtMost(2.0)),
        judge("cluster_errors_of_other_owners", &[errors], Bar::AtMost(0.0)),
        judge("cluster_p99_others_from_a_second_on", &later, Bar::AtMost(2.0)),
    ])
}

fn round() -> Result<[f64; 5], String> {
    let mut nodes = start_nodes(3)?;
    let (alive, dead) = (nodes.key_of(1)?, nodes.key_of(2)?);
    let (target, dead) = (target_of(&alive), target_of(&dead));
    let entry = nodes.addresses[0].clone();
    let over = AtomicBool::new(false);
    let (killed, samples, errors) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let seconds = (BEFORE + AFTER) as u64 + 1;
            load_url(&alive, &[], CONNECTIONS, Some(RATE_PER_SECOND), seconds)
        });
        let samples = scope.spawn(|| sample(&entry, &target, &over));
        // The load begins within the half second that is too much.
        std::thread::sleep(SECOND / 2 + SECOND * BEFORE as u32);
        let killed = Instant::now();
        nodes.servers[2].kill();
        std::thread::sleep(SECOND * AFTER as u32);
        over.store(true, Ordering::Relaxed);
        let samples = samples.join().map_err(|_| "the client panicked".to_owned())??;
        let load = load.join().map_err(|_| "the load panicked".to_owned())??;
        Ok::<_, String>((killed, samples, load.errors))
    })?;
    let p99_ns = |second: i32| p99_ns(&samples, killed, second);
    let usual = (1..=BEFORE as i32).map(|n| p99_ns(-n)).fold(f64::INFINITY, f64::min);
    if usual.is_infinite() {
        return Err("nothing was answered before the death".to_owned());
    }
    let later = (GRACE..AFTER).map(|n| p99_ns(n as i32)).fold(0.0, f64::max);
    let (names_it, refused_s) = refusal(&nodes, &dead);
    let back_s = bring_back(&mut nodes, &dead)?;
    println!(
        "99th percentile for another owner: {:.3} ms before, {:.3} ms in the second of the death, \
         at most {:.3} ms after it; 504 after {refused_s:.3} s; back after {back_s:.3} s",
        usual / 1e6,
        p99_ns(0) / 1e6,
        later / 1e6
    );
    Ok([f64::from(names_it), refused_s, back_s, errors, later / usual])
}

fn target_of(url: &str) -> String {
    url.split_once("/v0").map(|(_, rest)| format!("/v0{rest}")).unwrap_or_default()
}

/// One GET of a request made one after the other; each has to succeed.
struct Sample {
    sent: Instant,
    took_ns: f64,
}

fn sample(entry: &str, target: &str, over: &AtomicBool) -> Result<Vec<Sample>, String> {
    let (mut client, mut samples) = (Client::connect(entry)?, Vec::new());
    while !over.load(Ordering::Relaxed) {
        let sent = Instant::now();
        client.call("GET", target, "")?;
        samples.push(Sample { sent, took_ns: sent.elapsed().as_nanos() as f64 });
    }
    Ok(samples)
}

/// The 99th percentile of what was sent in the second with this number, counted from the death;
/// without end if nothing could be sent.
fn p99_ns(samples: &[Sample], killed: Instant, second: i32) -> f64 {
    let is_within = |sample: &&Sample| {
        let after_s = match sample.sent.checked_duration_since(killed) {
            Some(after) => after.as_secs_f64(),
            None => -killed.duration_since(sample.sent).as_secs_f64(),
        };
        after_s.floor() as i32 == second
    };
    let mut times: Vec<_> = samples.iter().filter(is_within).map(|s| s.took_ns).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() * 99 / 100).copied().unwrap_or(f64::INFINITY)
}

/// Whether a request for the dead node's key is refused with 504 and its name, and after how long.
fn refusal(nodes: &Nodes, dead: &str) -> (bool, f64) {
    let begun = Instant::now();
    let refused = Client::connect(&nodes.addresses[0])
        .and_then(|mut client| client.call("GET", dead, "").map(|_| ()));
    let address = &nodes.addresses[2];
    let names_it = refused.err().is_some_and(|what| what.contains("504") && what.contains(address));
    (names_it, begun.elapsed().as_secs_f64())
}

/// Starts the dead node again; seconds until its key is served.
fn bring_back(nodes: &mut Nodes, dead: &str) -> Result<f64, String> {
    let folder = nodes.servers[2].take_folder();
    let list: Vec<_> = nodes.addresses.iter().map(|address| format!("http://{address}")).collect();
    nodes.servers.truncate(2);
    nodes.servers.push(start_node(&nodes.addresses[2], &list.join(","), folder)?);
    let begun = Instant::now();
    while Client::connect(&nodes.addresses[0])?.call("GET", dead, "").is_err() {
        if begun.elapsed() > PATIENCE {
            return Err("the node is not taken back".to_owned());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(begun.elapsed().as_secs_f64())
}
