//! The nodes' views of the ring: a node accepts requests before it knows the other nodes.

use std::net::SocketAddr;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Consistency;
use tokio::runtime::Builder;

use super::nodes::{NODES, Ring};
use super::wait_for;

/// A query of a system table that has a copy on each of the three nodes.
const EVERYWHERE: &str = "SELECT * FROM system_distributed.parent_repair_history LIMIT 1";

/// Waits until each node knows and reaches all others. Otherwise, a session that starts at a node
/// without the others would see a ring of one node.
pub(crate) fn wait_for_all_views() {
    for address in Ring::addresses() {
        wait_for(|| sees_all(&address).map_err(|error| format!("{address}: {error}")));
    }
}

fn sees_all(address: &str) -> Result<(), String> {
    let node: SocketAddr = address.parse().unwrap();
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::All)
        .load_balancing_policy(SingleTargetLoadBalancingPolicy::new(
            NodeIdentifier::NodeAddress(node),
            None,
        ))
        .request_timeout(Some(Duration::from_secs(30)))
        .build();
    let builder = SessionBuilder::new()
        .known_node(address)
        .default_execution_profile_handle(profile.into_handle());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = builder.build().await.map_err(|error| error.to_string())?;
        let known = session.get_cluster_state().get_nodes_info().len();
        if known != NODES {
            return Err(format!("it knows {known} of {NODES}"));
        }
        session.query_unpaged(EVERYWHERE, &[]).await.map(|_| ()).map_err(|error| error.to_string())
    })
}
