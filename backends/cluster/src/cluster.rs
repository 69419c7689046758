//! The cluster as a node knows it, the same for all its event loops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pellucid_thread::Mutex;
use pellucid_topology::{NodeList, NodeUrl, TopologyError};

use crate::addresses::Addresses;
use crate::board::{Board, PeerView};

/// The time for which a request waits for its owner, unless an operator says otherwise.
pub const WAIT_DEFAULT: Duration = Duration::from_secs(1);
/// Asks that each event loop may have under way with each peer, unless an operator says otherwise.
pub const IN_FLIGHT_DEFAULT: usize = 1_024;
/// The name of a caller that is no node itself.
pub const GUEST: &str = "guest";

/// The settings of a cluster.
#[derive(Clone)]
pub struct ClusterOptions {
    /// All nodes.
    pub nodes: NodeList,
    /// The one of them that this is; none for a guest, who has no keys.
    pub node: Option<NodeUrl>,
    /// The secret of the nodes, which they prove to each other.
    pub secret: Option<Vec<u8>>,
    /// The time for which a request waits for its owner.
    pub wait: Duration,
    /// The time for which a peer may be silent, though it was asked something, before it is given
    /// up.
    pub silence: Duration,
    /// Asks that each event loop may have under way with each peer.
    pub in_flight_max: usize,
}

impl ClusterOptions {
    /// The defaults, for this list.
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

    /// The same for a guest of these nodes: it asks each of them for what is the node's own.
    #[must_use]
    pub fn of_guest(nodes: NodeList) -> ClusterOptions {
        let node = nodes.nodes()[0].clone();
        ClusterOptions { node: None, ..ClusterOptions::new(nodes, node) }
    }

    /// The name by which this node greets.
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
pub enum News<'a> {
    /// Somebody should look at it.
    Bad(&'a str),
    /// It is well again.
    Good(&'a str),
}

/// A cluster as one of its nodes sees it.
pub struct Cluster {
    pub(crate) options: ClusterOptions,
    own: usize,
    fingerprint: u64,
    addresses: Addresses,
    boards: Vec<Board>,
    needs_secret: AtomicBool,
    /// The time at which a caller was last logged that had proven nothing.
    pub(crate) refusal_logged: Mutex<Option<Instant>>,
    log: Box<dyn Fn(News<'_>) + Send + Sync>,
}

impl Cluster {
    /// A cluster with these options, whose node has `loops` event loops; `log` is told when a peer
    /// comes, goes, or is refused.
    ///
    /// # Errors
    /// If this node is not on the list.
    pub fn new(
        options: ClusterOptions,
        loops: usize,
        log: impl Fn(News<'_>) + Send + Sync + 'static,
    ) -> Result<Arc<Cluster>, TopologyError> {
        let own = match &options.node {
            None => options.nodes.nodes().len(),
            Some(node) => options
                .nodes
                .index_of(node)
                .ok_or_else(|| TopologyError::of_stranger(node, &options.nodes))?,
        };
        let boards = options.nodes.nodes().iter().map(|_| Board::new(loops)).collect();
        Ok(Arc::new(Cluster {
            fingerprint: options.nodes.fingerprint(),
            addresses: Addresses::new(options.nodes.nodes()),
            own,
            boards,
            needs_secret: AtomicBool::new(false),
            refusal_logged: Mutex::new(None),
            log: Box::new(log),
            options,
        }))
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> &NodeList {
        &self.options.nodes
    }

    /// The place of this node in the list; for a guest, the one behind it, where no node is.
    #[must_use]
    pub fn own(&self) -> usize {
        self.own
    }

    /// The place of the node that owns a key.
    #[inline]
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> usize {
        self.options.nodes.owner(key)
    }

    /// The URL of the node at this place.
    #[must_use]
    pub fn url(&self, node: usize) -> &NodeUrl {
        &self.options.nodes.nodes()[node]
    }

    /// The fingerprint of the list.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The time for which a request waits for its owner.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.options.wait
    }

    /// From now on no node is trusted that has not proven that it knows the cluster's secret. Where
    /// there is none, connections end, and none are made: the first account shuts
    /// strangers out.
    pub fn require_secret(&self) {
        self.needs_secret.store(true, Ordering::Relaxed);
    }

    /// Why no other node is trusted, if that is so.
    pub(crate) fn distrust(&self) -> Option<&'static str> {
        let is_lacking = self.options.secret.is_none() && self.needs_secret.load(Ordering::Relaxed);
        is_lacking.then_some(
            "this node has accounts, and its cluster has no secret: start every node with the \
             same --cluster-secret-file",
        )
    }

    /// The state of the node at this place.
    #[must_use]
    pub fn view(&self, node: usize) -> PeerView {
        self.boards[node].view()
    }

    pub(crate) fn board(&self, node: usize) -> &Board {
        &self.boards[node]
    }

    /// True if this node has connected to every peer, or failed to, since it began.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let others = (0..self.nodes().nodes().len()).filter(|node| *node != self.own());
        others.into_iter().all(|node| self.board(node).is_tried())
    }

    /// The address of the node at this place, if its name is known.
    pub(crate) fn address(&self, node: usize) -> Result<SocketAddr, String> {
        self.addresses.of(node)
    }

    pub(crate) fn log(&self, news: News<'_>) {
        (self.log)(news);
    }
}
