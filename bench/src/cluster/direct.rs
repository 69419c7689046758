//! A client that knows the way, at full throttle: one node of a cluster beside one that is alone,
//! each with all requests; and two nodes with all keys between them beside one that has them all.

use super::Servers;
use super::at_half::{Load, Way};
use crate::Effort;
use crate::bars::{Bar, judge, tell};
use crate::quiet::turns;

pub(super) fn run(servers: &Servers, loads: &[Load], effort: Effort) -> Result<Vec<bool>, String> {
    let mut held = Vec::new();
    for load in loads {
        let name = load.method.name().to_lowercase();
        let name = |what: &str| format!("cluster_cpu_direct_{name}_{what}_full_throttle");
        let one = ratios(servers, load, [Way::DirectToOne, Way::AloneWithOne], effort)?;
        held.push(judge(&name("vs_single_node"), &one, Bar::AtMost(1.05)));
        // Two processes on one core beside one: see `at_half`.
        let divided = ratios(servers, load, [Way::Direct, Way::Alone], effort)?;
        tell(&name("to_two_vs_all_to_one"), &divided);
    }
    Ok(held)
}

/// Processor time of a request one way by that of the other, in turns.
fn ratios(
    servers: &Servers,
    load: &Load,
    [ours, theirs]: [Way; 2],
    effort: Effort,
) -> Result<Vec<f64>, String> {
    let pairs = turns(effort.runs.div_ceil(2), |is_ours| {
        let way = if is_ours { ours } else { theirs };
        let (run, us) = load.put_on(servers, way, None, effort)?;
        println!(
            "{} at full throttle, {way:?}: {:.2} µs of processor time, {:.0}/s",
            load.method.name(),
            us / run.requests,
            run.in_time_per_second
        );
        Ok(us / run.requests)
    })?;
    Ok(pairs.iter().map(|(ours, theirs)| ours / theirs).collect())
}
