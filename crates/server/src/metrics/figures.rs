//! The figures that the page of metrics shows.

use pellucid_account::{Activity, InterferenceView, SlowOperation, Snapshot};
use pellucid_budget::Budget;
use pellucid_cluster::PeerView;
use pellucid_embedded::EngineStats;
use pellucid_http::ServerStats;

use crate::documents::CursorFigures;
use crate::process::ProcessFigures;

/// See the module.
pub(crate) struct Figures {
    pub(crate) snapshot: Snapshot,
    pub(crate) transport: ServerStats,
    pub(crate) store: Vec<(&'static str, u64)>,
    pub(crate) engine: Option<EngineStats>,
    pub(crate) cursors: CursorFigures,
    /// The memory of all requests together.
    pub(crate) memory: Budget,
    pub(crate) process: ProcessFigures,
    /// Slow requests, and of traced ones those exported and those lost.
    pub(crate) followed: [u64; 3],
    /// By operation, without single requests.
    pub(crate) slow: Vec<SlowOperation>,
    /// Since the start, and of the last ten minutes.
    pub(crate) interference: [Vec<InterferenceView>; 2],
    pub(crate) activity: Activity,
    /// Of a cluster, the other nodes.
    pub(crate) peers: Vec<(String, PeerView)>,
    pub(crate) outcomes: &'static [&'static str],
    pub(crate) version: &'static str,
}
