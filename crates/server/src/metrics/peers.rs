//! Metrics of the other nodes of a cluster.

use std::fmt::Write;

use pellucid_cluster::{PeerState, PeerView};

use super::family::{family, kind_of};
use crate::cluster::PEER_FIGURES;

pub(super) fn write(page: &mut String, peers: &[(String, PeerView)]) {
    if peers.is_empty() {
        return;
    }
    let is_up = |view: &PeerView| u8::from(view.state == PeerState::Ready);
    family(page, "pellucid_peer_up", "gauge", "Whether all event loops have a connection to it.");
    for (url, view) in peers {
        let _ = writeln!(page, "pellucid_peer_up{{peer=\"{url}\"}} {}", is_up(view));
    }
    for (name, help, figure) in PEER_FIGURES {
        let suffix = if name == "in_flight" { "" } else { "_total" };
        let name = format!("pellucid_peer_{name}{suffix}");
        family(page, &name, kind_of(&name), help);
        for (url, view) in peers {
            let _ = writeln!(page, "{name}{{peer=\"{url}\"}} {}", figure(&view.figures));
        }
    }
    let name = "pellucid_peer_round_trip_seconds_total";
    family(page, name, "counter", "Time between requests sent to the peer and answers read.");
    for (url, view) in peers {
        let seconds = view.figures.round_trip_total_ns as f64 / 1e9;
        let _ = writeln!(page, "{name}{{peer=\"{url}\"}} {seconds}");
    }
}
