//! Concurrent clients of a cluster: each key behaves as a register at every node, also while a node
//! restarts.

use std::time::Duration;

use crate::common::histories::{History, OperationMix};
use crate::common::nodes::{Nodes, options, try_start};
use crate::common::{Client, wait_until};

/// Number of concurrent clients.
const CLIENTS: u64 = 6;

/// The time for which a request waits for an unreachable node.
const WAIT: Duration = Duration::from_millis(300);

#[test]
fn every_key_is_a_register_at_any_node() {
    let mut nodes = Nodes::start(3, |options| {
        if let Some(cluster) = &mut options.cluster {
            cluster.wait = WAIT;
        }
    });
    let (mut events, mut unknown) = (0, 0);
    for round in 0..8 {
        let history = History::default();
        let addresses: Vec<_> = nodes.nodes.iter().map(|node| node.address).collect();
        let prefix = format!("round {round} ");
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (history, prefix) = (&history, &prefix);
                    let address = addresses[client as usize % addresses.len()];
                    let connect = move || Client::try_connect(address).ok();
                    let seed = round * 1_000 + client;
                    scope.spawn(move || {
                        history.play((prefix, OperationMix::Single), 60, seed, connect)
                    })
                })
                .collect();
            let restarted = round as usize % 3;
            wait_until(|| history.len(), |events| *events >= 30);
            nodes.stop(restarted);
            let (node, list) = (&mut nodes.nodes[restarted], &nodes.list);
            let mut options = options(&node.folder, node.address, list);
            if let Some(cluster) = &mut options.cluster {
                cluster.wait = WAIT;
            }
            let (server, log) = try_start(options).unwrap();
            (node.server, node.log) = (Some(server), log);
            clients.into_iter().for_each(|client| client.join().unwrap());
        });
        let (all, lost) = history.check(&prefix);
        (events, unknown) = (events + all, unknown + lost);
    }
    assert!(unknown < events / 2, "{unknown} of {events} outcomes are unknown");
}
