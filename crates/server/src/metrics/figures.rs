//! The figures that the page of metrics shows.

use pellucid_account::{Activity, InterferenceView, SlowOperation, Snapshot};
use pellucid_budget::Budget;
use pellucid_cluster::PeerView;
use pellucid_embedded::EngineStats;
use pellucid_http::ServerStats;

use crate::documents::CursorFigures;
use crate::process::ProcessFigures;

/// All values that one page of metrics shows.
pub(crate) struct Figures {
    pub(crate) snapshot: Snapshot,
    pub(crate) transport: ServerStats,
    pub(crate) store: Vec<(&'static str, u64)>,
    pub(crate) engine: Option<EngineStats>,
    pub(crate) cursors: CursorFigures,
    /// The budget of the memory of all requests together.
    pub(crate) memory: Budget,
    pub(crate) process: ProcessFigures,
    /// The numbers of slow requests, of exported traced requests, and of lost traced requests.
    pub(crate) followed: [u64; 3],
    /// The slow requests of each operation, as counts only.
    pub(crate) slow: Vec<SlowOperation>,
    /// The interference since the start, and in the last ten minutes.
    pub(crate) interference: [Vec<InterferenceView>; 2],
    pub(crate) activity: Activity,
    /// The other nodes of the cluster, with their URLs; empty without a cluster.
    pub(crate) peers: Vec<(String, PeerView)>,
    pub(crate) outcomes: &'static [&'static str],
    pub(crate) version: &'static str,
}
