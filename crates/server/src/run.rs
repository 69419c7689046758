//! Puts the server together, and takes it apart again.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_account::{Account, Accounting};
use pellucid_clock::Clock;
use pellucid_http::{Limits, Server, listen};
use pellucid_store::{Acknowledgement, EmbeddedOptions, EmbeddedStore, Store};

use crate::engine_page::EngineLog;
use crate::helper::Helper;
use crate::log::Log;
use crate::names::NAMES;
use crate::service::{Api, Later, Shared};

/// The name of the table behind the entity API.
const ENTITIES: &str = "entities";

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The folder of the embedded store.
    pub data: PathBuf,
    /// Where to listen; port 0 for any that is free.
    pub listen: SocketAddr,
    /// What the acknowledgement of a write means that does not say it itself.
    pub acknowledgement: Acknowledgement,
    /// Event loops.
    pub threads: usize,
    /// How much is accounted for.
    pub accounting: Accounting,
    /// Limits of the transport.
    pub limits: Limits,
    /// Bytes that a batch may have.
    pub batch_bytes_max: usize,
    /// How often the engine's figures go to the log, a line of each kind; zero for never.
    pub engine_log: Duration,
    /// Settings of the embedded store.
    pub embedded: EmbeddedOptions,
}

impl ServerOptions {
    /// The defaults, for a store in `data`: one event loop per core, loopback only.
    #[must_use]
    pub fn new(data: PathBuf) -> ServerOptions {
        ServerOptions {
            data,
            listen: SocketAddr::from(([127, 0, 0, 1], 8_080)),
            acknowledgement: Acknowledgement::Os,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            accounting: Accounting::Full,
            limits: Limits::default(),
            batch_bytes_max: 64 << 20,
            engine_log: Duration::ZERO,
            embedded: EmbeddedOptions::default(),
        }
    }
}

/// Why a server does not run.
#[derive(Debug)]
pub enum ServerError {
    /// The store could not be opened.
    Store(PathBuf, pellucid_store::StoreError),
    /// The address could not be listened on.
    Listen(SocketAddr, std::io::Error),
    /// A thread could not be started, or an event loop failed.
    Run(std::io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Store(path, error) => {
                write!(f, "the store in {} cannot be used: {error}", path.display())
            }
            ServerError::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}; choose another with --listen")
            }
            ServerError::Run(error) => write!(f, "the server failed: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}

/// A server that serves.
pub struct RunningServer {
    server: Server<Later>,
    shared: Arc<Shared>,
    drain: Option<JoinHandle<()>>,
    engine_log: Option<EngineLog>,
    data: PathBuf,
}

/// Opens the store and serves.
///
/// # Errors
/// See [`ServerError`]; nothing runs then.
pub fn start(options: ServerOptions, log: Log) -> Result<RunningServer, ServerError> {
    let data = options.data.clone();
    let store_error = |error| ServerError::Store(data.clone(), error);
    let store: Arc<dyn Store> =
        Arc::new(EmbeddedStore::open(&options.data, options.embedded).map_err(store_error)?);
    let entities = store.table(ENTITIES).map_err(store_error)?;
    let listener =
        listen(options.listen).map_err(|error| ServerError::Listen(options.listen, error))?;
    let account = Account::new(options.accounting, Clock::system(), NAMES);
    let shared = Arc::new(Shared {
        store,
        entities,
        account: account.clone(),
        acknowledgement: options.acknowledgement,
        batch_bytes_max: options.batch_bytes_max,
        helper: Helper::start().map_err(ServerError::Run)?,
        log,
        version: env!("CARGO_PKG_VERSION"),
    });
    let server = Server::start(listener, options.limits, &account, options.threads, |gauge| Api {
        shared: Arc::clone(&shared),
        gauge,
    });
    let server = server.map_err(ServerError::Run)?;
    let drain = (options.accounting == Accounting::Full).then(|| {
        let drain = move || account.drain_until_stopped();
        std::thread::Builder::new().name("pellucid-account".to_owned()).spawn(drain)
    });
    let drain = drain.transpose().map_err(ServerError::Run)?;
    let store = Arc::clone(&shared.store);
    let engine_log = (!options.engine_log.is_zero())
        .then(|| EngineLog::start(store, shared.log.clone(), options.engine_log));
    let engine_log = engine_log.transpose().map_err(ServerError::Run)?;
    Ok(RunningServer { server, shared, drain, engine_log, data: options.data })
}

impl RunningServer {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its account.
    #[must_use]
    pub fn account(&self) -> Account {
        self.shared.account.clone()
    }

    /// Ends it cleanly: requests in flight finish, and what was acknowledged is on disk.
    ///
    /// # Errors
    /// If an event loop had failed, or the store could not be closed.
    pub fn stop(self) -> Result<(), ServerError> {
        let served = self.server.stop().map_err(ServerError::Run);
        self.shared.account.stop();
        drop(self.engine_log);
        if let Some(drain) = self.drain {
            // The drain does nothing that could panic; if it does, its message is out.
            let _ = drain.join();
        }
        let closed = self.shared.store.close();
        served.and(closed.map_err(|error| ServerError::Store(self.data, error)))
    }
}
