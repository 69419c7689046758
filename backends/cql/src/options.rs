//! The settings of the store.

use std::fmt;
use std::time::Duration;

/// Settings of the store over a ring.
#[derive(Clone, Debug)]
pub struct CqlOptions {
    /// Nodes to begin with, as `HOST:PORT`; the others are learnt from them.
    pub nodes: Vec<String>,
    /// The keyspace; it is made if there is none.
    pub keyspace: String,
    /// Copies of each entry in a keyspace that is made. Nothing for three, or as many as there are
    /// nodes. A keyspace that is there keeps its own.
    pub replication: Option<u32>,
    /// The user's name and password, if the ring asks for them.
    pub login: Option<(String, Password)>,
    /// The TLS of connections; nothing for plain ones.
    pub tls: Option<CqlTls>,
    /// Partitions of a table without parts, when it is made. A range asks all of them.
    pub buckets: u16,
    /// Threads that talk to the ring.
    pub threads: usize,
    /// Requests at a time. Beyond it: [`pellucid_store::StoreError::Busy`].
    pub in_flight_max: usize,
    /// The longest wait for an answer of the ring.
    pub timeout: Duration,
    /// The share of requests of which the ring tells where their time went.
    pub trace_share: f64,
    /// Bytes that a value may have.
    pub value_bytes_max: usize,
}

impl CqlOptions {
    /// The defaults, for the ring that these nodes belong to.
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

/// Connections to the ring in TLS.
#[derive(Clone, Debug)]
pub struct CqlTls {
    /// The certificates of authorities that the nodes' certificates come from, in PEM.
    pub authorities_pem: Vec<u8>,
    /// The name that the certificates of all nodes have. Nothing if each has the address, or the
    /// name, by which its node is reached.
    pub name: Option<String>,
}

/// A password, which is not shown.
#[derive(Clone)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
