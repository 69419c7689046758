//! Nodes of one cluster, on one core.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::peers::{Server, start_node, text};

/// The time that nodes have to find each other, and to recover.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The running nodes of one cluster.
pub struct Nodes {
    pub servers: Vec<Server>,
    pub addresses: Vec<String>,
}

impl Nodes {
    /// Returns a key that belongs to node `owner`: after a PUT of it, that node has it in its own
    /// range.
    pub fn key_of(&self, owner: usize) -> Result<String, String> {
        let mut client = Client::connect(&self.addresses[0])?;
        let mut at_owner = Client::connect(&self.addresses[owner])?;
        for number in 0..1_000 {
            let key = format!("bench{number}");
            client.call("PUT", &format!("/v0/entity?id={key}"), "x")?;
            let range = at_owner.call("GET", &format!("/v0/entities?start={key}&limit=1"), "")?;
            if range.starts_with(format!("{key}\n").as_bytes()) {
                return Ok(key);
            }
        }
        Err(format!("node {owner} owns none of 1,000 keys"))
    }
}

/// Starts the nodes of one cluster, and waits until each has connected to the others.
pub fn start_nodes(count: usize) -> Result<Nodes, String> {
    let listeners: Result<Vec<_>, _> =
        (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0")).collect();
    let addresses: Result<Vec<_>, _> =
        listeners.map_err(text)?.iter().map(|l| l.local_addr().map(|a| a.to_string())).collect();
    let addresses = addresses.map_err(text)?;
    let list: Vec<_> = addresses.iter().map(|address| format!("http://{address}")).collect();
    let list = list.join(",");
    let servers: Result<Vec<_>, _> = addresses.iter().map(|a| start_node(a, &list, None)).collect();
    let nodes = Nodes { servers: servers?, addresses };
    nodes.addresses.iter().try_for_each(|address| await_peers(address))?;
    Ok(nodes)
}

fn await_peers(address: &str) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let mut client = Client::connect(address)?;
        let page = String::from_utf8_lossy(client.call("GET", "/v0/cluster", "")?).into_owned();
        if !page.contains("\"down\"") && !page.contains("\"connecting\"") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("{address} does not meet its peers"))
}
