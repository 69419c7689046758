//! Starts and stops the server: options, store, handlers, listeners and threads.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use pellucid_account::{Account, Accounting};
use pellucid_budget::Budget;
use pellucid_clock::Clock;
use pellucid_cluster::{Cluster, ClusterOptions};
#[cfg(feature = "cql")]
use pellucid_cql::{CqlOptions, CqlStore};
use pellucid_document::{Documents, TABLE, lookup_prefix, part_of};
use pellucid_embedded::{
    BATCH_SIZE_HARD_MAX, EmbeddedOptions, EmbeddedStore, EngineOptions, PrefixRule,
};
use pellucid_http::{
    Certificates, Endpoint, Limits, ListenAddress, Listener, Server, ServerGauge, descriptors_max,
};
use pellucid_io::{Random, SeededRandom, SystemRandom};
use pellucid_profile::USUAL_HERTZ;
#[cfg(feature = "rocksdb")]
use pellucid_rocksdb::{RocksOptions, RocksStore};
use pellucid_store::{Acknowledgement, CopiedTable, Range, Store, StoreError};
use pellucid_thread::{Mutex, PeriodicThread};

use crate::access::{
    Accounts, Authentication, Identity, Secret, Sites, Verifier, host_of, machine_names, warn_of,
};
use crate::admin::{AdminApi, PAGES_MAX};
use crate::answer::LoopMessage;
use crate::certificates::CertificateWatch;
use crate::changes::ChangesApi;
use crate::cluster::join;
use crate::descriptors::fit_connections;
use crate::documents::{DocumentApi, DocumentSettings, QUEUED_CALLS_MAX, request_memory_default};
use crate::engine_log::log_engine;
use crate::entities::{EntityApi, EntityTables};
use crate::exposure::Exposure;
use crate::gate::{BodyBudgets, Gate};
use crate::keys::Keys;
use crate::log::Log;
use crate::names::{ENTITIES, names_for};
use crate::observer::{Observer, ReportFigures};
use crate::places::Places;
use crate::profiles::Profiles;
use crate::reporter::{RequestReporter, TraceCollector, TraceRegistry};
use crate::routes::DOCUMENTS_BYTES_MAX;
use crate::server_error::ServerError;
use crate::service::Api;

/// The table behind the entity API, for programs that copy it.
pub const ENTITIES_TABLE: CopiedTable<'static> = CopiedTable { name: ENTITIES, part_of: None };

/// The table behind the document API, for programs that copy it.
pub const DOCUMENTS_TABLE: CopiedTable<'static> =
    CopiedTable { name: TABLE, part_of: Some(part_of) };

/// Memory for request bodies that are being received: one body of the largest size, and some
/// smaller ones beside it.
const BODY_BYTES_IN_FLIGHT_DEFAULT: usize = DOCUMENTS_BYTES_MAX + (192 << 20);

/// The limit of requests in flight. It is above the queue of document calls, because a full queue
/// gives a reply of its own that drivers understand; the rest is for requests that run or stream
/// meanwhile.
const REQUESTS_IN_FLIGHT_DEFAULT: usize = 2 * QUEUED_CALLS_MAX;

/// Bytes of the newest journal segments that are kept for followers of the changes: one segment of
/// the default size.
const KEPT_CHANGES_DEFAULT_BYTES: u64 = 64 << 20;

/// The time that a stop waits for its threads to end, after requests in flight were cut.
const END_WAIT: Duration = Duration::from_secs(2);

/// The time that a stop waits for the store to close if some threads did not end.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// The pause between two attempts to start on a replicated store that cannot reach enough copies.
const COPIES_PAUSE: Duration = Duration::from_secs(2);

/// The time that a stop waits for requests in flight if the store is replicated: a request that has
/// no answer by then waits for copies that cannot be reached. Together with [`END_WAIT`] and
/// [`COPIES_CLOSE_WAIT`] this makes 5 s.
const COPIES_STOP_WAIT: Duration = Duration::from_secs(2);

/// The time that a stop waits for a replicated store to record that this server has ended.
const COPIES_CLOSE_WAIT: Duration = Duration::from_secs(1);

/// The kind of store that the server runs on.
#[derive(Clone, Debug)]
pub enum StoreKind {
    /// The engine of this process, in the folder of [`ServerOptions::data`].
    Embedded,
    /// A ring of Cassandra or ScyllaDB nodes.
    #[cfg(feature = "cql")]
    Cql(Box<CqlOptions>),
    /// RocksDB, in the folder `rocksdb` of [`ServerOptions::data`].
    #[cfg(feature = "rocksdb")]
    Rocks(RocksOptions),
}

/// The settings of an operator.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The folder of the embedded store and of the server's own files, such as the accounts.
    pub data: PathBuf,
    /// The kind of store to open.
    pub store: StoreKind,
    /// The addresses to listen on; port 0 means any free port.
    pub listen: Vec<ListenAddress>,
    /// The file mode of Unix sockets.
    pub socket_mode: u32,
    /// The PEM files of certificate and key; with them, TCP listeners speak TLS.
    pub tls: Option<TlsFiles>,
    /// The acknowledgement of writes that do not choose one themselves.
    pub acknowledgement: Acknowledgement,
    /// The number of event loops.
    pub threads: usize,
    /// The rule whether requests need credentials.
    pub authentication: Authentication,
    /// The secret that signs web tokens; without it, the one in the account file is used.
    pub jwt_secret: Option<Secret>,
    /// Further files with secrets; a warning is logged if other users may read them.
    pub secret_files: Vec<PathBuf>,
    /// The risks of listening beyond loopback that the operator accepts.
    pub exposure: Exposure,
    /// Host names that requests may name, beside the listen addresses and this machine's names.
    pub allowed_hosts: Vec<String>,
    /// Origins of other sites whose pages may send requests.
    pub allowed_origins: Vec<String>,
    /// The level of detail of the account.
    pub accounting: Accounting,
    /// Limits of the transport.
    pub limits: Limits,
    /// The duration from which a request is logged as slow; zero logs none.
    pub slow_request: Duration,
    /// The collector to which the spans of traced requests are exported.
    pub export: Option<TraceCollector>,
    /// The share of requests, from 0 to 1, that the server traces although the caller does not. It
    /// has no effect without `export`.
    pub trace_share: f64,
    /// The longest body of a batch, in bytes.
    pub batch_bytes_max: usize,
    /// The interval at which the engine's figures are logged, one line of each kind; zero logs
    /// none.
    pub engine_log: Duration,
    /// Shows keys in `/_admin/slow`, beside their hashes.
    pub show_keys: bool,
    /// The rate of the CPU profiler that always runs: samples per second of each busy thread's
    /// processor time; zero turns it off.
    pub profile_hertz: u32,
    /// Bytes of memory that all requests may take together: their bodies, the rows of queries,
    /// results that wait for their readers, and answers on their way.
    pub request_memory: usize,
    /// Settings of the document API.
    pub documents: DocumentSettings,
    /// Settings of the embedded store.
    pub embedded: EmbeddedOptions,
    /// The cluster that this server is a node of, if any.
    pub cluster: Option<ClusterOptions>,
}

/// The files of certificate and key for TLS. The server reads them again when they change.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain of certificates, the server's own first.
    pub certificate: PathBuf,
    /// The private key of the server's certificate.
    pub key: PathBuf,
}

impl ServerOptions {
    /// The defaults for a store in the folder `data`: one event loop per core, listening on
    /// loopback only.
    #[must_use]
    pub fn new(data: PathBuf) -> ServerOptions {
        let mut limits =
            Limits { requests_in_flight: REQUESTS_IN_FLIGHT_DEFAULT, ..Limits::default() };
        limits.set_bodies(BODY_BYTES_IN_FLIGHT_DEFAULT, DOCUMENTS_BYTES_MAX);
        ServerOptions {
            data,
            store: StoreKind::Embedded,
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8_080)).into()],
            socket_mode: 0o600,
            tls: None,
            acknowledgement: Acknowledgement::Os,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            authentication: Authentication::Auto,
            jwt_secret: None,
            secret_files: Vec::new(),
            exposure: Exposure::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            accounting: Accounting::Full,
            limits,
            slow_request: Duration::from_secs(1),
            export: None,
            trace_share: 0.0,
            batch_bytes_max: 64 << 20,
            engine_log: Duration::ZERO,
            show_keys: false,
            profile_hertz: USUAL_HERTZ,
            request_memory: request_memory_default(),
            documents: DocumentSettings::default(),
            embedded: EmbeddedOptions {
                kept_changes_bytes: KEPT_CHANGES_DEFAULT_BYTES,
                ..EmbeddedOptions::default()
            },
            cluster: None,
        }
    }
}

/// A running server. Call [`RunningServer::stop`] to end it.
pub struct RunningServer {
    server: Server<LoopMessage>,
    observer: Arc<Observer>,
    entities: Arc<EntityApi>,
    changes: Arc<ChangesApi>,
    documents: Arc<DocumentApi>,
    drain: Option<PeriodicThread>,
    engine_log: Option<PeriodicThread>,
    upkeep: PeriodicThread,
    follower: RequestReporter,
    certificates: Option<CertificateWatch>,
    data: PathBuf,
    /// The time that a stop waits for requests in flight.
    stop: Duration,
}

/// Opens the store and starts the server.
///
/// # Errors
/// See [`ServerError`]. After an error nothing keeps running.
pub fn start(options: ServerOptions, log: Log) -> Result<RunningServer, ServerError> {
    let open = |options: &ServerOptions| {
        Ok(match &options.store {
            StoreKind::Embedded => {
                let engine = EngineOptions::default();
                let batch_bytes_max = options.batch_bytes_max.min(BATCH_SIZE_HARD_MAX);
                let batch_size_max_bytes = engine.batch_size_max_bytes.max(batch_bytes_max);
                let prefix_rules = vec![PrefixRule { table: TABLE, prefix_of: lookup_prefix }];
                let engine = EngineOptions { prefix_rules, batch_size_max_bytes, ..engine };
                let store = EmbeddedStore::open_with(&options.data, options.embedded, engine);
                let failed = |error| ServerError::Store(options.data.clone(), error);
                Arc::new(store.map_err(failed)?) as Arc<dyn Store>
            }
            #[cfg(feature = "rocksdb")]
            StoreKind::Rocks(settings) => {
                let folder = options.data.join("rocksdb");
                let store = RocksStore::open(&folder, *settings);
                Arc::new(store.map_err(|error| ServerError::Store(folder, error))?)
            }
            #[cfg(feature = "cql")]
            StoreKind::Cql(ring) => {
                let store = CqlStore::open(ring);
                Arc::new(store.map_err(|error| ServerError::Ring(ring.nodes.join(","), error))?)
            }
        })
    };
    start_with(open, options, log)
}

/// As [`start`], on a store that is already open.
///
/// # Errors
/// As [`start`].
pub fn start_on(
    store: Arc<dyn Store>,
    options: ServerOptions,
    log: Log,
) -> Result<RunningServer, ServerError> {
    start_with(|_| Ok(store), options, log)
}

/// Checks the options and reads certificates and accounts, then calls `open` and serves. The store
/// is opened after all checks, so that a refusal leaves no new store behind.
fn start_with(
    open: impl FnOnce(&ServerOptions) -> Result<Arc<dyn Store>, ServerError>,
    mut options: ServerOptions,
    log: Log,
) -> Result<RunningServer, ServerError> {
    let certificates = options.tls.as_ref();
    let certificates =
        certificates.map(|files| Certificates::load(&files.certificate, &files.key)).transpose();
    let certificates = certificates.map_err(ServerError::Certificate)?.map(Arc::new);
    let key = options.tls.as_ref().map(|files| files.key.clone());
    warn_of(&options.secret_files.iter().cloned().chain(key).collect::<Vec<_>>(), &log);
    let secret = options.jwt_secret.clone();
    let accounts = Accounts::open(&options.data, options.authentication, secret);
    let accounts = Arc::new(accounts.map_err(ServerError::Access)?);
    let exposed =
        options.exposure.check(&options.listen, certificates.is_some(), accounts.is_enforced());
    exposed.map_err(ServerError::Exposed)?;
    if let Some(cluster) = &options.cluster {
        check_cluster(cluster, &options.listen, certificates.is_some(), accounts.is_enforced())?;
    }
    let store = open(&options)?;
    if store.replicated().is_none() {
        return serve(
            &SharedComponents::new(store, accounts, &options, log)?,
            certificates,
            options,
        );
    }
    options.limits.stop = options.limits.stop.min(COPIES_STOP_WAIT);
    serve(&await_copies(&store, &accounts, &options, &log)?, certificates, options)
}

/// Makes the parts on a replicated store. Waits until the store can reach enough copies.
fn await_copies(
    store: &Arc<dyn Store>,
    accounts: &Arc<Accounts>,
    options: &ServerOptions,
    log: &Log,
) -> Result<SharedComponents, ServerError> {
    let mut told = String::new();
    loop {
        match SharedComponents::new(Arc::clone(store), Arc::clone(accounts), options, log.clone()) {
            Err(ServerError::Store(_, StoreError::Unreachable(why))) => {
                if why != told {
                    let pause = COPIES_PAUSE.as_secs();
                    log.error(&format!(
                        "the server begins to serve once the store can be used, and tries it again \
                         every {pause} s: {why}"
                    ));
                    told = why;
                }
                std::thread::sleep(COPIES_PAUSE);
            }
            done => return done,
        }
    }
}

/// Checks that a server with these listeners, TLS and accounts may be a node of `cluster`.
fn check_cluster(
    cluster: &ClusterOptions,
    listen: &[ListenAddress],
    has_tls: bool,
    has_accounts: bool,
) -> Result<(), ServerError> {
    let refused = |what: &str| Err(ServerError::Cluster(what.to_owned()));
    if listen.iter().all(|address| address.tcp().is_none()) {
        return refused(
            "nodes of a cluster reach each other over TCP: give --listen an address and port, \
             beside the Unix socket",
        );
    }
    if has_tls {
        return refused(
            "a node of a cluster serves clients without TLS: leave out --tls-cert, and put a TLS \
             proxy before it",
        );
    }
    if has_accounts && cluster.secret.is_none() {
        return refused(
            "there are accounts, so nodes have to prove themselves too: give every node of the \
             cluster the same --cluster-secret-file",
        );
    }
    Ok(())
}

/// The parts that all event loops share.
struct SharedComponents {
    gate: Arc<Gate>,
    entities: Arc<EntityApi>,
    changes: Arc<ChangesApi>,
    documents: Arc<DocumentApi>,
    observer: Arc<Observer>,
    cluster: Option<Arc<Cluster>>,
    pages: Places,
    profiles: Profiles,
    full_merge: Places,
    openapi: Arc<serde_json::Value>,
    batch_bytes_max: usize,
}

impl SharedComponents {
    fn new(
        store: Arc<dyn Store>,
        accounts: Arc<Accounts>,
        options: &ServerOptions,
        log: Log,
    ) -> Result<SharedComponents, ServerError> {
        let data = &options.data;
        let table = store.table(ENTITIES);
        let failed = |error| ServerError::Store(data.clone(), error);
        let table = table.map_err(failed)?;
        let documents_table = store.table_in_parts(TABLE, part_of).map_err(failed)?;
        let cluster =
            join(options.cluster.as_ref(), data, store.as_ref(), table, options.threads, &log)?;
        let documents = open_documents(&store, &accounts, options, &log)?;
        let account = Account::new(options.accounting, Clock::system(), names_for(&*store));
        if let Some(activity) = store.local().and_then(|local| local.activity()) {
            account.watch(activity);
        }
        let telling = Arc::clone(&store);
        account.tell_later(move || {
            telling.replicated().map(|store| store.late_parts()).unwrap_or_default()
        });
        let keys = Arc::new(Keys::new(options.show_keys));
        let verifier = Verifier::start(Arc::clone(&accounts), log.clone());
        let refused = options.cluster.is_some().then_some("a cluster has one table of entities");
        let entity_tables = EntityTables::open(Arc::clone(&store), table, refused);
        let openapi = Arc::new(crate::openapi::document(store.properties().copies));
        let changes = ChangesApi::start(
            Arc::clone(&store),
            Arc::clone(&accounts),
            documents_table,
            documents.memory().clone(),
            Clock::system(),
            &log,
        );
        Ok(SharedComponents {
            changes: Arc::new(changes.map_err(ServerError::Run)?),
            gate: Arc::new(Gate {
                accounts,
                verifier: verifier.map_err(ServerError::Run)?,
                bodies: Arc::new(BodyBudgets::new(options.limits.body_bytes_per_account)),
                sites: sites_of(options),
            }),
            entities: Arc::new(EntityApi {
                store,
                tables: entity_tables.map_err(failed)?,
                acknowledgement: options.acknowledgement,
                keys: Arc::clone(&keys),
                memory: documents.memory().clone(),
                log: log.clone(),
            }),
            observer: Arc::new(Observer {
                account,
                keys,
                traced: TraceRegistry::new(options.export.is_some(), options.trace_share),
                followed: ReportFigures::default(),
                slow_queries: Arc::clone(documents.slow_queries()),
                log,
                version: env!("CARGO_PKG_VERSION"),
            }),
            documents,
            cluster,
            pages: Places::new(PAGES_MAX),
            profiles: Profiles::start(options.profile_hertz).map_err(ServerError::Run)?,
            full_merge: Places::new(1),
            openapi,
            batch_bytes_max: options.batch_bytes_max,
        })
    }

    /// Makes the service of one event loop; `gauge` has the transport's counts.
    fn service(&self, gauge: ServerGauge) -> Api {
        let (entities, observer) = (Arc::clone(&self.entities), Arc::clone(&self.observer));
        Api {
            gate: Arc::clone(&self.gate),
            changes: Arc::clone(&self.changes),
            documents: Arc::clone(&self.documents),
            admin: AdminApi {
                observer: Arc::clone(&observer),
                store: Arc::clone(&entities.store),
                cursors: Arc::clone(self.documents.cursors()),
                memory: self.documents.memory().clone(),
                cluster: self.cluster.clone(),
                pages: self.pages.clone(),
                profiles: self.profiles.clone(),
                full_merge: self.full_merge.clone(),
                gauge,
                openapi: Arc::clone(&self.openapi),
            },
            entities,
            links: None,
            observer,
            random: SeededRandom::new(SystemRandom.next_u64()),
            batch_bytes_max: self.batch_bytes_max,
            caller: Identity::Nobody,
        }
    }
}

/// The hosts and origins that requests may name.
fn sites_of(options: &ServerOptions) -> Sites {
    let node = options.cluster.as_ref().and_then(|cluster| cluster.node.as_ref());
    let names = machine_names()
        .into_iter()
        .chain(options.allowed_hosts.iter().cloned())
        .chain(node.map(|node| host_of(node.authority())));
    Sites::new(&options.listen, options.tls.is_some(), names, &options.allowed_origins)
}

/// Opens the listening sockets.
fn open_listeners(options: &ServerOptions) -> Result<Vec<Listener>, ServerError> {
    let open = |address: &ListenAddress| {
        let opened = Listener::open(address, options.socket_mode);
        opened.map_err(|error| ServerError::Listen(address.clone(), error))
    };
    options.listen.iter().map(open).collect()
}

/// Opens the listeners, then starts the background threads and the event loops.
fn serve(
    parts: &SharedComponents,
    certificates: Option<Arc<Certificates>>,
    options: ServerOptions,
) -> Result<RunningServer, ServerError> {
    let listeners = open_listeners(&options)?;
    let (observer, documents) = (Arc::clone(&parts.observer), Arc::clone(&parts.documents));
    let upkeep = documents.start_upkeep();
    let upkeep = upkeep.map_err(ServerError::Run)?;
    let stop = options.limits.stop;
    let mut limits = fit_connections(options.limits, descriptors_max(), &observer.log);
    limits.memory = documents.memory().clone();
    let endpoint = Endpoint { listeners, limits, certificates: certificates.clone() };
    // An error below drops what has started, the last first: so the drain ends before the follower.
    let follower = RequestReporter::start(&observer, options.slow_request, options.export);
    let follower = follower.map_err(ServerError::Run)?;
    let is_drained = options.accounting == Accounting::Full;
    let drain = is_drained.then(|| observer.account.start_draining()).transpose();
    let drain = drain.map_err(ServerError::Run)?;
    let entities = Arc::clone(&parts.entities);
    let engine_log = (!options.engine_log.is_zero())
        .then(|| log_engine(Arc::clone(&entities.store), observer.log.clone(), options.engine_log));
    let engine_log = engine_log.transpose().map_err(ServerError::Run)?.flatten();
    let watch = certificates.map(|given| CertificateWatch::start(given, observer.log.clone()));
    let certificates = watch.transpose().map_err(ServerError::Run)?;
    // Event loops start last: nothing may be served if another part fails to start.
    let account = &observer.account;
    let server = Server::start(endpoint, account, options.threads, |gauge| parts.service(gauge));
    Ok(RunningServer {
        server: server.map_err(ServerError::Run)?,
        observer,
        entities,
        changes: Arc::clone(&parts.changes),
        documents,
        drain,
        engine_log,
        upkeep,
        follower,
        certificates,
        data: options.data,
        stop,
    })
}

/// Opens the documents of the store and starts the document API on them.
fn open_documents(
    store: &Arc<dyn Store>,
    accounts: &Arc<Accounts>,
    options: &ServerOptions,
    log: &Log,
) -> Result<Arc<DocumentApi>, ServerError> {
    let documents = Documents::open_named(Arc::clone(store), &name_of(options));
    let documents = documents.map_err(|error| {
        let failed = || StoreError::Failed(error.to_string());
        let cause = error.cause.as_deref().cloned().unwrap_or_else(failed);
        ServerError::Store(options.data.clone(), cause)
    })?;
    let memory = Budget::new(options.request_memory);
    let (acknowledgement, settings) = (options.acknowledgement, &options.documents);
    let log = log.clone();
    let api = DocumentApi::start(documents, accounts, acknowledgement, memory, settings, log);
    api.map(Arc::new).map_err(ServerError::Run)
}

/// The name by which other servers on the same store know this one.
fn name_of(options: &ServerOptions) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let listen: Vec<String> = options.listen.iter().map(ToString::to_string).collect();
    let (host, listen, process) = (host.trim(), listen.join(" and "), std::process::id());
    format!("process {process} on {host}, which listens on {listen}")
}

impl RunningServer {
    /// The addresses that the server listens on, in the order of [`ServerOptions::listen`].
    #[must_use]
    pub fn addresses(&self) -> &[ListenAddress] {
        self.server.addresses()
    }

    /// The first TCP address that the server listens on.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses().iter().find_map(ListenAddress::tcp)
    }

    /// The root URLs of the server, one for each address.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        let url = |address: &ListenAddress| match address {
            ListenAddress::Tcp(address) => format!("{scheme}://{address}"),
            ListenAddress::Unix(_) => address.to_string(),
        };
        self.addresses().iter().map(url).collect()
    }

    /// Reads the certificate again, if there is one, and logs the outcome.
    pub fn reload_certificate(&self) {
        if let Some(certificates) = &self.certificates {
            certificates.reload();
        }
    }

    /// The account of all requests of this server.
    #[must_use]
    pub fn account(&self) -> Account {
        self.observer.account.clone()
    }

    /// The store's own figures as pairs of name and value, as `/metrics` shows them.
    #[must_use]
    pub fn store_figures(&self) -> Vec<(&'static str, u64)> {
        self.entities.store.figures()
    }

    /// Counts the keys of the default entity table in this server's own store. It scans the whole
    /// table.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn count_entities(&self) -> Result<u64, ServerError> {
        let EntityApi { store, tables, .. } = &*self.entities;
        let table = tables.usual();
        let count = || {
            let all = Range { start: b"", end: None, reverse: false };
            let (mut scan, mut count) = (store.scan(table, all)?, 0);
            while scan.next_head()?.is_some() {
                count += 1;
            }
            Ok(count)
        };
        count().map_err(|error| ServerError::Store(self.data.clone(), error))
    }

    /// Stops the server cleanly: requests in flight finish, and all acknowledged writes are on
    /// disk. Waits for threads no longer than the limit for a stop (`Limits::stop`) plus 2 s.
    ///
    /// # Errors
    /// [`ServerError::Stuck`] if threads did not end in time: the store is closed nevertheless, if
    /// it can be, and the process should end. Another error if an event loop has failed, or the
    /// store could not be closed.
    pub fn stop(self) -> Result<(), ServerError> {
        let closing = StoreShutdown {
            documents: Arc::clone(&self.documents),
            store: Arc::clone(&self.entities.store),
            data: self.data.clone(),
        };
        let log = self.observer.log.clone();
        let wait = self.stop.saturating_add(END_WAIT);
        match run_within("pellucid-stop", wait, || self.end()) {
            Some(served) if closing.store.replicated().is_none() => served.and(closing.close()),
            Some(served) => {
                let closed = run_within("pellucid-close", COPIES_CLOSE_WAIT, || closing.close());
                let late = || {
                    log.error("the store did not take the notes of this server's end in time");
                    Ok(())
                };
                served.and(closed.unwrap_or_else(late))
            }
            None => closing.close_beside_stuck(&log),
        }
    }

    /// Stops the event loops and all other threads, and waits for them.
    fn end(self) -> Result<(), ServerError> {
        // Streams that follow the changes would never end by themselves.
        self.changes.stop();
        let served = self.server.stop().map_err(ServerError::Run);
        // No client waits for the answers of document calls any more.
        self.documents.stop();
        drop((self.engine_log, self.certificates, self.upkeep));
        drop(self.drain);
        // The last drain passes its records to the follower.
        self.observer.account.finish();
        drop(self.follower);
        served
    }
}

/// Calls `run` on a thread of its own and returns its result, or `None` if that takes longer than
/// `wait`. If the system cannot start a thread, `run` runs here, however long it takes: without it,
/// a stop would cut off requests in flight and leave the store open.
fn run_within<T: Send + 'static>(
    name: &str,
    wait: Duration,
    run: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, ended) = sync_channel(1);
    let run = Arc::new(Mutex::new(Some(run)));
    let take = |run: &Mutex<Option<_>>| run.lock().take();
    let taken = Arc::clone(&run);
    let work = move || {
        // After `wait`, nobody receives the result any more.
        take(&taken).map(|run| sender.send(run()))
    };
    match std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        Ok(_) => ended.recv_timeout(wait).ok(),
        Err(_) => take(&run).map(|run| run()),
    }
}

/// The parts that are needed to close the store after the threads have ended.
struct StoreShutdown {
    documents: Arc<DocumentApi>,
    store: Arc<dyn Store>,
    data: PathBuf,
}

impl StoreShutdown {
    /// Closes the documents and then the store.
    fn close(self) -> Result<(), ServerError> {
        self.documents.close();
        self.close_store()
    }

    fn close_store(self) -> Result<(), ServerError> {
        self.store.close().map_err(|error| ServerError::Close(self.data, error))
    }

    /// Closes the store although some threads have not ended, and logs which. If such a thread
    /// uses the store later, it finds it closed. Always returns [`ServerError::Stuck`].
    fn close_beside_stuck(self, log: &Log) -> Result<(), ServerError> {
        let calls = self.documents.calls().describe();
        let stuck = match &calls[..] {
            [] => "threads other than those of calls".to_owned(),
            calls => calls.join("; "),
        };
        let wait = match self.store.replicated() {
            Some(_) => COPIES_CLOSE_WAIT,
            None => CLOSE_WAIT,
        };
        // Another server takes over the documents only once writes of the stuck threads are over.
        let closed = run_within("pellucid-close", wait, || {
            self.documents.abandon();
            self.close_store()
        });
        let outcome = match closed {
            Some(Ok(())) => "the store is closed".to_owned(),
            Some(Err(error)) => error.to_string(),
            None => {
                "the store did not close in time: the journal has what was acknowledged".to_owned()
            }
        };
        let text =
            format!("the stop did not wait longer for what does not end ({stuck}); {outcome}");
        log.error(&text);
        Err(ServerError::Stuck(text))
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    /// Regression: the work that stops a server was dropped if no thread could be started for it.
    #[test]
    fn work_runs_here_if_no_thread_can_be_started() {
        crate::isolated_process::run(
            "run::tests::work_runs_here_if_no_thread_can_be_started",
            || {
                let wait = Duration::from_secs(60);
                let name = || std::thread::current().name().map(str::to_owned);
                let limit = getrlimit(Resource::As);
                setrlimit(Resource::As, Rlimit { current: Some(1 << 20), ..limit }).unwrap();
                let is_done = run_within("other", wait, || true);
                let spawned = std::thread::Builder::new().spawn(|| ());
                setrlimit(Resource::As, limit).unwrap();
                assert_eq!((is_done, spawned.is_err()), (Some(true), true));
                assert_eq!(run_within("other", wait, name), Some(Some("other".to_owned())));
            },
        );
    }
}
