//! The nodes that are not reached, by name, for errors about missing copies, as the ring's own
//! answer has numbers and no names.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::cluster::{ClusterState, Node};
use scylla::statement::bound::BoundStatement;

/// Of the nodes that have copies of what a statement is about, those to which there is no
/// connection, by their addresses.
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

/// Of the nodes that have copies of a partition, those to which there is no connection, by their
/// addresses. Of all nodes, where it is about several partitions.
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

/// Those of the owners that are not reached; of all nodes, if no owners are known.
fn names(state: &ClusterState, owners: Vec<Arc<Node>>) -> Vec<String> {
    let nodes = if owners.is_empty() { state.get_nodes_info() } else { &owners[..] };
    let away = nodes.iter().filter(|node| !node.is_connected());
    // The driver takes all nodes to have one port, which is not theirs where it is a tunnel's.
    let mut names: Vec<_> = away.map(|node| node.address.ip().to_string()).collect();
    names.sort_unstable();
    names
}
