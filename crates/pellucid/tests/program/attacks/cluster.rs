//! Attacks on a node of a cluster by clients that do not know its secret.

use std::time::Duration;

use super::raw::{Attack, connect, send, statuses};
use crate::common::until_closed;

/// The headers of an attacker who asks to become a peer.
fn greetings() -> Vec<(&'static str, String)> {
    let hello = |headers: &str| {
        let head = "GET /v0/cluster/peer HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n";
        format!("{head}{headers}\r\n\r\n")
    };
    let nodes = "http://127.0.0.1:1,http://127.0.0.1:2";
    let peer = |more: &str| {
        let from = "Pellucid-From: http://127.0.0.1:1\r\nPellucid-To: http://127.0.0.1:2";
        let protocol = "Upgrade: pellucid-peer/3";
        hello(&format!("{protocol}\r\n{from}\r\nPellucid-Nodes: {nodes}{more}"))
    };
    let key = |digit: &str| format!("\r\nPellucid-Key: {}", digit.repeat(64));
    let list = format!("\r\nPellucid-Nodes: {}", "a".repeat(10_000));
    vec![
        ("without a word", hello("X: y")),
        ("of an old protocol", hello("Upgrade: pellucid-peer/1")),
        ("of a protocol of its own", hello("Upgrade: anything/9")),
        ("without a key", peer("")),
        ("with a key of zeroes", peer(&key("0"))),
        ("with a key of his own", peer(&key("9"))),
        ("with a key of noise", peer(&key("zz"))),
        ("as a guest", hello("Upgrade: pellucid-peer/3\r\nPellucid-From: guest")),
        ("with a list of 10,000 bytes", hello(&format!("Upgrade: pellucid-peer/3{list}"))),
    ]
}

pub(crate) fn attacks() -> Vec<Attack> {
    let strangers = greetings().into_iter().map(|(name, request)| {
        Attack::new(format!("cluster: a stranger {name}"), move |arena| {
            let mut socket = connect(arena.node.address);
            socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
            send(&mut socket, request.as_bytes());
            let mut answer = vec![0; 16_384];
            let count = std::io::Read::read(&mut socket, &mut answer).unwrap_or(0);
            let text = String::from_utf8_lossy(&answer[..count]).into_owned();
            let status = statuses(&answer[..count]).first().copied().unwrap_or(0);
            // A node may offer its challenge; what follows has to prove the secret.
            send(&mut socket, &[0xff; 4_096]);
            assert!(status != 200, "{name}: {text}");
            let nodes = arena.node.address.to_string();
            assert!(!text.contains(&nodes), "{name}: a stranger is told the nodes: {text}");
        })
    });
    let flood = Attack::new("cluster: strangers by the hundred", |arena| {
        let request = &greetings()[5].1;
        let stranger = |_| {
            let mut socket = connect(arena.node.address);
            send(&mut socket, request.as_bytes());
            socket
        };
        let mut strangers: Vec<_> = (0..300).map(stranger).collect();
        for key in ["a", "b", "c", "d", "e", "f"] {
            let target = crate::common::entity(key);
            assert_eq!(arena.node.client().put(&target, "x").status, 201, "the nodes are peers");
        }
        for socket in &mut strangers {
            until_closed(socket);
        }
    });
    strangers.chain([flood]).collect()
}
