//! `bench-cluster`: what forwarding costs. Two nodes of a cluster share the first core; the load
//! asks one of them, for keys of its own and for keys of the other's, or each for its own.
//! Processor time is that of both.

mod at_half;
mod direct;
mod keys;
mod missing;
mod throttle;

use std::time::Duration;

use self::keys::fill;
use crate::Effort;
use crate::death;
use crate::nodes::{Nodes, start_nodes};
use crate::peers::{Server, start_pellucid, text};

/// Connections, as in the study.
const CONNECTIONS: usize = 64;
/// How long what the filling has left to do may take before the first load.
const PAUSE: Duration = Duration::from_secs(2);

/// The servers under load, of which each has all keys.
struct Servers {
    nodes: Nodes,
    /// Two that are no cluster, on the same core.
    alone: [Server; 2],
}

impl Servers {
    fn of_cluster(&self) -> Vec<&Server> {
        self.nodes.servers.iter().collect()
    }

    fn address(&self, which: usize) -> &str {
        &self.nodes.addresses[which]
    }

    /// The address of the node that is asked.
    fn entry(&self) -> &str {
        self.address(0)
    }

    fn alone_address(&self, which: usize) -> &str {
        let address = self.alone[which].url.trim_start_matches("http://").split('/').next();
        address.unwrap_or_default()
    }
}

/// The servers, filled.
fn start_servers() -> Result<Servers, String> {
    let alone = [start_pellucid("full")?, start_pellucid("full")?];
    let servers = Servers { nodes: start_nodes(2)?, alone };
    for address in [servers.entry(), servers.alone_address(0), servers.alone_address(1)] {
        fill(address)?;
    }
    std::thread::sleep(PAUSE);
    Ok(servers)
}

/// The part about a client that asks one node directly, alone.
pub fn run_direct(effort: Effort) -> Result<bool, String> {
    let servers = start_servers()?;
    let loads = at_half::loads(&servers, effort)?;
    Ok(direct::run_beside_alone(&servers, &loads, effort)?.into_iter().all(|holds| holds))
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: Effort) -> Result<bool, String> {
    let servers = start_servers()?;
    // Before all that writes: a key that is not there is looked for in every table, so what flushes
    // and merges have left undone would be measured.
    let mut held = missing::run(&servers, effort)?;
    held.extend(at_half::run(&servers, effort)?);
    held.extend(throttle::run(&servers, effort)?);
    drop(servers);
    held.extend(death::run(effort)?);
    Ok(held.into_iter().all(|holds| holds))
}

/// Processor time of all `servers` so far, in microseconds.
fn processor_us(servers: &[&Server]) -> f64 {
    servers.iter().map(|server| server.cpu_seconds() * 1e6).sum()
}

/// A file with this text.
fn file_of(content: &str) -> Result<tempfile::NamedTempFile, String> {
    let file = tempfile::NamedTempFile::new().map_err(text)?;
    std::fs::write(file.path(), content).map_err(text)?;
    Ok(file)
}
