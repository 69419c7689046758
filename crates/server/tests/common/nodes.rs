//! Nodes of a cluster in this process.
//!
//! Nodes have to know each other's ports before they start. So each gets a port that was free a
//! moment before, below the range of ephemeral ports.
#![allow(clippy::disallowed_types, reason = "a test's own locks are in no profile")]

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use pellucid_server::{
    ClusterOptions, Log, NodeList, NodeUrl, RunningServer, ServerError, ServerOptions, start,
};
use tempfile::TempDir;

use super::{Client, PATIENCE, wait_until};

/// The lines of a node's log.
pub(crate) type Lines = Arc<Mutex<Vec<String>>>;

pub(crate) struct Node {
    pub(crate) server: Option<RunningServer>,
    pub(crate) address: SocketAddr,
    pub(crate) folder: TempDir,
    pub(crate) log: Lines,
}

pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Node>,
    pub(crate) list: NodeList,
}

pub(crate) fn free_addresses(count: usize) -> Vec<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 100) as u16 * 100;
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    let addresses = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    addresses.filter(|address| TcpListener::bind(address).is_ok()).take(count).collect()
}

pub(crate) fn list_of(addresses: &[SocketAddr]) -> NodeList {
    let urls: Vec<_> = addresses.iter().map(|address| format!("http://{address}")).collect();
    NodeList::parse(&urls.join(",")).unwrap()
}

/// The keys that the node of this URL owns.
pub(crate) fn keys_at(list: &NodeList, url: String) -> impl Iterator<Item = String> {
    let owner = |key: &String| list.nodes()[list.owner(key.as_bytes())].as_str();
    (0..).map(|number| format!("key{number}")).filter(move |key| owner(key) == url)
}

pub(crate) fn options(folder: &TempDir, address: SocketAddr, list: &NodeList) -> ServerOptions {
    let mut options = ServerOptions::new(folder.path().to_owned());
    options.listen = vec![address.into()];
    options.threads = 2;
    let node = NodeUrl::parse(&format!("http://{address}")).unwrap();
    let mut cluster = ClusterOptions::new(list.clone(), node);
    // A machine that stalls for a while must not make a node appear dead.
    (cluster.wait, cluster.silence) = (PATIENCE, PATIENCE);
    options.cluster = Some(cluster);
    options
}

pub(crate) fn try_start(options: ServerOptions) -> Result<(RunningServer, Lines), ServerError> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&log);
    let log_line = Log::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
    Ok((start(options, log_line)?, log))
}

impl Nodes {
    pub(crate) fn start(count: usize, set: impl Fn(&mut ServerOptions)) -> Nodes {
        let addresses = free_addresses(count);
        let list = list_of(&addresses);
        let nodes = addresses.into_iter().map(|address| {
            let folder = TempDir::new().unwrap();
            let mut options = options(&folder, address, &list);
            set(&mut options);
            let (server, log) = try_start(options).unwrap();
            Node { server: Some(server), address, folder, log }
        });
        let nodes = Nodes { nodes: nodes.collect(), list };
        (0..count).for_each(|node| nodes.wait_for_all(node));
        nodes
    }

    pub(crate) fn client(&self, node: usize) -> Client {
        Client::connect(self.nodes[node].address)
    }

    /// The index of the node that owns the key, in the order of this list.
    pub(crate) fn owner(&self, key: &[u8]) -> usize {
        let url = self.list.nodes()[self.list.owner(key)].as_str();
        (0..self.nodes.len()).find(|node| self.url(*node) == url).unwrap()
    }

    /// A key that this node owns.
    pub(crate) fn key_of(&self, node: usize) -> String {
        self.keys_of(node).next().unwrap()
    }

    pub(crate) fn keys_of(&self, node: usize) -> impl Iterator<Item = String> {
        keys_at(&self.list, self.url(node))
    }

    pub(crate) fn view(&self, node: usize) -> serde_json::Value {
        self.client(node).get("/v0/cluster").json()
    }

    /// Waits until this node is connected to all others.
    pub(crate) fn wait_for_all(&self, node: usize) {
        let is_met =
            |node: &serde_json::Value| matches!(node["state"].as_str(), Some("self" | "ready"));
        let view = || self.view(node);
        wait_until(view, |view| view["nodes"].as_array().unwrap().iter().all(is_met));
    }

    pub(crate) fn url(&self, node: usize) -> String {
        format!("http://{}", self.nodes[node].address)
    }

    pub(crate) fn stop(&mut self, node: usize) {
        self.nodes[node].server.take().unwrap().stop().unwrap();
    }

    /// Stops a node, and waits until another one has noticed.
    pub(crate) fn lose(&mut self, node: usize, noticed_by: usize) {
        self.stop(node);
        wait_until(|| self.view(noticed_by), is_one_down);
    }

    /// Starts a stopped node again.
    pub(crate) fn start_again(&mut self, node: usize) {
        let Node { folder, address, .. } = &self.nodes[node];
        let (server, log) = try_start(options(folder, *address, &self.list)).unwrap();
        (self.nodes[node].server, self.nodes[node].log) = (Some(server), log);
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(server) = node.server.take() {
                let stopped = server.stop();
                if !std::thread::panicking() {
                    stopped.unwrap();
                }
            }
        }
    }
}

/// True if a node is down in this view of `/v0/cluster`.
pub(crate) fn is_one_down(view: &serde_json::Value) -> bool {
    view["nodes"].as_array().unwrap().iter().any(|node| node["state"] == "down")
}
