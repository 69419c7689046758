//! `GET /v0/cluster`: the nodes, the hash that assigns keys to them, and the state of the peers.

use pellucid_cluster::{Cluster, PeerFigures, PeerView};
use serde_json::{Value, json};

/// The name of the hash that assigns keys to owners (docs/cluster.md).
const HASH: &str = "rendezvous-xxh3-splitmix64";

/// A figure of a peer: its name, its description, and its value.
type Figure = (&'static str, &'static str, fn(&PeerFigures) -> u64);

/// The figures of a peer. A name is that of the member of `GET /v0/cluster`; the metric's name adds
/// `_total` to all but `in_flight`, the only gauge.
pub(crate) const PEER_FIGURES: [Figure; 12] = [
    ("asked", "Requests sent to the peer.", |f| f.asked),
    ("answered", "Answers of the peer that came in time.", |f| f.answered),
    ("unreachable", "Requests refused because the peer was not to be reached.", |f| f.unreachable),
    ("late", "Requests whose answer did not come in time.", |f| f.late),
    ("lost", "Requests under way when the connection broke.", |f| f.lost),
    ("refused", "Requests refused because too many were under way with the peer.", |f| f.refused),
    ("served", "Requests of the peer that were served here.", |f| f.served),
    ("connected", "Connections made to the peer.", |f| f.connected),
    ("broken", "Connections to the peer that broke.", |f| f.broken),
    ("sent_bytes", "Bytes sent to the peer.", |f| f.sent_bytes),
    ("received_bytes", "Bytes that came from the peer.", |f| f.received_bytes),
    ("in_flight", "Requests under way with the peer now.", |f| f.in_flight),
];

/// The URLs of the other nodes, with this node's view of each.
pub(crate) fn views(cluster: &Cluster) -> Vec<(String, PeerView)> {
    let nodes = cluster.nodes().nodes().iter().enumerate();
    let others = nodes.filter(|(index, _)| *index != cluster.own());
    others.map(|(index, url)| (url.to_string(), cluster.view(index))).collect()
}

/// The document of `GET /v0/cluster`; `cluster` is `None` if the server is no node of a cluster.
pub(crate) fn cluster_document(cluster: Option<&Cluster>) -> Value {
    let Some(cluster) = cluster else {
        return json!({ "sharded": false, "hash": HASH, "nodes": [] });
    };
    let nodes = cluster.nodes().nodes().iter().enumerate();
    let nodes: Vec<_> = nodes
        .map(|(index, url)| {
            if index == cluster.own() {
                return json!({ "url": url.as_str(), "state": "self" });
            }
            let PeerView { state, reason, figures } = cluster.view(index);
            let mut node = json!({
                "url": url.as_str(),
                "state": state.name(),
                "reason": reason,
                "round_trip_ns_total": figures.round_trip_total_ns,
            });
            for (name, _, figure) in PEER_FIGURES {
                node[name] = figure(&figures).into();
            }
            node
        })
        .collect();
    json!({
        "sharded": true,
        "node": cluster.url(cluster.own()).as_str(),
        "fingerprint": format!("{:016x}", cluster.fingerprint()),
        "hash": HASH,
        "wait_ms": cluster.wait().as_millis() as u64,
        "nodes": nodes,
    })
}
