//! The addresses of unreachable nodes, for errors about missing copies: the ring's own errors have
//! only numbers.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::cluster::{ClusterState, Node};
use scylla::statement::bound::BoundStatement;

/// The addresses of the nodes that have copies for a statement, and to which there is no
/// connection.
pub(crate) fn of_statement(session: &Session, statement: &BoundStatement) -> Vec<String> {
    let state = session.get_cluster_state();
    let prepared = statement.prepared();
    let place = (prepared.get_keyspace_name(), prepared.get_table_name());
    let owners = match (place, statement.calculate_token()) {
        ((Some(keyspace), Some(table)), Ok(Some(token))) => {
            state.get_token_endpoints(keyspace, table, token).into_iter().map(first).collect()
        }
        _ => Vec::new(),
    };
    names(&state, owners)
}

/// The addresses of the nodes that have copies of a partition, and to which there is no connection.
/// Without a partition, all nodes without a connection.
pub(crate) fn of_partition(
    session: &Session,
    (keyspace, table): (&str, &str),
    partition: Option<(&str, &[u8])>,
) -> Vec<String> {
    let state = session.get_cluster_state();
    let owners = partition.and_then(|key| state.get_endpoints(keyspace, table, &key).ok());
    let owners = owners.unwrap_or_default().into_iter().map(first).collect();
    names(&state, owners)
}

fn first<T>((node, _): (Arc<Node>, T)) -> Arc<Node> {
    node
}

/// The addresses of those owners to which there is no connection; of all such nodes, if no owners
/// are known.
fn names(state: &ClusterState, owners: Vec<Arc<Node>>) -> Vec<String> {
    let nodes = if owners.is_empty() { state.get_nodes_info() } else { &owners[..] };
    let unconnected = nodes.iter().filter(|node| !node.is_connected());
    // Only the host: the driver assumes one port for all nodes, and with TLS it is a tunnel's port.
    let mut names: Vec<_> = unconnected.map(|node| node.address.ip().to_string()).collect();
    names.sort_unstable();
    names
}
