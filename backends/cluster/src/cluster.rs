//! The cluster as one node sees it; all event loops of the node share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pellucid_thread::Mutex;
use pellucid_topology::{NodeList, NodeUrl, TopologyError};

use crate::addresses::Addresses;
use crate::peer_status::{PeerStatus, PeerView};

/// Default of [`ClusterOptions::wait`].
pub const WAIT_DEFAULT: Duration = Duration::from_secs(1);
/// Default of [`ClusterOptions::in_flight_max`].
pub const IN_FLIGHT_DEFAULT: usize = 1_024;
/// The name of a caller that is not a node of the cluster.
pub const GUEST: &str = "guest";

/// The settings of a cluster.
#[derive(Clone)]
pub struct ClusterOptions {
    /// All nodes.
    pub nodes: NodeList,
    /// The URL of this node in the list; `None` for a guest, which owns no keys.
    pub node: Option<NodeUrl>,
    /// The shared secret, by which the nodes authenticate each other.
    pub secret: Option<Vec<u8>>,
    /// The longest time that a request waits for the answer of the key's owner. A page of a range
    /// may take 60 times as long.
    pub wait: Duration,
    /// The longest time that a peer may leave a ping unanswered before its connection is closed.
    pub silence: Duration,
    /// Limit of the asks that each event loop has in flight with each peer.
    pub in_flight_max: usize,
}

impl ClusterOptions {
    /// The default settings of the node `node` in the list `nodes`.
    #[must_use]
    pub fn new(nodes: NodeList, node: NodeUrl) -> ClusterOptions {
        ClusterOptions {
            nodes,
            node: Some(node),
            secret: None,
            wait: WAIT_DEFAULT,
            silence: WAIT_DEFAULT,
            in_flight_max: IN_FLIGHT_DEFAULT,
        }
    }

    /// The default settings of a guest: a program that is not a node, and that asks each node for
    /// the node's own keys.
    #[must_use]
    pub fn of_guest(nodes: NodeList) -> ClusterOptions {
        let node = nodes.nodes()[0].clone();
        ClusterOptions { node: None, ..ClusterOptions::new(nodes, node) }
    }

    /// The name of this node in the handshake.
    pub(crate) fn own_name(&self) -> &str {
        self.node.as_ref().map_or(GUEST, NodeUrl::as_str)
    }
}

impl std::fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self.nodes.text();
        let node = self.own_name();
        f.debug_struct("ClusterOptions").field("nodes", &nodes).field("node", &node).finish()
    }
}

/// A line for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterEvent<'a> {
    /// A problem.
    Bad(&'a str),
    /// The end of a problem.
    Good(&'a str),
}

/// A cluster as one of its nodes sees it.
pub struct Cluster {
    pub(crate) options: ClusterOptions,
    own: usize,
    fingerprint: u64,
    pub(crate) addresses: Addresses,
    statuses: Vec<PeerStatus>,
    needs_secret: AtomicBool,
    /// The time of the last log line about a caller that had not proven itself.
    pub(crate) refusal_logged: Mutex<Option<Instant>>,
    log: Box<dyn Fn(ClusterEvent<'_>) + Send + Sync>,
}

impl Cluster {
    /// A cluster with these options, for a node with `loops` event loops. `log` is called when a
    /// peer connects, is lost, or is refused.
    ///
    /// # Errors
    /// If this node is not on the list.
    pub fn new(
        options: ClusterOptions,
        loops: usize,
        log: impl Fn(ClusterEvent<'_>) + Send + Sync + 'static,
    ) -> Result<Arc<Cluster>, TopologyError> {
        let own = match &options.node {
            None => options.nodes.nodes().len(),
            Some(node) => options
                .nodes
                .index_of(node)
                .ok_or_else(|| TopologyError::of_stranger(node, &options.nodes))?,
        };
        let statuses = options.nodes.nodes().iter().map(|_| PeerStatus::new(loops)).collect();
        Ok(Arc::new(Cluster {
            fingerprint: options.nodes.fingerprint(),
            addresses: Addresses::new(options.nodes.nodes()),
            own,
            statuses,
            needs_secret: AtomicBool::new(false),
            refusal_logged: Mutex::new(None),
            log: Box::new(log),
            options,
        }))
    }

    /// The first node of a cluster of two, for tests. It finds the second at these addresses.
    #[cfg(test)]
    pub(crate) fn first_of_two(second_at: Vec<std::net::SocketAddr>) -> Arc<Cluster> {
        let nodes = NodeList::parse("http://127.0.0.1:1,http://127.0.0.1:2").unwrap();
        let own = nodes.nodes()[0].clone();
        let mut cluster = Cluster::new(ClusterOptions::new(nodes, own), 1, |_| {}).unwrap();
        let addresses = Addresses::known(vec![Vec::new(), second_at]);
        Arc::get_mut(&mut cluster).unwrap().addresses = addresses;
        cluster
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> &NodeList {
        &self.options.nodes
    }

    /// The index of this node in the list; for a guest, the length of the list.
    #[must_use]
    pub fn own(&self) -> usize {
        self.own
    }

    /// The index of the node that owns a key.
    #[inline]
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> usize {
        self.options.nodes.owner(key)
    }

    /// The URL of the node at this index.
    #[must_use]
    pub fn url(&self, node: usize) -> &NodeUrl {
        &self.options.nodes.nodes()[node]
    }

    /// The fingerprint of the list.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The longest time that a request waits for the answer of the key's owner.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.options.wait
    }

    /// Requires a secret from now on. A node without one closes its connections to other nodes and
    /// makes no new ones. It is called with the first account: without a secret, any stranger could
    /// act as a node, and no rights would be checked.
    pub fn require_secret(&self) {
        // Event loops call it often: a store would take the line from all of them.
        if !self.needs_secret.load(Ordering::Relaxed) {
            self.needs_secret.store(true, Ordering::Relaxed);
        }
    }

    /// The reason why no other node is trusted; `None` if they are.
    pub(crate) fn distrust(&self) -> Option<&'static str> {
        let is_lacking = self.options.secret.is_none() && self.needs_secret.load(Ordering::Relaxed);
        is_lacking.then_some(
            "this node has accounts, and its cluster has no secret: start every node with the \
             same --cluster-secret-file",
        )
    }

    /// A snapshot of the node at this index.
    #[must_use]
    pub fn view(&self, node: usize) -> PeerView {
        self.statuses[node].view()
    }

    pub(crate) fn status(&self, node: usize) -> &PeerStatus {
        &self.statuses[node]
    }

    /// True if this node has connected to every peer, or failed to, since it started.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let others = (0..self.nodes().nodes().len()).filter(|node| *node != self.own());
        others.into_iter().all(|node| self.status(node).is_tried())
    }

    pub(crate) fn log(&self, news: ClusterEvent<'_>) {
        (self.log)(news);
    }
}
