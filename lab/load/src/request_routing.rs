//! Requests that go directly to the nodes that own their keys, as a client with the list of nodes
//! sends them.
//!
//! Each connection has a socket to every node, and one request in flight. The key of a request
//! selects the socket. If that socket is not open, the request goes to another node, which forwards
//! or refuses it.

use std::sync::Arc;

use pellucid_client::http::{Address, Target};
use pellucid_client::{ClientOptions, Credentials, RequestRouter, topology_with};

use crate::error::LoadError;
use crate::options::LoadOptions;

/// The nodes of a cluster and their addresses.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    way: RequestRouter,
    addresses: Arc<[Address]>,
    /// The index of the node for requests without a key: the one of the URL.
    usual: usize,
}

/// The routing of one thread's requests, with its counts.
#[derive(Debug)]
pub(crate) struct RequestRouting {
    nodes: Nodes,
    /// The number of requests to each node.
    requests: Vec<u64>,
    /// Requests that did not go over an open socket to their owner.
    by_another: u64,
}

/// The requests of a run by node, each sent to the owner of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectResult {
    /// The URL of each node, and the number of requests that were sent to it.
    pub nodes: Vec<(String, u64)>,
    /// Requests that were sent to another node than the owner, because the socket to the owner was
    /// not open.
    pub by_another: u64,
}

impl Nodes {
    /// Asks the service for the list of nodes, and checks that each can be reached.
    pub(crate) fn find(options: &LoadOptions) -> Result<Nodes, LoadError> {
        let target = &options.target;
        let url = format!("http://{}", target.address());
        let authorization = options.authorization().map(str::to_owned);
        let settings = ClientOptions {
            credentials: authorization.map_or(Credentials::None, Credentials::Header),
            patience: options.timeout,
            ..ClientOptions::default()
        };
        let (list, usual) = topology_with(&url, &settings).map_err(|error| {
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
        Ok(Nodes { way: RequestRouter::new(list), addresses: addresses.into(), usual })
    }

    pub(crate) fn directions(&self) -> RequestRouting {
        let requests = vec![0; self.addresses.len()];
        RequestRouting { nodes: self.clone(), requests, by_another: 0 }
    }

    /// The sum of the counts of all threads.
    pub(crate) fn result<'a>(&self, all: impl Iterator<Item = &'a RequestRouting>) -> DirectResult {
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

impl RequestRouting {
    /// The number of sockets of a connection, one for each node.
    pub(crate) fn width(&self) -> usize {
        self.nodes.addresses.len()
    }

    /// The address of the node with index `place`.
    pub(crate) fn address(&self, place: usize) -> &Address {
        &self.nodes.addresses[place]
    }

    /// Counts a request to the node with index `place`. `by_another` is true if it does not go over
    /// an open socket to its owner.
    pub(crate) fn note(&mut self, place: usize, by_another: bool) {
        self.requests[place] += 1;
        self.by_another += u64::from(by_another);
    }

    /// The index of the node that owns the key of a request.
    pub(crate) fn owner(&mut self, request: &[u8]) -> usize {
        let target = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        self.nodes.way.owner_of_target(target).unwrap_or(self.nodes.usual)
    }
}
