//! Settings of the document API.

use std::sync::Arc;
use std::time::Duration;

use pellucid_aql::REPORTED_VERSION;

use super::pool::QUEUED_CALLS_MAX;

/// The default of [`DocumentSettings::query_runtime_max`].
const QUERY_RUNTIME_MAX: Duration = Duration::from_secs(3_600);

/// The default of [`DocumentSettings::query_memory_max`]: 512 MiB.
const QUERY_MEMORY_MAX: usize = 512 << 20;

/// The settings of the document API.
#[derive(Clone, Debug)]
pub struct DocumentSettings {
    /// The least bytes of a reply that is compressed for a client that accepts it; zero for never.
    pub compressed_from_bytes: usize,
    /// The longest time that a query may run, which is also its default; zero for no limit.
    pub query_runtime_max: Duration,
    /// The most bytes of memory that a query may take, which is also its default. It applies to
    /// other calls that build a reply as well.
    pub query_memory_max: usize,
    /// The most calls that wait for a worker. Further calls get the status 503 and error 21003.
    pub queued_calls_max: usize,
    /// The version of ArangoDB that the server reports to drivers.
    pub reported_version: Arc<str>,
}

impl Default for DocumentSettings {
    fn default() -> DocumentSettings {
        DocumentSettings {
            // ArangoDB's default.
            compressed_from_bytes: 0,
            query_runtime_max: QUERY_RUNTIME_MAX,
            query_memory_max: QUERY_MEMORY_MAX,
            queued_calls_max: QUEUED_CALLS_MAX,
            reported_version: REPORTED_VERSION.into(),
        }
    }
}
