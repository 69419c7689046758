//! The settings of the store.

use std::fmt;
use std::time::Duration;

/// Settings of the store over Cassandra or ScyllaDB.
#[derive(Clone, Debug)]
pub struct CqlOptions {
    /// The nodes to contact first, as `HOST:PORT`; the driver learns of the others from them.
    pub nodes: Vec<String>,
    /// The keyspace; it is created if it does not exist.
    pub keyspace: String,
    /// Number of copies of each entry if the keyspace is created. `None` means three, or the number
    /// of nodes if there are fewer. An existing keyspace keeps its own number.
    pub replication: Option<u32>,
    /// The name and the password of the user, if the ring requires them.
    pub login: Option<(String, Password)>,
    /// The settings of TLS; `None` for connections without TLS.
    pub tls: Option<CqlTls>,
    /// Number of partitions of a table without parts, when the table is created. A range reads all
    /// of them.
    pub buckets: u16,
    /// Number of threads that talk to the ring.
    pub threads: usize,
    /// Limit of the requests in flight. Further ones fail with
    /// [`pellucid_store::StoreError::Busy`].
    pub in_flight_max: usize,
    /// The longest wait for an answer of the ring.
    pub timeout: Duration,
    /// The share of requests that the ring traces, from 0 to 1.
    pub trace_share: f64,
    /// Limit of a value in bytes.
    pub value_bytes_max: usize,
}

impl CqlOptions {
    /// The default settings, for the ring of these nodes.
    #[must_use]
    pub fn new(nodes: Vec<String>) -> CqlOptions {
        CqlOptions {
            nodes,
            keyspace: "pellucid".to_owned(),
            replication: None,
            login: None,
            tls: None,
            buckets: 64,
            threads: 2,
            in_flight_max: 2_048,
            timeout: Duration::from_secs(10),
            trace_share: 0.001,
            value_bytes_max: 8 << 20,
        }
    }
}

/// The settings of TLS connections to the ring.
#[derive(Clone, Debug)]
pub struct CqlTls {
    /// The certificates of the authorities that have issued the nodes' certificates, in PEM.
    pub authorities_pem: Vec<u8>,
    /// The name in the certificates of all nodes. `None` if each certificate has the address or
    /// name that its node is connected by.
    pub name: Option<String>,
}

/// A password; its debug output hides it.
#[derive(Clone)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
