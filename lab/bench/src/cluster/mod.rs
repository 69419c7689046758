//! `bench-cluster`: measures the cost of forwarding. Two nodes of a cluster share the first core.
//! The load asks one of them for its own keys or for those of the other, or asks each for its own.
//! Processor time is that of both nodes.

mod direct_clients;
mod half_rate;
mod keys;
mod missing_keys;
mod saturation;

use std::time::Duration;

use self::keys::fill;
use crate::RunSettings;
use crate::death;
use crate::nodes::{Nodes, start_nodes};
use crate::peers::{Server, start_pellucid};

/// Connections, as in the study.
const CONNECTIONS: usize = 64;
/// The pause after the filling, in which background work ends before the first load.
const PAUSE: Duration = Duration::from_secs(2);

/// The servers under load. The cluster has all keys, and so has each single node.
struct Servers {
    nodes: Nodes,
    /// Two single nodes without a cluster, on the same core.
    alone: [Server; 2],
}

impl Servers {
    fn of_cluster(&self) -> Vec<&Server> {
        self.nodes.servers.iter().collect()
    }

    fn address(&self, which: usize) -> &str {
        &self.nodes.addresses[which]
    }

    /// The address of the first node.
    fn entry(&self) -> &str {
        self.address(0)
    }

    fn alone_address(&self, which: usize) -> &str {
        self.alone[which].address()
    }
}

/// Starts and fills the servers.
fn start_servers() -> Result<Servers, String> {
    let alone = [start_pellucid("full")?, start_pellucid("full")?];
    let servers = Servers { nodes: start_nodes(2)?, alone };
    for address in [servers.entry(), servers.alone_address(0), servers.alone_address(1)] {
        fill(address)?;
    }
    std::thread::sleep(PAUSE);
    Ok(servers)
}

/// Runs only the part about direct clients; returns true if all its bars hold.
pub fn run_direct(effort: RunSettings) -> Result<bool, String> {
    let servers = start_servers()?;
    let loads = half_rate::loads(&servers, effort)?;
    Ok(direct_clients::run_beside_alone(&servers, &loads, effort)?.into_iter().all(|holds| holds))
}

/// Runs the benchmark; returns true if all bars hold.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let servers = start_servers()?;
    // Before all loads that write: a look-up of a missing key searches every table, so unfinished
    // flushes and merges would distort the result.
    let mut held = missing_keys::run(&servers, effort)?;
    held.extend(half_rate::run(&servers, effort)?);
    held.extend(saturation::run(&servers, effort)?);
    drop(servers);
    held.extend(death::run(effort)?);
    Ok(held.into_iter().all(|holds| holds))
}
