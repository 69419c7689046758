//! Metrics of the other nodes of a cluster.

use std::fmt::Write;

use pellucid_cluster::{PeerFigures, PeerState, PeerView};

use super::family::{family, kind_of};

/// A metric of a peer: its name, its description, and its value.
type Figure = (&'static str, &'static str, fn(&PeerFigures) -> u64);

const FIGURES: [Figure; 12] = [
    ("asked_total", "Requests sent to the peer.", |f| f.asked),
    ("answered_total", "Answers of the peer that came in time.", |f| f.answered),
    ("unreachable_total", "Requests refused because the peer was not to be reached.", |f| {
        f.unreachable
    }),
    ("late_total", "Requests whose answer did not come in time.", |f| f.late),
    ("lost_total", "Requests under way when the connection broke.", |f| f.lost),
    ("refused_total", "Requests refused because too many were under way with the peer.", |f| {
        f.refused
    }),
    ("served_total", "Requests of the peer that were served here.", |f| f.served),
    ("connected_total", "Connections made to the peer.", |f| f.connected),
    ("broken_total", "Connections to the peer that broke.", |f| f.broken),
    ("sent_bytes_total", "Bytes sent to the peer.", |f| f.sent_bytes),
    ("received_bytes_total", "Bytes that came from the peer.", |f| f.received_bytes),
    ("in_flight", "Requests under way with the peer now.", |f| f.in_flight),
];

pub(super) fn write(page: &mut String, peers: &[(String, PeerView)]) {
    if peers.is_empty() {
        return;
    }
    let is_up = |view: &PeerView| u8::from(view.state == PeerState::Ready);
    family(page, "pellucid_peer_up", "gauge", "Whether all event loops have a connection to it.");
    for (url, view) in peers {
        let _ = writeln!(page, "pellucid_peer_up{{peer=\"{url}\"}} {}", is_up(view));
    }
    for (name, help, figure) in FIGURES {
        family(page, &format!("pellucid_peer_{name}"), kind_of(name), help);
        for (url, view) in peers {
            let value = figure(&view.figures);
            let _ = writeln!(page, "pellucid_peer_{name}{{peer=\"{url}\"}} {value}");
        }
    }
    let name = "pellucid_peer_round_trip_seconds_total";
    family(page, name, "counter", "Time between requests sent to the peer and answers read.");
    for (url, view) in peers {
        let seconds = view.figures.round_trip_total_ns as f64 / 1e9;
        let _ = writeln!(page, "{name}{{peer=\"{url}\"}} {seconds}");
    }
}
