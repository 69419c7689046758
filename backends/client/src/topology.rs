//! Reading the list of a cluster's nodes from one of them.

use pellucid_topology::{NodeList, NodeUrl};

use crate::connection::Connection;
use crate::error::ClientError;
use crate::http::{HttpRequest, Target};
use crate::options::ClientOptions;

/// The nodes of the cluster of the server at `url`; only this server if it is not in a cluster.
///
/// # Errors
/// If the server cannot be reached, refuses, or does not answer as a Pellucid server does.
pub fn topology(url: &str) -> Result<NodeList, ClientError> {
    topology_with(url, &ClientOptions::default()).map(|(nodes, _)| nodes)
}

/// Like [`topology`], with these settings; also the index of the server at `url` in the list.
///
/// # Errors
/// As [`topology`].
pub fn topology_with(url: &str, options: &ClientOptions) -> Result<(NodeList, usize), ClientError> {
    let node = NodeUrl::parse(url)?;
    let mut connection = Connection::open(&Target::parse(node.as_str())?, options)?;
    let (nodes, own) = nodes_known_to(&mut connection)?;
    let list = NodeList::new(if nodes.is_empty() { vec![node] } else { nodes })?;
    let own = own.and_then(|own| list.index_of(&own)).unwrap_or(0);
    Ok((list, own))
}

/// The nodes of the cluster of this connection's server, and the server's own URL among them, which
/// may differ from the one that it was reached by; empty if the server is not in a cluster.
pub(crate) fn nodes_known_to(
    connection: &mut Connection,
) -> Result<(Vec<NodeUrl>, Option<NodeUrl>), ClientError> {
    let answer = connection.call(&HttpRequest::get("/v0/cluster"))?.accepted(200)?;
    let wrong = || ClientError::Answer("the list of nodes is not what it has to be".to_owned());
    let page: serde_json::Value = serde_json::from_slice(&answer.body).map_err(|_| wrong())?;
    let nodes = page["nodes"].as_array().ok_or_else(wrong)?;
    let urls = nodes.iter().map(|node| {
        let url = node["url"].as_str().ok_or_else(wrong)?;
        Ok(NodeUrl::parse(url)?)
    });
    let own = page["node"].as_str().and_then(|url| NodeUrl::parse(url).ok());
    Ok((urls.collect::<Result<Vec<_>, ClientError>>()?, own))
}
