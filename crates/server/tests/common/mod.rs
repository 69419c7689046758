//! A server in this process with a folder of its own, for tests over real sockets.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]
#![allow(clippy::disallowed_types, reason = "a test's own locks are in no profile")]

pub(crate) mod accounts;
pub(crate) mod client;
pub(crate) mod collector;
pub(crate) mod histories;
pub(crate) mod nodes;
pub(crate) mod peer;
pub(crate) mod stores;
pub(crate) mod tls;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) use accounts::{account_of, add_account, enter, take_right};
pub(crate) use client::{
    Answer, Client, PATIENCE, basic, encode, entity, number, request, unix_seconds, wait_for,
    wait_until,
};
use pellucid_account::Snapshot;
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
use pellucid_engine::EngineOptions;
use pellucid_server::{Log, RunningServer, ServerError, ServerOptions, start as start_server};
use pellucid_store::Store;
pub(crate) use stores::TestStore;
use tempfile::TempDir;

/// Sets a flag when it is dropped: it ends the other threads of a scope, even after a failed
/// assertion.
pub(crate) struct EndOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A server that is stopped cleanly when this value is dropped.
pub(crate) struct TestServer {
    server: Option<RunningServer>,
    pub(crate) address: SocketAddr,
    folder: Arc<TempDir>,
    /// The lines of the server's log.
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

/// Starts a server with two event loops, on the kind of store that the environment names, with
/// options that `set` changes.
pub(crate) fn start_with(set: impl FnOnce(&mut ServerOptions)) -> TestServer {
    start_on(Arc::new(TempDir::new().unwrap()), set)
}

/// Like [`start_with`], in `folder`.
pub(crate) fn start_on(folder: Arc<TempDir>, set: impl FnOnce(&mut ServerOptions)) -> TestServer {
    let set = |options: &mut ServerOptions| {
        set(options);
        TestStore::asked_for().choose(options);
    };
    start_by(start_server, folder, set)
}

/// Like [`start_with`], on `store`, which is in `folder`.
pub(crate) fn start_on_store(
    store: Arc<dyn Store>,
    folder: Arc<TempDir>,
    set: impl FnOnce(&mut ServerOptions),
) -> TestServer {
    start_by(|options, log| pellucid_server::start_on(store, options, log), folder, set)
}

/// Like [`start_with`], on an embedded store with these options, which the test uses, too.
pub(crate) fn start_with_store(options: EngineOptions) -> (Arc<dyn Store>, TestServer) {
    let (folder, embedded) = (Arc::new(TempDir::new().unwrap()), EmbeddedOptions::default());
    let store = EmbeddedStore::open_with(folder.path(), embedded, options).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    (Arc::clone(&store), start_on_store(store, folder, |_| {}))
}

fn start_by(
    start: impl FnOnce(ServerOptions, Log) -> Result<RunningServer, ServerError>,
    folder: Arc<TempDir>,
    set: impl FnOnce(&mut ServerOptions),
) -> TestServer {
    let mut options = ServerOptions::new(folder.path().to_owned());
    options.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    options.threads = 2;
    set(&mut options);
    let log = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&log);
    let server = start(options, Log::new(move |line| lines.lock().unwrap().push(line.to_owned())));
    let server = server.unwrap();
    let address = server.address().unwrap();
    TestServer { server: Some(server), address, folder, log }
}

pub(crate) fn start() -> TestServer {
    start_with(|_| {})
}

/// Like [`start`], and returns a client, too.
pub(crate) fn serve() -> (TestServer, Client) {
    serve_with(|_| {})
}

/// Like [`start_with`], and returns a client, too.
pub(crate) fn serve_with(set: impl FnOnce(&mut ServerOptions)) -> (TestServer, Client) {
    let running = start_with(set);
    let client = running.client();
    (running, client)
}

impl TestServer {
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// The folder of the server's data.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends `bytes` on a new connection, and reads nothing.
    pub(crate) fn sent(&self, bytes: &[u8]) -> Client {
        let mut client = self.client();
        client.send(bytes);
        client
    }

    /// All entries of the store, in the form of a range.
    pub(crate) fn contents(&self) -> String {
        let target = "/v0/entities?start=%00";
        let answer = self.client().call("GET", target, &[("Accept", "application/x-ndjson")], b"");
        assert_eq!(answer.status, 200);
        answer.text().to_owned()
    }

    /// The account of all requests since the start.
    pub(crate) fn account(&self) -> Snapshot {
        let answer = self.client().get("/_admin/account");
        assert_eq!(answer.status, 200);
        serde_json::from_value(answer.json()).unwrap()
    }

    /// Stops the server, unless it was stopped already.
    pub(crate) fn stop(&mut self) -> Result<(), ServerError> {
        self.server.take().map_or(Ok(()), RunningServer::stop)
    }

    /// Stops the server and starts another one on its folder.
    pub(crate) fn restart(mut self) -> TestServer {
        self.stop().unwrap();
        start_on(Arc::clone(&self.folder), |_| {})
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let stopped = self.stop();
        if !std::thread::panicking() {
            stopped.unwrap();
        }
    }
}
