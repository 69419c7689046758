//! The settings of `pellucid serve`. A flag takes precedence over the environment, the environment
//! over a configuration file, and that over the default.
//!
//! A setting is a field of [`Settings`]. The module `options` takes its default from the server and
//! applies its value. Names, help, sources and printing are derived from the field.

mod arguments;
mod engine;
mod logging;
mod options;
mod print;
mod sources;
mod values;

use std::path::PathBuf;

use clap::Args;
use pellucid_server::ListenAddress;
use serde::{Deserialize, Serialize};

pub(crate) use crate::settings::arguments::{ServeArguments, Task};
#[cfg(feature = "cql")]
pub(crate) use crate::settings::engine::RingAccess;
#[cfg(not(feature = "cql"))]
pub(crate) use crate::settings::engine::WITHOUT_RINGS;
#[cfg(not(feature = "rocksdb"))]
pub(crate) use crate::settings::engine::WITHOUT_ROCKSDB;
pub(crate) use crate::settings::options::read_secret_bytes;
pub(crate) use crate::settings::sources::default_folder;
pub(crate) use crate::settings::values::{AccountingKind, EngineKind, Size};
use crate::settings::values::{
    AuthenticationKind, HandOverKind, LogFormat, LogLevel, SocketMode, Sync, TimeSpan,
    read_addresses, read_folder, write_addresses,
};

/// The settings from one source. A setting that is `None` is taken from the next source.
#[derive(Args, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    /// The folder of the store; with another engine than the embedded one, of the server's own
    /// files [default: pellucid in $XDG_DATA_HOME or ~/.local/share]; it is made if there is none.
    #[arg(long, env = "PELLUCID_DATA")]
    #[serde(default, deserialize_with = "read_folder")]
    data: Option<PathBuf>,
    /// Addresses to listen on [default: 127.0.0.1:8080], separated by commas or in several flags
    /// (in a file: a list): ADDRESS:PORT, where port 0 takes any that is free, or unix:PATH for a
    /// Unix socket, which programs of this machine alone can reach.
    #[arg(long, env = "PELLUCID_LISTEN", value_name = "ADDRESS", value_delimiter = ',')]
    #[serde(default, deserialize_with = "read_addresses", serialize_with = "write_addresses")]
    listen: Option<Vec<ListenAddress>>,
    /// Mode of the file of a Unix socket, in octal [default: 0600]: those who may write to it can
    /// connect.
    #[arg(long, env = "PELLUCID_SOCKET_MODE", value_name = "MODE")]
    socket_mode: Option<SocketMode>,
    /// Chain of certificates in PEM, the server's own first; with --tls-key it turns on TLS, but
    /// for Unix sockets. Files that change are read again, at SIGHUP at once.
    #[arg(long, env = "PELLUCID_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// Private key of the server's certificate, in PEM.
    #[arg(long, env = "PELLUCID_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// Condition under which requests need credentials [default: auto]: with auto as soon as there
    /// is an account, with on always, with off never.
    #[arg(long, env = "PELLUCID_AUTHENTICATION")]
    authentication: Option<AuthenticationKind>,
    /// A file with the secret that web tokens are signed with [default: one that the store keeps].
    #[arg(long, env = "PELLUCID_JWT_SECRET_FILE")]
    jwt_secret_file: Option<PathBuf>,
    /// Listen beyond this machine without TLS: anyone on the network path can read passwords and
    /// data.
    #[arg(long, env = "PELLUCID_INSECURE_NO_TLS", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    insecure_no_tls: Option<bool>,
    /// Listen beyond this machine without accounts: anyone who can connect may do everything.
    #[arg(long, env = "PELLUCID_INSECURE_NO_ACCOUNTS", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    insecure_no_accounts: Option<bool>,
    /// Host names that clients of a server without accounts may use, separated by commas, besides
    /// addresses, this machine's name, and names that public DNS cannot have.
    #[arg(long, env = "PELLUCID_ALLOWED_HOSTS")]
    allowed_hosts: Option<String>,
    /// Origins of other sites whose pages may send requests, with their schemes, separated by
    /// commas. A browser's requests for pages of other sites are refused.
    #[arg(long, env = "PELLUCID_ALLOWED_ORIGINS")]
    allowed_origins: Option<String>,
    /// All nodes of the sharded cluster that this is a part of, this one among them:
    /// http://host:port, separated by commas. Every key belongs to one of them, and any of them
    /// takes any request.
    #[arg(long, env = "PELLUCID_CLUSTER")]
    cluster: Option<String>,
    /// This node's URL, as the list of the cluster has it.
    #[arg(long, env = "PELLUCID_ADVERTISE")]
    advertise: Option<String>,
    /// A file with the secret by which the nodes of the cluster authenticate each other.
    #[arg(long, env = "PELLUCID_CLUSTER_SECRET_FILE")]
    cluster_secret_file: Option<PathBuf>,
    /// Time after which a request that waits for the node of its key gets a 504 [default: 1s].
    #[arg(long, env = "PELLUCID_CLUSTER_WAIT")]
    cluster_wait: Option<TimeSpan>,
    /// Time of silence after which a node counts as dead [default: 1s].
    #[arg(long, env = "PELLUCID_CLUSTER_SILENCE")]
    cluster_silence: Option<TimeSpan>,
    /// Most requests that an event loop has under way with one other node [default: 1024]; beyond
    /// it: 503.
    #[arg(long, env = "PELLUCID_CLUSTER_IN_FLIGHT_MAX")]
    cluster_in_flight_max: Option<usize>,
    /// The store below [default: embedded]: the engine of this process, RocksDB in its place, or a
    /// ring of Cassandra or ScyllaDB nodes (docs/stores.md).
    #[arg(long, env = "PELLUCID_ENGINE")]
    engine: Option<EngineKind>,
    /// Nodes of the ring to begin with, as HOST:PORT,HOST:PORT; the others are learnt from them.
    #[arg(long, env = "PELLUCID_CQL")]
    cql: Option<String>,
    /// The keyspace in the ring; it is made if there is none [default: pellucid].
    #[arg(long, env = "PELLUCID_CQL_KEYSPACE")]
    cql_keyspace: Option<String>,
    /// Copies of each entry in a keyspace that is made [default: 3, or the number of nodes].
    #[arg(long, env = "PELLUCID_CQL_REPLICATION")]
    cql_replication: Option<u32>,
    /// The user of the ring, if it asks for one; with --cql-password-file.
    #[arg(long, env = "PELLUCID_CQL_USER")]
    cql_user: Option<String>,
    /// A file with the password for the ring.
    #[arg(long, env = "PELLUCID_CQL_PASSWORD_FILE")]
    cql_password_file: Option<PathBuf>,
    /// A file with the certificates of the ring's authorities (PEM): connections to it are then in
    /// TLS.
    #[arg(long, env = "PELLUCID_CQL_TLS_CA")]
    cql_tls_ca: Option<PathBuf>,
    /// The name in the certificates of all nodes of the ring [default: each has the address by
    /// which its node is reached].
    #[arg(long, env = "PELLUCID_CQL_TLS_NAME")]
    cql_tls_name: Option<String>,
    /// Partitions over which a new table's keys are spread; a range asks all of them [default: 64].
    #[arg(long, env = "PELLUCID_CQL_BUCKETS")]
    cql_buckets: Option<u16>,
    /// The longest wait for an answer of the ring [default: 10s, at most 11s].
    #[arg(long, env = "PELLUCID_CQL_TIMEOUT")]
    cql_timeout: Option<TimeSpan>,
    /// The share of requests that the ring traces, for the account [default: 0.001].
    #[arg(long, env = "PELLUCID_CQL_TRACE_SHARE")]
    cql_trace_share: Option<f64>,
    /// Failure that an acknowledged write survives [default: os]: with memory none is promised
    /// (today the same as os), with os the end of the process, with disk a loss of power.
    #[arg(long, env = "PELLUCID_SYNC")]
    sync: Option<Sync>,
    /// Event loops [default: one per core].
    #[arg(long, env = "PELLUCID_THREADS")]
    threads: Option<usize>,
    /// Detail of the account of requests [default: full]; --otlp and the log of slow requests need
    /// full.
    #[arg(long, env = "PELLUCID_ACCOUNTING")]
    accounting: Option<AccountingKind>,
    /// Memory of the store without the page cache [default: 128M]: memtables, indexes and
    /// directories of tables, flushes and merges. More makes reads of large stores faster.
    #[arg(long, env = "PELLUCID_MEMORY")]
    memory: Option<Size>,
    /// Bytes of the newest journal segments that are kept for readers of `/v0/changes` that are
    /// away for a while [default: 64M]; the disk holds as much more.
    #[arg(long, env = "PELLUCID_KEEP_CHANGES")]
    keep_changes: Option<Size>,
    /// Dead share of a journal segment from which on it is collected [default: 0.55], from 0.1 to
    /// 0.6: a smaller one takes less space and writes more.
    #[arg(long, env = "PELLUCID_DEAD_SHARE")]
    dead_share: Option<f64>,
    /// Largest value [default: 64M].
    #[arg(long, env = "PELLUCID_VALUE_MAX")]
    value_max: Option<Size>,
    /// Largest batch [default: 64M].
    #[arg(long, env = "PELLUCID_BATCH_MAX")]
    batch_max: Option<Size>,
    /// Largest head of a request: request line and headers [default: 16K].
    #[arg(long, env = "PELLUCID_HEAD_MAX")]
    head_max: Option<Size>,
    /// Most lines of headers of a request, up to 128 [default: 64].
    #[arg(long, env = "PELLUCID_HEADERS_MAX")]
    headers_max: Option<usize>,
    /// Smallest body that is compressed for clients that ask for it [default: 4K; 0 for none].
    #[arg(long, env = "PELLUCID_COMPRESS_FROM")]
    compress_from: Option<Size>,
    /// Smallest answer of the document API that is compressed for clients that offer it, as some
    /// drivers always do [default: 0, for none].
    #[arg(long, env = "PELLUCID_COMPRESS_DOCUMENTS_FROM")]
    compress_documents_from: Option<Size>,
    /// Longest time of a query, even if it asks for more [default: 3600s; 0s for no limit]. The
    /// time between two batches of a streamed result does not count.
    #[arg(long, env = "PELLUCID_QUERY_RUNTIME_MAX")]
    query_runtime_max: Option<TimeSpan>,
    /// Most memory of a query, even if it asks for more with `memoryLimit` [default: 512M].
    #[arg(long, env = "PELLUCID_QUERY_MEMORY_MAX")]
    query_memory_max: Option<Size>,
    /// Memory of all requests together: bodies, queries, results that wait to be read, answers on
    /// their way [default: half of the machine's or the control group's, or a quarter of a limited
    /// address space].
    #[arg(long, env = "PELLUCID_REQUEST_MEMORY")]
    request_memory: Option<Size>,
    /// Most calls of the document API that wait for a worker [default: 4096]; beyond it: 503/21003.
    #[arg(long, env = "PELLUCID_QUEUED_CALLS_MAX")]
    queued_calls_max: Option<usize>,
    /// The version of ArangoDB that drivers are told [default: 3.12.10].
    #[arg(long, env = "PELLUCID_ARANGODB_VERSION")]
    arangodb_version: Option<String>,
    /// Most connections at a time [default: 16384].
    #[arg(long, env = "PELLUCID_CONNECTIONS_MAX")]
    connections_max: Option<usize>,
    /// Most connections at a time from one address, or one network of 64 bits in IPv6
    /// [default: a quarter of connections-max].
    #[arg(long, env = "PELLUCID_CONNECTIONS_PER_ADDRESS_MAX")]
    connections_per_address_max: Option<usize>,
    /// Most connections at a time from one loopback address, where a proxy of this machine
    /// connects from, and from all Unix sockets together [default: connections-max].
    #[arg(long, env = "PELLUCID_CONNECTIONS_OF_LOOPBACK_MAX")]
    connections_of_loopback_max: Option<usize>,
    /// Most requests that wait for the store or are streamed at a time [default: 8192].
    #[arg(long, env = "PELLUCID_REQUESTS_IN_FLIGHT_MAX")]
    requests_in_flight_max: Option<usize>,
    /// Most bytes of request bodies at a time, over all connections [default: 1216M, or the largest
    /// request if that is more].
    #[arg(long, env = "PELLUCID_BODIES_MAX")]
    bodies_max: Option<Size>,
    /// Time after which a connection with nothing to do is closed [default: 300s].
    #[arg(long, env = "PELLUCID_IDLE_TIMEOUT")]
    idle_timeout: Option<TimeSpan>,
    /// Longest time of a client to send a request or to receive a response [default: 30s].
    #[arg(long, env = "PELLUCID_EXCHANGE_TIMEOUT")]
    exchange_timeout: Option<TimeSpan>,
    /// Requests that leave their event loop for another thread [default: auto]: with auto those
    /// that would wait for the disk, with always all, with never none.
    #[arg(long, env = "PELLUCID_HAND_OVER")]
    hand_over: Option<HandOverKind>,
    /// Least level of what is logged [default: info].
    #[arg(long, env = "PELLUCID_LOG_LEVEL")]
    log_level: Option<LogLevel>,
    /// Form of the log on standard error [default: text].
    #[arg(long, env = "PELLUCID_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// Requests that take longer get a line in the log, with --accounting full [default: 1s; 0s for
    /// none].
    #[arg(long, env = "PELLUCID_SLOW_REQUEST")]
    slow_request: Option<TimeSpan>,
    /// Show keys in the log's lines of slow requests and in /_admin/slow, at most their first 128
    /// bytes; otherwise hashes stand there [default: false].
    #[arg(long, env = "PELLUCID_SHOW_KEYS", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    show_keys: Option<bool>,
    /// Base URL of the collector that gets the spans of traced requests (OTLP over HTTP), with
    /// --accounting full [default: none, and no spans are sent].
    #[arg(long, env = "PELLUCID_OTLP")]
    otlp: Option<String>,
    /// A header for the collector, as `name: value`; it is not shown where settings are.
    #[arg(long, env = "PELLUCID_OTLP_HEADER", hide_env_values = true)]
    otlp_header: Option<String>,
    /// The share of requests that are traced though their clients do not trace them [default: 0.0].
    #[arg(long, env = "PELLUCID_TRACE_SHARE")]
    trace_share: Option<f64>,
    /// Samples per second of the processor time of each busy thread, for profiles; 0 for none
    /// [default: 19].
    #[arg(long, env = "PELLUCID_PROFILE_HERTZ")]
    profile_hertz: Option<u32>,
    /// Bytes between two sampled allocations, on average; 0 for no samples [default: 512K].
    #[arg(long, env = "PELLUCID_PROFILE_BYTES")]
    profile_bytes: Option<Size>,
    /// Interval at which the engine's figures are logged, as lines of JSON; 0s for never [default:
    /// 0s; 30s with --log-format json].
    #[arg(long, env = "PELLUCID_ENGINE_LOG")]
    engine_log: Option<TimeSpan>,
    /// Longest time that a stop waits for requests in flight [default: 10s].
    #[arg(long, env = "PELLUCID_STOP_TIMEOUT")]
    stop_timeout: Option<TimeSpan>,
}
