//! The records that the server keeps of its own requests, for its pages, its log and its metrics.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use pellucid_account::Account;

use crate::documents::SlowQueries;
use crate::keys::Keys;
use crate::log::Log;
use crate::reporter::TraceRegistry;

/// The account, the slow and traced requests, and the log, shared by all threads of the server.
pub(crate) struct Observer {
    pub(crate) account: Account,
    pub(crate) keys: Arc<Keys>,
    pub(crate) traced: TraceRegistry,
    pub(crate) followed: ReportFigures,
    pub(crate) slow_queries: Arc<SlowQueries>,
    pub(crate) log: Log,
    pub(crate) version: &'static str,
}

impl Observer {
    /// The numbers of slow requests, of exported traced requests, and of lost traced requests.
    pub(crate) fn followed_figures(&self) -> [u64; 3] {
        let followed = &self.followed;
        let lost = followed.export_lost.load(Relaxed) + self.traced.forgotten();
        [followed.slow.load(Relaxed), followed.exported.load(Relaxed), lost]
    }
}

/// Counters of followed requests.
#[derive(Default)]
pub(crate) struct ReportFigures {
    /// Requests whose spans the collector has accepted.
    pub(crate) exported: AtomicU64,
    /// Requests whose spans were lost: the queue was full, or the collector did not accept them.
    pub(crate) export_lost: AtomicU64,
    /// Slow requests.
    pub(crate) slow: AtomicU64,
    /// Slow requests that found the queue full since the last line about requests left out.
    pub(crate) slow_dropped: AtomicU64,
}
