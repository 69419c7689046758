//! Requests straight to the nodes that own their keys, as a client sends them that knows the way.
//!
//! A connection is one of a user's then: it has a socket to every node, and one request under way.
//! The request is made first; its key says which socket it takes. A node whose socket is not open
//! is asked by way of another one, which forwards the request or says that it cannot.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use pellucid_client::{Way, topology_within};
use pellucid_clock::Ticks;

use crate::connection::{InFlight, Link};
use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::worker::{Requests, Worker};
use pellucid_client::http::Target;

/// The nodes of a cluster, and where they are met.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    way: Way,
    addresses: Arc<[SocketAddr]>,
    /// The node that is asked for what is about no key: the one of the URL.
    usual: usize,
}

/// What a thread knows of the ways that its requests take.
#[derive(Debug)]
pub(crate) struct Directions {
    nodes: Nodes,
    /// Requests to each node.
    pub(crate) requests: Vec<u64>,
    /// Requests that took another way than that to their owner, as it was not there.
    pub(crate) by_another: u64,
}

/// Where the requests of a run went that were sent to their owners.
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

    /// What came of all threads.
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

    /// Where the socket at this place leads.
    pub(crate) fn address(&self, place: usize) -> SocketAddr {
        self.nodes.addresses[place]
    }

    /// The place of the node that a request goes to.
    fn owner(&mut self, request: &[u8]) -> usize {
        let target = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        self.nodes.way.owner_of_target(target).unwrap_or(self.nodes.usual)
    }
}

impl Worker {
    /// Sockets of each connection: one, unless requests go to their owners.
    pub(crate) fn width(&self) -> usize {
        self.work.directions.as_ref().map_or(1, Directions::width)
    }

    /// The sockets of the connection that this one belongs to.
    fn sockets_of(&self, index: usize) -> Range<usize> {
        let width = self.width();
        let first = index / width * width;
        first..first + width
    }

    /// The socket that stands for its connection where those that are free are queued.
    #[inline]
    pub(crate) fn first_of(&self, index: usize) -> usize {
        match &self.work.directions {
            None => index,
            Some(_) => self.sockets_of(index).start,
        }
    }

    /// Whether a connection can take another request.
    #[inline]
    pub(crate) fn has_room(&self, index: usize) -> bool {
        if self.work.directions.is_none() {
            return self.connections[index].has_room();
        }
        let sockets = &self.connections[self.sockets_of(index)];
        sockets.iter().any(|socket| socket.link == Link::Up)
            && sockets.iter().all(|socket| socket.in_flight.is_empty() && !socket.has_unwritten())
    }

    /// Makes a request and sends it to the owner of its key.
    pub(crate) fn send_direct(
        &mut self,
        index: usize,
        intended: Option<Ticks>,
    ) -> Result<(), LoadError> {
        if self.quota_left == 0 {
            return Ok(());
        }
        self.quota_left -= 1;
        let sockets = self.sockets_of(index);
        let mut bytes = std::mem::take(&mut self.request_bytes);
        bytes.clear();
        let mut operation = 0;
        match &mut self.work.requests {
            Requests::Fixed { bytes: fixed, .. } => bytes.extend_from_slice(fixed),
            Requests::FixedStream { .. } => unreachable!("nodes speak HTTP/1.1"),
            Requests::Source(source) => {
                source.next(&mut bytes);
                operation = source.operation() as u16;
            }
            Requests::Script => {
                if let Some(script) = &mut self.work.script {
                    script.request(&mut bytes)?;
                }
            }
        }
        let free_since = self.connections[sockets.clone()].iter().map(|socket| socket.free_since);
        let free_since = free_since.max().unwrap_or_default();
        let index = self.way_of(sockets, &bytes);
        let connection = &mut self.connections[index];
        connection.out.clear();
        connection.written = 0;
        connection.out.extend_from_slice(&bytes);
        connection.free_since = free_since;
        let bodiless = bytes.starts_with(b"HEAD ");
        self.request_bytes = bytes;
        connection.in_flight.push_back(InFlight { bodiless, operation, ..InFlight::default() });
        if self.watcher.picks() {
            self.watch(index, 0);
        }
        let sent = self.clock.now();
        if let Some(request) = self.connections[index].in_flight.back_mut() {
            (request.sent, request.intended) = (sent, intended.unwrap_or(sent));
        }
        if let (Some(intended), true) = (intended, self.schedule.is_some()) {
            self.recorder.sent(intended, sent);
            self.recorder.begun(intended, free_since, sent);
        }
        self.flush(index);
        Ok(())
    }

    /// The socket that a request takes: that to its owner, or another one of those that are open.
    fn way_of(&mut self, sockets: Range<usize>, request: &[u8]) -> usize {
        let Some(directions) = &mut self.work.directions else { return sockets.start };
        let owner = sockets.start + directions.owner(request);
        let is_up = |index: &usize| self.connections[*index].link == Link::Up;
        let taken = if is_up(&owner) {
            owner
        } else {
            directions.by_another += 1;
            sockets.clone().find(is_up).unwrap_or(owner)
        };
        directions.requests[taken - sockets.start] += 1;
        taken
    }
}
