//! Measures direct clients. One node of a cluster is compared with a single node, each with all
//! requests; and two nodes of a cluster with two single nodes, each with half of the requests.
//! Without a bar, two nodes with all keys are compared with a single node at full throttle.

use super::Servers;
use super::half_rate::{Load, RoutingVariant};
use crate::RunSettings;
use crate::bars::{Bar, judge, ratios, tell};

pub(super) fn run(
    servers: &Servers,
    loads: &[Load],
    effort: RunSettings,
) -> Result<Vec<bool>, String> {
    let held = run_beside_alone(servers, loads, effort)?;
    for load in loads {
        // This compares two processes on one core with one, so it has no bar: see `half_rate`.
        let few = RunSettings { runs: effort.runs.div_ceil(3), ..effort };
        let divided =
            load.compare(servers, [RoutingVariant::Direct, RoutingVariant::Alone], None, few)?;
        let name = load.method.name().to_lowercase();
        let figure = format!("cluster_cpu_direct_{name}_to_two_vs_all_to_one_full_throttle");
        tell(&figure, &ratios(&divided, |cost| cost.us));
    }
    Ok(held)
}

/// Compares the same requests on one or two nodes of a cluster and on as many single nodes. The two
/// sides alternate, so that both have equal work left from the load before.
pub(super) fn run_beside_alone(
    servers: &Servers,
    loads: &[Load],
    effort: RunSettings,
) -> Result<Vec<bool>, String> {
    const ONE: [RoutingVariant; 2] = [RoutingVariant::DirectToOne, RoutingVariant::AloneWithOne];
    const TWO: [RoutingVariant; 2] = [RoutingVariant::DirectPair, RoutingVariant::AlonePair];
    let mut held = Vec::new();
    for load in loads {
        let name = load.method.name().to_lowercase();
        for (ways, rate, what) in [
            (ONE, Some(load.rate), "vs_single_node"),
            (ONE, None, "vs_single_node_full_throttle"),
            (TWO, Some(load.rate), "vs_single_nodes"),
        ] {
            let costs = load.compare(servers, ways, rate, effort)?;
            let name = format!("cluster_cpu_direct_{name}_{what}");
            held.push(judge(&name, &ratios(&costs, |cost| cost.us), Bar::AtMost(1.05)));
        }
    }
    Ok(held)
}
