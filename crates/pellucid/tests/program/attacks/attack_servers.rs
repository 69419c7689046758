//! The servers under attack, and the watched clients that use them meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::common::client::basic;
use crate::common::tls::certificate;
use crate::common::{Client, TestServer, account, cluster, done, entity};

/// The pause between two requests of a watched client.
const WATCH_PAUSE: Duration = Duration::from_millis(2);
/// The longest wait of a watched client that does not count as a delay.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(50);
/// The value that watched clients read.
const WATCHED: &str = "still here";

/// The name of the administrator's account, which is also its password.
pub(crate) const ADMINISTRATOR: &str = "root";
/// The name and password of an account that reads and writes the database `_system`, except the
/// collection `secret`.
pub(crate) const WRITER: &str = "writer";
/// The name and password of an account that reads the database `_system`.
pub(crate) const READER: &str = "reader";

/// One server of each kind.
pub(crate) struct AttackServers {
    /// Without accounts, over plain TCP.
    pub(crate) open: Server,
    /// With accounts, over plain TCP.
    pub(crate) guarded: Server,
    /// Without accounts, over TLS.
    pub(crate) secure: Server,
    /// A node of a cluster of two with a secret, whose other node is running.
    pub(crate) node: Server,
    _other: Server,
    _folder: TempDir,
}

/// A server under attack.
pub(crate) struct Server {
    serving: TestServer,
    pub(crate) address: SocketAddr,
}

impl Server {
    fn of(serving: TestServer) -> Server {
        Server { address: serving.address, serving }
    }

    /// Returns the resident memory of its process in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.serving.memory_bytes("VmRSS")
    }

    /// Returns true if its process is alive.
    pub(crate) fn lives(&self) -> bool {
        // A child that ended and was not waited for is a zombie.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.serving.id()));
        stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("Z").starts_with('Z'))
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

impl AttackServers {
    pub(crate) fn open() -> AttackServers {
        let folder = TempDir::new().unwrap();
        let place = |name: &str| folder.path().join(name);
        for (name, arguments) in [
            (ADMINISTRATOR, &["--admin"][..]),
            (WRITER, &["--grant", "database/_system=write"]),
            (READER, &["--grant", "database/_system=read"]),
        ] {
            let add = [&["add", name][..], arguments].concat();
            done(&account(&place("guarded"), &add, &format!("{name}\n")));
        }
        for name in [WRITER, READER] {
            let hide = ["grant", name, "database/_system/secret=none"];
            done(&account(&place("guarded"), &hide, ""));
        }
        let (certificate, key) = certificate(folder.path());
        let start = |name, more: &[&str]| {
            Server::of(TestServer::start(&place(name), &[LIMITS, more].concat()))
        };
        let (open, guarded) = (start("open", &[]), start("guarded", &[]));
        let secure = start("secure", &["--tls-cert", &certificate, "--tls-key", &key]);
        let flags = [LIMITS, &["--threads", "1"]].concat();
        let [node, other] = cluster(folder.path(), &flags).map(Server::of);
        let arena = AttackServers { open, guarded, secure, node, _other: other, _folder: folder };
        arena.fill();
        arena
    }

    /// Creates the data that attacks aim at.
    fn fill(&self) {
        let mut client = self.open.client();
        assert_eq!(client.put(&entity("watched"), WATCHED).status, 201);
        assert_eq!(client.put(&entity("large"), vec![b'x'; 16 << 20]).status, 201);
        let many: String = (0..2_000)
            .map(|at| format!("{{\"_key\":\"k{at}\",\"n\":{at},\"t\":\"{}\"}}\n", "t".repeat(200)))
            .collect();
        let post = |client: &mut Client, target: &str, body: &str, who: Option<&str>| {
            let credentials = who.map(|who| basic(who, who)).unwrap_or_default();
            let headers = [("Authorization", credentials.as_str())];
            let headers = if who.is_some() { &headers[..] } else { &[] };
            let answer = client.call("POST", target, headers, body);
            assert!(answer.status < 300, "{target}: {}", answer.text());
        };
        post(&mut client, "/_api/collection", r#"{"name":"c"}"#, None);
        post(&mut client, "/_api/import?collection=c&type=documents", &many, None);
        let mut client = self.guarded.client();
        for name in ["c", "secret"] {
            let body = format!("{{\"name\":\"{name}\"}}");
            post(&mut client, "/_api/collection", &body, Some(ADMINISTRATOR));
            let target = format!("/_api/document/{name}");
            post(&mut client, &target, r#"{"_key":"k","n":1}"#, Some(ADMINISTRATOR));
        }
    }

    /// Returns each server with its name.
    pub(crate) fn servers(&self) -> [(&'static str, &Server); 4] {
        [
            ("open", &self.open),
            ("guarded", &self.guarded),
            ("secure", &self.secure),
            ("node", &self.node),
        ]
    }
}

/// Limits of the servers, small enough to be reached within a test.
const LIMITS: &[&str] = &["--exchange-timeout", "2s", "--query-runtime-max", "5s"];

/// A client that sends requests all the time, and records its longest wait during each attack.
pub(crate) struct WatchedClient {
    ends: Arc<AtomicBool>,
    attack: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<(Duration, usize)>>,
}

impl WatchedClient {
    /// Watches the open server.
    pub(crate) fn begin(arena: &AttackServers) -> WatchedClient {
        let ends = Arc::new(AtomicBool::new(false));
        let attack = Arc::new(AtomicUsize::new(0));
        let mut client = arena.open.client();
        let (is_over, under) = (Arc::clone(&ends), Arc::clone(&attack));
        let watch = move || {
            let mut waits: Vec<(Duration, usize)> = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let sent = Instant::now();
                let answer = client.get(&entity("watched"));
                let wait = sent.elapsed();
                assert_eq!((answer.status, answer.text()), (200, WATCHED));
                let number = under.load(Ordering::Relaxed);
                match waits.last_mut() {
                    Some((longest, last)) if *last == number => *longest = wait.max(*longest),
                    _ => waits.push((wait, number)),
                }
                std::thread::sleep(WATCH_PAUSE);
            }
            waits
        };
        WatchedClient { ends, attack, thread: std::thread::spawn(watch) }
    }

    /// Sets the number of the current attack.
    pub(crate) fn attack(&self, number: usize) {
        self.attack.store(number, Ordering::Relaxed);
    }

    /// Returns the longest wait during each attack.
    pub(crate) fn end(self) -> Vec<(Duration, usize)> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
