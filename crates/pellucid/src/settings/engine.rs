//! Settings of the store that a server runs on. A build without a kind of store still accepts its
//! settings, so that a configuration file is valid for every build; using them is an error that
//! names the missing feature.

#[cfg(feature = "cql")]
use std::io;
#[cfg(feature = "cql")]
use std::path::{Path, PathBuf};

#[cfg(feature = "rocksdb")]
use pellucid_server::RocksOptions;
use pellucid_server::StoreKind;
#[cfg(feature = "cql")]
use pellucid_server::{CqlOptions, CqlPassword, CqlTls, STORE_TIMEOUT_MAX};

use crate::Failure;
#[cfg(feature = "cql")]
use crate::remote_server::read_small;
use crate::settings::Settings;
use crate::settings::values::EngineKind;
#[cfg(any(feature = "cql", feature = "rocksdb"))]
use crate::settings::values::Size;
#[cfg(feature = "cql")]
use crate::settings::values::TimeSpan;

/// The largest file with the password of a ring, in bytes.
#[cfg(feature = "cql")]
const PASSWORD_BYTES_MAX: u64 = 4 << 10;
/// The largest file with the certificates of a ring's authorities, in bytes.
#[cfg(feature = "cql")]
const AUTHORITIES_BYTES_MAX: u64 = 16 << 20;

/// The message if a ring is used in a build without the feature `cql`.
#[cfg(not(feature = "cql"))]
pub(crate) const WITHOUT_RINGS: &str = "this pellucid was built without rings of Cassandra or \
    ScyllaDB: build it with its feature `cql`, which is on by default";
/// The message if RocksDB is used in a build without the feature `rocksdb`.
#[cfg(not(feature = "rocksdb"))]
pub(crate) const WITHOUT_ROCKSDB: &str = "this pellucid was built without RocksDB: build it with \
    its feature `rocksdb`, and ROCKSDB_LIB_DIR set to the folder of the system's library";

impl Settings {
    /// The defaults of the settings of stores other than the embedded one.
    #[cfg(feature = "cql")]
    pub(crate) fn engine_defaults() -> Settings {
        let ring = CqlOptions::new(Vec::new());
        Settings {
            cql_keyspace: Some(ring.keyspace),
            cql_buckets: Some(ring.buckets),
            cql_timeout: Some(TimeSpan(ring.timeout)),
            cql_trace_share: Some(ring.trace_share),
            ..Settings::default()
        }
    }

    /// This build has no such store, so there are no defaults.
    #[cfg(not(feature = "cql"))]
    pub(crate) fn engine_defaults() -> Settings {
        Settings::default()
    }

    /// The kind of store in these settings, with its options.
    pub(crate) fn store(&self) -> Result<StoreKind, Failure> {
        match self.engine.unwrap_or(EngineKind::Embedded) {
            EngineKind::Cql => self.ring(),
            _ if self.cql.is_some() => Err(Failure::usage("--cql goes with --engine cql")),
            EngineKind::Embedded => Ok(StoreKind::Embedded),
            EngineKind::Rocksdb => self.rocks(),
        }
    }

    #[cfg(not(feature = "rocksdb"))]
    fn rocks(&self) -> Result<StoreKind, Failure> {
        Err(Failure::usage(WITHOUT_ROCKSDB))
    }

    #[cfg(feature = "rocksdb")]
    fn rocks(&self) -> Result<StoreKind, Failure> {
        let mut options = RocksOptions::default();
        let bytes = |Size(bytes): Size| usize::try_from(bytes).unwrap_or(usize::MAX);
        options.memory_bytes = self.memory.map_or(options.memory_bytes, bytes);
        options.value_bytes_max = self.value_max.map_or(options.value_bytes_max, bytes);
        Ok(StoreKind::Rocks(options))
    }

    #[cfg(not(feature = "cql"))]
    fn ring(&self) -> Result<StoreKind, Failure> {
        Err(Failure::usage(WITHOUT_RINGS))
    }

    #[cfg(feature = "cql")]
    fn ring(&self) -> Result<StoreKind, Failure> {
        let nodes = self.cql.as_deref().unwrap_or_default().split(',').map(str::trim);
        let nodes: Vec<_> = nodes.filter(|node| !node.is_empty()).map(str::to_owned).collect();
        if nodes.is_empty() {
            return Err(Failure::usage("say where the ring is: --cql HOST:PORT,HOST:PORT"));
        }
        if self.cluster.is_some() {
            let what = "--cluster is for nodes that keep their keys themselves: a ring's servers \
                        need no list, as each of them reaches every key";
            return Err(Failure::usage(what));
        }
        let mut ring = CqlOptions::new(nodes);
        if let Some(keyspace) = &self.cql_keyspace {
            ring.keyspace.clone_from(keyspace);
        }
        ring.replication = self.cql_replication;
        ring.buckets = self.cql_buckets.unwrap_or(ring.buckets);
        ring.timeout = self.cql_timeout.map_or(ring.timeout, |span| span.0);
        ring.trace_share = self.cql_trace_share.unwrap_or(ring.trace_share);
        if ring.timeout > STORE_TIMEOUT_MAX {
            let what = format!(
                "--cql-timeout is at most {}: a longer transaction could outlast the lease of the \
                 ring's documents",
                TimeSpan(STORE_TIMEOUT_MAX)
            );
            return Err(Failure::usage(what));
        }
        if ring.buckets == 0 || ring.replication == Some(0) {
            return Err(Failure::usage("--cql-buckets and --cql-replication are at least 1"));
        }
        if !(0.0..=1.0).contains(&ring.trace_share) {
            return Err(Failure::usage("--cql-trace-share lies between 0 and 1"));
        }
        if let Some(Size(bytes)) = self.value_max {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            ring.value_bytes_max = ring.value_bytes_max.min(bytes);
        }
        let access = RingAccess {
            cql_user: self.cql_user.clone(),
            cql_password_file: self.cql_password_file.clone(),
            cql_tls_ca: self.cql_tls_ca.clone(),
            cql_tls_name: self.cql_tls_name.clone(),
        };
        access.add_to(&mut ring)?;
        Ok(StoreKind::Cql(Box::new(ring)))
    }
}

/// The settings for access to a ring, which `serve` and `inspect copy` share.
#[cfg(feature = "cql")]
#[derive(clap::Args)]
pub(crate) struct RingAccess {
    /// The user of a ring, if it asks for one; with --cql-password-file.
    #[arg(long, env = "PELLUCID_CQL_USER")]
    cql_user: Option<String>,
    /// A file with the password for a ring.
    #[arg(long, env = "PELLUCID_CQL_PASSWORD_FILE")]
    cql_password_file: Option<PathBuf>,
    /// A file with the certificates of a ring's authorities (PEM): connections to it are then in
    /// TLS.
    #[arg(long, env = "PELLUCID_CQL_TLS_CA")]
    cql_tls_ca: Option<PathBuf>,
    /// The name in the certificates of all nodes of a ring [default: each has the address by which
    /// its node is reached].
    #[arg(long, env = "PELLUCID_CQL_TLS_NAME")]
    cql_tls_name: Option<String>,
}

#[cfg(feature = "cql")]
impl RingAccess {
    /// Reads the files of the settings, and adds login and TLS to the options.
    pub(crate) fn add_to(&self, ring: &mut CqlOptions) -> Result<(), Failure> {
        let unreadable = |what: &str, file: &Path, error: io::Error| {
            Failure::usage(format!("cannot read the {what} in {}: {error}", file.display()))
        };
        ring.login = match (&self.cql_user, &self.cql_password_file) {
            (None, None) => None,
            (Some(user), Some(file)) => {
                let password = read_small(file, PASSWORD_BYTES_MAX)
                    .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
                    .map_err(|error| unreadable("password", file, error))?;
                let password = password.trim_end_matches(['\r', '\n']).to_owned();
                Some((user.clone(), CqlPassword(password)))
            }
            _ => {
                let what = "--cql-user and --cql-password-file are given both or neither";
                return Err(Failure::usage(what));
            }
        };
        ring.tls = match (&self.cql_tls_ca, &self.cql_tls_name) {
            (None, None) => None,
            (Some(file), name) => {
                let authorities = read_small(file, AUTHORITIES_BYTES_MAX);
                let authorities_pem =
                    authorities.map_err(|error| unreadable("certificates", file, error))?;
                Some(CqlTls { authorities_pem, name: name.clone() })
            }
            (None, Some(_)) => {
                let what = "--cql-tls-name goes with --cql-tls-ca: say which authorities to trust";
                return Err(Failure::usage(what));
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a transaction of a ring with a long time limit could take effect after another
    /// server had taken over the documents.
    #[test]
    #[cfg(feature = "cql")]
    fn a_time_limit_that_outlasts_the_lease_is_refused() {
        let with = |seconds| Settings {
            engine: Some(EngineKind::Cql),
            cql: Some("127.0.0.1:9042".to_owned()),
            cql_timeout: Some(TimeSpan(std::time::Duration::from_secs(seconds))),
            ..Settings::default()
        };
        assert!(with(11).store().is_ok());
        let refused = with(12).store().err().unwrap();
        assert!(refused.text.contains("--cql-timeout is at most 11s"), "{refused:?}");
    }

    #[test]
    #[cfg(not(feature = "rocksdb"))]
    fn a_build_without_rocksdb_names_the_missing_feature() {
        let settings = Settings { engine: Some(EngineKind::Rocksdb), ..Settings::default() };
        let refused = settings.store().err().unwrap();
        assert!(refused.text.contains("`rocksdb`"), "{refused:?}");
    }

    #[test]
    #[cfg(not(feature = "cql"))]
    fn a_build_without_rings_names_the_missing_feature() {
        let settings = Settings { engine: Some(EngineKind::Cql), ..Settings::default() };
        let refused = settings.store().err().unwrap();
        assert!(refused.text.contains("`cql`"), "{refused:?}");
    }
}
