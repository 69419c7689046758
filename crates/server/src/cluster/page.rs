//! `GET /v0/cluster`: who is in the cluster, where keys belong, and how it stands with the peers.

use pellucid_cluster::{Cluster, PeerView};
use pellucid_http::{Handled, Response};
use serde_json::{Value, json};

use crate::service::{Api, Loop, begin_answer};

/// The name of the rule by which keys find their owners (docs/cluster.md).
const HASH: &str = "rendezvous-xxh3-splitmix64";

/// The other nodes.
pub(crate) fn views(cluster: &Cluster) -> Vec<(String, PeerView)> {
    let nodes = cluster.nodes().nodes().iter().enumerate();
    let others = nodes.filter(|(index, _)| *index != cluster.own());
    others.map(|(index, url)| (url.to_string(), cluster.view(index))).collect()
}

impl Api {
    pub(crate) fn cluster_page(
        &self,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let body = match self.shared.cluster.as_deref() {
            None => json!({ "sharded": false, "hash": HASH, "nodes": [] }),
            Some(cluster) => document(cluster),
        };
        begin_answer(response, exchange, 200, &[("Content-Type", b"application/json")]);
        response.finish(body.to_string().as_bytes());
        Handled::Done
    }
}

fn document(cluster: &Cluster) -> Value {
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
                "round_trip_ns_total": figures.round_trip_ns,
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
