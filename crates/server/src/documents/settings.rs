//! Settings of the document API.

use std::sync::Arc;
use std::time::Duration;

use pellucid_aql::REPORTED_VERSION;

use super::pool::QUEUED_CALLS_MAX;

/// The longest time that a query may run, unless the operator says otherwise.
const QUERY_RUNTIME_MAX: Duration = Duration::from_secs(3_600);

/// Memory that a query may take, unless the operator says otherwise: 512 MiB.
const QUERY_MEMORY_MAX: usize = 512 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct DocumentSettings {
    /// Bytes from which on an answer is compressed for a client that offers it; zero for never.
    pub compressed_from_bytes: usize,
    /// The longest time that a query may run, and that of one that does not say; zero for no limit.
    pub query_runtime_max: Duration,
    /// Bytes of memory that a query may take that does not say, and at most; other calls that build
    /// an answer as well.
    pub query_memory_max: usize,
    /// Calls that may wait for a worker; beyond it: 503/21003.
    pub queued_calls_max: usize,
    /// The version of ArangoDB that drivers are told.
    pub reported_version: Arc<str>,
}

impl Default for DocumentSettings {
    fn default() -> DocumentSettings {
        DocumentSettings {
            // As ArangoDB has it.
            compressed_from_bytes: 0,
            query_runtime_max: QUERY_RUNTIME_MAX,
            query_memory_max: QUERY_MEMORY_MAX,
            queued_calls_max: QUEUED_CALLS_MAX,
            reported_version: REPORTED_VERSION.into(),
        }
    }
}
