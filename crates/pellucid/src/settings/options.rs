//! Converts settings to the server's options, and the server's defaults to settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pellucid_engine::DEAD_SHARES;
use pellucid_server::access::Secret;
use pellucid_server::{
    Accounting, CLUSTER_IN_FLIGHT_DEFAULT as IN_FLIGHT_DEFAULT,
    CLUSTER_WAIT_DEFAULT as WAIT_DEFAULT, ClusterOptions, Exposure, HEADERS_MAX, NodeList, NodeUrl,
    ServerOptions, TlsFiles, TopologyError, TraceCollector,
};

use crate::Failure;
use crate::remote_server::read_small;
use crate::settings::Settings;
use crate::settings::values::{
    AccountingKind, AuthenticationKind, EngineKind, HandOverKind, LogFormat, LogLevel, Size,
    SocketMode, Sync, TimeSpan,
};

/// The allowed lengths of a secret in bytes. A shorter secret is too easy to guess.
const SECRET_LENGTHS: std::ops::RangeInclusive<usize> = 16..=4_096;

/// The largest file with a secret, white space around it included, in bytes.
const SECRET_FILE_BYTES_MAX: u64 = 2 * *SECRET_LENGTHS.end() as u64;

/// The default interval at which the engine's figures are logged if the log is JSON.
const ENGINE_LOG_COLLECTED: Duration = Duration::from_secs(30);

impl Settings {
    /// The server's defaults. A setting that is `None` here has no default.
    pub(crate) fn defaults() -> Settings {
        let options = ServerOptions::new(PathBuf::new());
        let limits = options.limits;
        let size = |bytes: usize| Some(Size(bytes as u64));
        Settings {
            listen: Some(options.listen),
            socket_mode: Some(SocketMode(options.socket_mode)),
            authentication: Some(AuthenticationKind::Auto),
            insecure_no_tls: Some(false),
            insecure_no_accounts: Some(false),
            cluster_wait: Some(TimeSpan(WAIT_DEFAULT)),
            cluster_silence: Some(TimeSpan(WAIT_DEFAULT)),
            cluster_in_flight_max: Some(IN_FLIGHT_DEFAULT),
            engine: Some(EngineKind::Embedded),
            sync: Some(Sync::Os),
            accounting: Some(AccountingKind::Full),
            memory: Some(Size(options.embedded.memory_bytes)),
            keep_changes: Some(Size(options.embedded.kept_changes_bytes)),
            dead_share: Some(options.embedded.dead_share),
            value_max: size(options.embedded.value_bytes_max),
            batch_max: size(options.batch_bytes_max),
            head_max: size(limits.head_bytes),
            headers_max: Some(limits.headers),
            compress_from: size(limits.compressed_from_bytes),
            compress_documents_from: size(options.documents.compressed_from_bytes),
            query_runtime_max: Some(TimeSpan(options.documents.query_runtime_max)),
            query_memory_max: size(options.documents.query_memory_max),
            queued_calls_max: Some(options.documents.queued_calls_max),
            arangodb_version: Some(options.documents.reported_version.to_string()),
            connections_max: Some(limits.connections),
            requests_in_flight_max: Some(limits.requests_in_flight),
            idle_timeout: Some(TimeSpan(limits.idle)),
            exchange_timeout: Some(TimeSpan(limits.exchange)),
            hand_over: Some(HandOverKind::Auto),
            log_level: Some(LogLevel::Info),
            log_format: Some(LogFormat::Text),
            slow_request: Some(TimeSpan(options.slow_request)),
            show_keys: Some(options.show_keys),
            trace_share: Some(options.trace_share),
            profile_hertz: Some(options.profile_hertz),
            profile_bytes: Some(Size(pellucid_profile::SAMPLE_BYTES)),
            stop_timeout: Some(TimeSpan(limits.stop)),
            ..Settings::engine_defaults()
        }
    }

    /// The options of a server with these settings.
    pub(crate) fn options(self) -> Result<ServerOptions, Failure> {
        let data = self.data.clone().ok_or_else(|| {
            Failure::usage(
                "say where the store is: --data DIR; without HOME there is no default (see \
                 pellucid serve --help)",
            )
        })?;
        let mut options = ServerOptions::new(data);
        options.store = self.store()?;
        options.listen = self.listen.clone().unwrap_or(options.listen);
        options.socket_mode = self.socket_mode.map_or(options.socket_mode, |mode| mode.0);
        options.threads = self.threads.unwrap_or(options.threads);
        if options.threads == 0 {
            return Err(Failure::usage("--threads is at least 1"));
        }
        options.acknowledgement = self.sync.map_or(options.acknowledgement, Into::into);
        options.accounting = self.accounting.map_or(options.accounting, Into::into);
        options.embedded.hand_over = self.hand_over.map_or(options.embedded.hand_over, Into::into);
        options.profile_hertz = self.profile_hertz.unwrap_or(options.profile_hertz);
        let sample_bytes = self.profile_bytes.map_or(pellucid_profile::SAMPLE_BYTES, |size| size.0);
        pellucid_profile::set_allocation_sampling(sample_bytes);
        // The figures are JSON documents: useful to a log collector, not to a person who reads.
        let engine_log = match self.log_format {
            Some(LogFormat::Json) => ENGINE_LOG_COLLECTED,
            Some(LogFormat::Text) | None => options.engine_log,
        };
        options.engine_log = self.engine_log.map_or(engine_log, |span| span.0);
        self.secure(&mut options)?;
        options.cluster = self.cluster()?;
        self.limit(&mut options)?;
        self.set_documents(&mut options)?;
        self.follow(&mut options)?;
        Ok(options)
    }

    fn secure(&self, options: &mut ServerOptions) -> Result<(), Failure> {
        options.tls = match (&self.tls_cert, &self.tls_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })
            }
            _ => return Err(Failure::usage("--tls-cert and --tls-key are given both or neither")),
        };
        if options.tls.is_some() && options.listen.iter().all(|at| at.tcp().is_none()) {
            return Err(Failure::usage(
                "Unix sockets are served without TLS: leave out --tls-cert and --tls-key, or give \
                 --listen an address and port as well",
            ));
        }
        options.authentication = self.authentication.map_or(options.authentication, Into::into);
        options.jwt_secret = self.jwt_secret_file.as_deref().map(read_secret).transpose()?;
        options.exposure = Exposure {
            without_tls: self.insecure_no_tls.unwrap_or(false),
            without_accounts: self.insecure_no_accounts.unwrap_or(false),
        };
        let secrets = [&self.jwt_secret_file, &self.cluster_secret_file];
        options.secret_files = secrets.into_iter().flatten().cloned().collect();
        options.allowed_hosts = list_in(self.allowed_hosts.as_deref());
        options.allowed_origins = list_in(self.allowed_origins.as_deref());
        Ok(())
    }

    /// The options of the cluster that this node belongs to; `None` without a cluster.
    fn cluster(&self) -> Result<Option<ClusterOptions>, Failure> {
        let (list, node) = match (&self.cluster, &self.advertise) {
            (None, None) if self.cluster_secret_file.is_some() => {
                return Err(Failure::usage("--cluster-secret-file goes with --cluster"));
            }
            (None, None) => return Ok(None),
            (Some(list), Some(node)) => (list, node),
            _ => return Err(Failure::usage("--cluster and --advertise are given both or neither")),
        };
        let nodes = NodeList::parse(list).map_err(|error| Failure::usage(error.to_string()))?;
        let node = NodeUrl::parse(node).map_err(|error| Failure::usage(error.to_string()))?;
        if nodes.index_of(&node).is_none() {
            let error = TopologyError::of_stranger(&node, &nodes);
            return Err(Failure::usage(error.to_string()));
        }
        let mut options = ClusterOptions::new(nodes, node);
        let secret = self.cluster_secret_file.as_deref().map(read_secret_bytes).transpose()?;
        options.secret = secret;
        options.wait = self.cluster_wait.map_or(options.wait, |span| span.0);
        options.silence = self.cluster_silence.map_or(options.silence, |span| span.0);
        if options.wait.is_zero() || options.silence.is_zero() {
            return Err(Failure::usage("--cluster-wait and --cluster-silence are above zero"));
        }
        options.in_flight_max = self.cluster_in_flight_max.unwrap_or(options.in_flight_max);
        if options.in_flight_max == 0 {
            return Err(Failure::usage("--cluster-in-flight-max is at least 1"));
        }
        Ok(Some(options))
    }

    fn limit(&self, options: &mut ServerOptions) -> Result<(), Failure> {
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        let embedded = &mut options.embedded;
        embedded.memory_bytes = self.memory.map_or(embedded.memory_bytes, |size| size.0);
        embedded.kept_changes_bytes =
            self.keep_changes.map_or(embedded.kept_changes_bytes, |size| size.0);
        embedded.dead_share = self.dead_share.unwrap_or(embedded.dead_share);
        if !DEAD_SHARES.contains(&embedded.dead_share) {
            let (least, most) = (DEAD_SHARES.start(), DEAD_SHARES.end());
            return Err(Failure::usage(format!("--dead-share is from {least} to {most}")));
        }
        embedded.value_bytes_max = self.value_max.map_or(embedded.value_bytes_max, bytes);
        options.batch_bytes_max = self.batch_max.map_or(options.batch_bytes_max, bytes);
        let limits = &mut options.limits;
        limits.head_bytes = self.head_max.map_or(limits.head_bytes, bytes);
        limits.headers = self.headers_max.unwrap_or(limits.headers);
        if limits.headers > HEADERS_MAX {
            return Err(Failure::usage(format!("--headers-max is {HEADERS_MAX} at most")));
        }
        limits.compressed_from_bytes =
            self.compress_from.map_or(limits.compressed_from_bytes, bytes);
        limits.set_connections(self.connections_max.unwrap_or(limits.connections));
        limits.connections_per_address =
            self.connections_per_address_max.unwrap_or(limits.connections_per_address);
        limits.connections_of_loopback =
            self.connections_of_loopback_max.unwrap_or(limits.connections_of_loopback);
        limits.requests_in_flight =
            self.requests_in_flight_max.unwrap_or(limits.requests_in_flight);
        let largest_body = options.batch_bytes_max.max(options.embedded.value_bytes_max);
        let largest = largest_body.saturating_add(limits.head_bytes);
        let bodies = self.bodies_max.map_or(limits.body_bytes_in_flight.max(largest), bytes);
        limits.set_bodies(bodies, largest);
        if limits.body_bytes_in_flight < largest {
            return Err(Failure::usage(format!(
                "--bodies-max has to hold the largest request, {largest} bytes: raise it, or lower \
                 --value-max and --batch-max"
            )));
        }
        limits.idle = self.idle_timeout.map_or(limits.idle, |span| span.0);
        limits.exchange = self.exchange_timeout.map_or(limits.exchange, |span| span.0);
        limits.stop = self.stop_timeout.map_or(limits.stop, |span| span.0);
        let none = [
            ("--head-max", limits.head_bytes == 0),
            ("--headers-max", limits.headers == 0),
            ("--connections-max", limits.connections == 0),
            ("--connections-per-address-max", limits.connections_per_address == 0),
            ("--connections-of-loopback-max", limits.connections_of_loopback == 0),
            ("--requests-in-flight-max", limits.requests_in_flight == 0),
            ("--idle-timeout", limits.idle.is_zero()),
            ("--exchange-timeout", limits.exchange.is_zero()),
        ];
        match none.iter().find(|(_, is_zero)| *is_zero) {
            Some((flag, _)) => Err(Failure::usage(format!("{flag} is above zero"))),
            None => Ok(()),
        }
    }

    /// Applies the settings of the document API.
    fn set_documents(&self, options: &mut ServerOptions) -> Result<(), Failure> {
        let documents = &mut options.documents;
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        documents.compressed_from_bytes =
            self.compress_documents_from.map_or(documents.compressed_from_bytes, bytes);
        documents.query_runtime_max =
            self.query_runtime_max.map_or(documents.query_runtime_max, |span| span.0);
        documents.query_memory_max =
            self.query_memory_max.map_or(documents.query_memory_max, bytes);
        options.request_memory = self.request_memory.map_or(options.request_memory, bytes);
        if documents.query_memory_max == 0 || options.request_memory == 0 {
            return Err(Failure::usage("--query-memory-max and --request-memory are above zero"));
        }
        documents.queued_calls_max = self.queued_calls_max.unwrap_or(documents.queued_calls_max);
        if let Some(version) = &self.arangodb_version {
            let numbers = version.split('.').filter(|part| part.parse::<u16>().is_ok()).count();
            if numbers != 3 || version.split('.').count() != 3 {
                return Err(Failure::usage("--arangodb-version is three numbers, as in 3.12.10"));
            }
            documents.reported_version = version.as_str().into();
        }
        Ok(())
    }

    fn follow(&self, options: &mut ServerOptions) -> Result<(), Failure> {
        options.slow_request = self.slow_request.map_or(options.slow_request, |span| span.0);
        options.trace_share = self.trace_share.unwrap_or(options.trace_share);
        if !(0.0..=1.0).contains(&options.trace_share) {
            return Err(Failure::usage("--trace-share lies between 0 and 1"));
        }
        options.show_keys = self.show_keys.unwrap_or(options.show_keys);
        let header = self.otlp_header.as_deref();
        if header.is_some() && self.otlp.is_none() {
            return Err(Failure::usage("--otlp-header goes with --otlp"));
        }
        let export = self.otlp.as_deref().map(|url| TraceCollector::to(url, header));
        options.export = export.transpose().map_err(Failure::usage)?;
        if options.export.is_some() && options.accounting != Accounting::Full {
            return Err(Failure::usage("--otlp needs --accounting full: spans are made of it"));
        }
        Ok(())
    }
}

/// Splits a list at commas; empty items are dropped.
fn list_in(text: Option<&str>) -> Vec<String> {
    let parts = text.unwrap_or_default().split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn read_secret(path: &Path) -> Result<Secret, Failure> {
    read_secret_bytes(path).map(Secret::new)
}

/// Reads a secret from a file, without surrounding white space.
///
/// # Errors
/// If the file cannot be read, or the length of the secret is not one of [`SECRET_LENGTHS`].
pub(crate) fn read_secret_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = read_small(path, SECRET_FILE_BYTES_MAX).map_err(|error| {
        Failure::usage(format!("cannot read the secret in {}: {error}", path.display()))
    })?;
    let bytes = bytes.trim_ascii().to_vec();
    if !SECRET_LENGTHS.contains(&bytes.len()) {
        return Err(Failure::usage(format!(
            "the secret in {} has to have {} to {} bytes",
            path.display(),
            SECRET_LENGTHS.start(),
            SECRET_LENGTHS.end()
        )));
    }
    Ok(bytes)
}
