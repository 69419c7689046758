//! A client that knows the way, at full throttle: two nodes with all keys between them beside one
//! that has all of them alone, with as many requests under way as connections are.

use super::Servers;
use super::at_half::{Load, Way};
use crate::Effort;
use crate::bars::{Bar, judge};
use crate::quiet::turns;

pub(super) fn run(servers: &Servers, loads: &[Load], effort: Effort) -> Result<Vec<bool>, String> {
    let mut held = Vec::new();
    for load in loads {
        let name = load.method.name();
        let ratios = turns(effort.runs.div_ceil(2), |is_ours| {
            let way = if is_ours { Way::Direct } else { Way::Alone };
            let (run, us) = load.put_on(servers, way, None, effort)?;
            println!(
                "{name} at full throttle, {way:?}: {:.2} µs of processor time, {:.0}/s",
                us / run.requests,
                run.in_time_per_second
            );
            Ok(us / run.requests)
        })?;
        let ratios: Vec<_> = ratios.iter().map(|(direct, alone)| direct / alone).collect();
        let name = name.to_lowercase();
        let name = format!("cluster_cpu_direct_{name}_vs_single_node_full_throttle");
        held.push(judge(&name, &ratios, Bar::AtMost(1.05)));
    }
    Ok(held)
}
