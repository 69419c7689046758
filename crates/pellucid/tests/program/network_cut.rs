//! Tests of a cluster whose network is cut. Three nodes run as processes, each in a network
//! namespace of its own with a cable (a veth pair) to each of the others. Then the cables of one
//! node are pulled.
//!
//! The tests need root and `ip`, and fail without them. No other test shows that packets without an
//! answer cost no more than the configured wait.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Client, TestServer, entity, wait_for, wait_until};
use crate::histories::{History, OperationMix};
use crate::nodes::keys_at;
use pellucid_server::NodeList;
use tempfile::TempDir;

/// The time that nodes wait for an answer of each other, and for a heartbeat.
const WAIT: &str = "2s";
const NODES: usize = 3;
/// The number of clients of a history, and of operations of each client.
const CLIENTS: usize = 6;
const OPERATIONS: u64 = 60;
/// The number of networks that this process has created.
static NETWORKS: AtomicUsize = AtomicUsize::new(0);

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!("`ip` cannot be started ({error}): install iproute2, or call scripts/need ip")
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments:?}, which needs root: {errors}");
}

/// The namespaces of the nodes and the cables between them, which are removed with the test.
struct Network {
    name: String,
}

impl Network {
    fn lay() -> Network {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let network = Network { name: format!("pellucid{}-{number}n", std::process::id()) };
        for node in 0..NODES {
            ip(&["netns", "add", &network.space(node)]);
        }
        for node in 0..NODES {
            let space = network.space(node);
            ip(&["-n", &space, "link", "set", "lo", "up"]);
            ip(&["-n", &space, "addr", "add", &format!("{}/32", address(node)), "dev", "lo"]);
            for other in node + 1..NODES {
                let (here, there) = (cable(node, other), cable(other, node));
                let far = network.space(other);
                ip(&[
                    "-n", &space, "link", "add", &here, "type", "veth", "peer", "name", &there,
                    "netns", &far,
                ]);
            }
        }
        for node in 0..NODES {
            network.plug_in(node);
        }
        network
    }

    fn space(&self, node: usize) -> String {
        format!("{}{node}", self.name)
    }

    /// Sets the node's ends of its cables up.
    fn plug_in(&self, node: usize) {
        let space = self.space(node);
        for other in (0..NODES).filter(|other| *other != node) {
            let (cable, from, to) = (cable(node, other), address(node), address(other));
            ip(&["-n", &space, "link", "set", &cable, "up"]);
            ip(&["-n", &space, "route", "replace", &to, "dev", &cable, "src", &from]);
        }
    }

    /// Sets the node's ends of its cables down. The others can still send, but nothing arrives.
    fn pull(&self, node: usize) {
        for other in (0..NODES).filter(|other| *other != node) {
            ip(&["-n", &self.space(node), "link", "set", &cable(node, other), "down"]);
        }
    }

    /// Returns a connection to a node from a client in its namespace.
    fn client(&self, node: usize) -> Client {
        self.try_client(node).unwrap()
    }

    /// Returns a connection like [`Network::client`], or none if the node does not accept it.
    fn try_client(&self, node: usize) -> Option<Client> {
        let space = File::open(format!("/run/netns/{}", self.space(node))).unwrap();
        let connect = move || {
            // SAFETY: the descriptor is that of a namespace; what changes is this thread's alone.
            let entered = unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(entered, 0, "{}", std::io::Error::last_os_error());
            Client::try_connect(socket_address(node)).ok()
        };
        // Only the new thread enters the namespace; the others stay in theirs.
        std::thread::spawn(connect).join().unwrap()
    }

    /// Starts the nodes, which wait for an answer of each other at most for `wait`.
    fn serve_all(&self, list: &NodeList, wait: &str) -> Vec<(TestServer, TempDir)> {
        let serve = |node| {
            let folder = TempDir::new().unwrap();
            (self.serve(node, &folder, list, wait), folder)
        };
        (0..NODES).map(serve).collect()
    }

    fn serve(&self, node: usize, data: &TempDir, list: &NodeList, wait: &str) -> TestServer {
        let (listen, space) = (socket_address(node).to_string(), self.space(node));
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &space, env!("CARGO_BIN_EXE_pellucid"), "serve"]);
        command.args(["--data", data.path().to_str().unwrap(), "--listen", &listen]);
        command.args(["--insecure-no-accounts", "--insecure-no-tls", "--threads", "1"]);
        command.args(["--cluster-wait", wait, "--cluster-silence", WAIT]);
        command.args(["--cluster", &list.text(), "--advertise", &format!("http://{listen}")]);
        TestServer::spawn(command)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for node in 0..NODES {
            // The removal fails if the namespace was not created.
            let _ = Command::new("ip").args(["netns", "del", &self.space(node)]).output();
        }
    }
}

fn address(node: usize) -> String {
    format!("10.77.0.{}", node + 1)
}

fn socket_address(node: usize) -> SocketAddr {
    format!("{}:8080", address(node)).parse().unwrap()
}

/// Returns the URLs of the nodes, and the node list.
fn addresses() -> (Vec<String>, NodeList) {
    let urls: Vec<_> = (0..NODES).map(|node| format!("http://{}", socket_address(node))).collect();
    let list = NodeList::parse(&urls.join(",")).unwrap();
    (urls, list)
}

/// Returns the name of an end of a cable; the kernel limits the length of such names.
fn cable(from: usize, to: usize) -> String {
    format!("to{to}from{from}")
}

/// Repeats a GET until the answer has this status. Until then it must be 200 or 504.
fn until(network: &Network, node: usize, key: &str, status: u16) -> String {
    wait_for(|| {
        let answer = network.client(node).get(&entity(key));
        if answer.status == status {
            return Ok(answer.text().to_owned());
        }
        assert!(matches!(answer.status, 200 | 504), "{answer:?}");
        Err((node, answer))
    })
}

#[test]
fn a_cut_of_the_network_costs_only_the_keys_beyond_it() {
    let network = Network::lay();
    let (urls, list) = addresses();
    let _nodes = network.serve_all(&list, WAIT);
    let of = |url: &String| keys_at(&list, url.clone()).next().unwrap();
    let keys: Vec<String> = urls.iter().map(of).collect();
    for (node, key) in keys.iter().enumerate() {
        // The status may be 504 until the nodes have connected.
        let put = || network.client(node).put(&entity(key), b"kept").status;
        wait_until(put, |status| *status == 201);
        for entry in 0..NODES {
            assert_eq!(until(&network, entry, key, 200), "kept");
        }
    }
    network.pull(2);
    // No packet shows that the node is gone: the first request waits, the later ones fail at once.
    for (entry, key, beyond) in [(0, 2, 2), (1, 2, 2), (2, 0, 0), (2, 1, 1)] {
        let what = until(&network, entry, &keys[key], 504);
        assert!(what.contains(&urls[beyond]), "{what}");
        assert_eq!(network.client(entry).call("PUT", &entity(&keys[key]), &[], b"x").status, 504);
    }
    // Each side answers reads and writes of its own keys.
    for (entry, key) in [(0, 0), (1, 1), (2, 2)] {
        assert_eq!(network.client(entry).get(&entity(&keys[key])).text(), "kept");
        let put = network.client(entry).call("PUT", &entity(&keys[key]), &[], b"kept");
        assert_eq!(put.status, 201);
    }
    for (entry, key) in [(0, 1), (1, 0)] {
        assert_eq!(until(&network, entry, &keys[key], 200), "kept");
    }
    network.plug_in(2);
    for entry in 0..NODES {
        for key in &keys {
            // A write that was answered with 504 may have been applied, or may be applied later.
            let value = until(&network, entry, key, 200);
            assert!(value == "kept" || value == "x", "{value}");
        }
    }
}

/// A request that the cut delayed may arrive after the repair. It must not repeat a write that was
/// answered, nor take effect outside of its time.
#[test]
fn every_key_is_a_register_beside_cuts_of_the_network() {
    let network = Network::lay();
    let (_, list) = addresses();
    let _nodes = network.serve_all(&list, "300ms");
    let (mut operations, mut unknown) = (0, 0);
    for round in 0..6 {
        let (history, prefix) = (History::default(), format!("round {round} "));
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (history, prefix, network) = (&history, &prefix, &network);
                let connect = move || network.try_client(client % NODES);
                let seed = (round * 1_000 + client) as u64;
                scope.spawn(move || {
                    history.play((prefix, OperationMix::Single), OPERATIONS, seed, connect);
                });
            }
            // One of these cuts is shorter than the wait of the nodes, the others are longer.
            for (cut, milliseconds) in [450, 100, 450].into_iter().enumerate() {
                std::thread::sleep(Duration::from_millis(3));
                network.pull((round + cut) % NODES);
                std::thread::sleep(Duration::from_millis(milliseconds));
                network.plug_in((round + cut) % NODES);
            }
        });
        let (all, lost) = history.check(&prefix);
        (operations, unknown) = (operations + all, unknown + lost);
    }
    println!("{operations} operations, {unknown} of them without a known outcome");
    assert!(unknown > 0, "no request met a cut");
}
