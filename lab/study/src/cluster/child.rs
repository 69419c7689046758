//! The child process that runs one node.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use pellucid_server::{ClusterOptions, NodeList, NodeUrl, ServerOptions};
use serde::{Deserialize, Serialize};

use crate::child_server::serve;
use crate::error::StudyError;

/// The configuration of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NodePlan {
    pub(super) data: PathBuf,
    pub(super) listen: SocketAddr,
    /// The list of all nodes; `None` for a node without a cluster.
    pub(super) nodes: Option<String>,
}

/// Runs a node until the input ends.
///
/// # Errors
/// If the node does not start or stop, or its plan is invalid.
pub fn run_child(input: impl BufRead, output: impl Write) -> Result<(), StudyError> {
    serve(input, output, |plan: NodePlan| {
        let mut options = ServerOptions::new(plan.data);
        options.listen = vec![plan.listen.into()];
        options.threads = 1;
        if let Some(nodes) = plan.nodes {
            let nodes = NodeList::parse(&nodes).map_err(StudyError::step)?;
            let node =
                NodeUrl::parse(&format!("http://{}", plan.listen)).map_err(StudyError::step)?;
            options.cluster = Some(ClusterOptions::new(nodes, node));
        }
        Ok(options)
    })
}
