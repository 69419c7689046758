//! Requests straight to the nodes that own their keys, as a client sends them that knows the way.
//!
//! A connection is one of a user's then: it has a socket to every node, and one request under way.
//! The request is made first; its key says which socket it takes. A node whose socket is not open
//! is asked by way of another one, which forwards the request or says that it cannot.

use std::sync::Arc;

use pellucid_client::http::{Address, Target};
use pellucid_client::{Way, topology_within};

use crate::error::LoadError;
use crate::options::LoadOptions;

/// The nodes of a cluster, and where they are met.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    way: Way,
    addresses: Arc<[Address]>,
    /// The node that is asked for what is about no key: the one of the URL.
    usual: usize,
}

/// A thread's knowledge of the ways that its requests take.
#[derive(Debug)]
pub(crate) struct Directions {
    nodes: Nodes,
    /// Requests to each node.
    requests: Vec<u64>,
    /// Requests that took another way than that to their owner, as it was not there.
    by_another: u64,
}

/// The nodes that got the requests of a run, each sent to its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectResult {
    /// The nodes, and how many requests each of them was sent.
    pub nodes: Vec<(String, u64)>,
    /// Requests that were sent to another node than the owner, as no connection to that was open.
    pub by_another: u64,
}

impl Nodes {
    /// Asks the service which nodes there are, and makes sure that each is there.
    pub(crate) fn find(options: &LoadOptions) -> Result<Nodes, LoadError> {
        let target = &options.target;
        let url = format!("http://{}", target.address());
        let list = topology_within(&url, options.timeout).map_err(|error| {
            LoadError::Topology(format!(
                "--direct asks {url}/v0/cluster which nodes there are, and has no list: {error}"
            ))
        })?;
        let mut addresses = Vec::new();
        for node in list.nodes() {
            let (address, _) =
                Target::parse(node.as_str())?.reach(options.timeout).map_err(|e| {
                    LoadError::Topology(format!("the node {node}, which {url} names, is away: {e}"))
                })?;
            addresses.push(address);
        }
        let usual = list.nodes().iter().position(|node| node.as_str() == url).unwrap_or(0);
        Ok(Nodes { way: Way::new(list), addresses: addresses.into(), usual })
    }

    pub(crate) fn directions(&self) -> Directions {
        let requests = vec![0; self.addresses.len()];
        Directions { nodes: self.clone(), requests, by_another: 0 }
    }

    /// The sum of all threads.
    pub(crate) fn result<'a>(&self, all: impl Iterator<Item = &'a Directions>) -> DirectResult {
        let mut result = DirectResult::default();
        let urls = self.way.nodes().nodes().iter();
        result.nodes = urls.map(|node| (node.to_string(), 0)).collect();
        for directions in all {
            result.by_another += directions.by_another;
            for (node, requests) in result.nodes.iter_mut().zip(&directions.requests) {
                node.1 += requests;
            }
        }
        result
    }
}

impl Directions {
    /// Sockets of a connection.
    pub(crate) fn width(&self) -> usize {
        self.nodes.addresses.len()
    }

    /// The address of the socket at this place.
    pub(crate) fn address(&self, place: usize) -> &Address {
        &self.nodes.addresses[place]
    }

    /// Notes that a request goes to the node at this place, `by_another` than its owner.
    pub(crate) fn note(&mut self, place: usize, by_another: bool) {
        self.requests[place] += 1;
        self.by_another += u64::from(by_another);
    }

    /// The place of the node that a request goes to.
    pub(crate) fn owner(&mut self, request: &[u8]) -> usize {
        let target = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        self.nodes.way.owner_of_target(target).unwrap_or(self.nodes.usual)
    }
}
