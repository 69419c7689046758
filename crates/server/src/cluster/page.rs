//! `GET /v0/cluster`: the nodes, the hash that assigns keys to them, and the state of the peers.

use pellucid_cluster::{Cluster, PeerView};
use serde_json::{Value, json};

/// The name of the hash that assigns keys to owners (docs/cluster.md).
const HASH: &str = "rendezvous-xxh3-splitmix64";

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
            let view = cluster.view(index);
            let figures = view.figures;
            json!({
                "url": url.as_str(),
                "state": view.state.name(),
                "reason": view.reason,
                "in_flight": figures.in_flight,
                "asked": figures.asked,
                "answered": figures.answered,
                "unreachable": figures.unreachable,
                "late": figures.late,
                "lost": figures.lost,
                "refused": figures.refused,
                "served": figures.served,
                "connected": figures.connected,
                "broken": figures.broken,
                "sent_bytes": figures.sent_bytes,
                "received_bytes": figures.received_bytes,
                "round_trip_ns_total": figures.round_trip_total_ns,
            })
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
