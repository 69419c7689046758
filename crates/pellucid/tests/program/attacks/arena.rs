//! The servers under attack, with watched clients beside.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::common::client::basic;
use crate::common::tls::{certificate, write_private};
use crate::common::{Client, PATIENT_NODES, Serving, entity, free_addresses, pellucid};

/// Pause between two requests of a watched client.
const WATCH_PAUSE: Duration = Duration::from_millis(2);
/// Wait of a watched client that counts as being held up, as the issue of attacks has it.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(50);
/// Value that watched clients read.
const WATCHED: &str = "still here";

/// An account's name, which is its password, too.
pub(crate) const ADMINISTRATOR: &str = "root";
/// See [`ADMINISTRATOR`]: reads and writes the database `_system`, but for the collection `secret`.
pub(crate) const WRITER: &str = "writer";
/// See [`ADMINISTRATOR`]: reads the database `_system`.
pub(crate) const READER: &str = "reader";

/// Servers of each kind.
pub(crate) struct Arena {
    /// Without accounts, over plain TCP.
    pub(crate) open: Server,
    /// With accounts, over plain TCP.
    pub(crate) guarded: Server,
    /// Without accounts, over TLS.
    pub(crate) secure: Server,
    /// A node of a cluster of two with a secret, whose other node is there.
    pub(crate) node: Server,
    _other: Server,
    _folder: TempDir,
}

/// A server under attack.
pub(crate) struct Server {
    serving: Serving,
    pub(crate) address: SocketAddr,
}

impl Server {
    fn start(data: &Path, arguments: &[&str]) -> Server {
        let serving = Serving::start(data, arguments);
        let address = serving.address;
        Server { serving, address }
    }

    /// Bytes that its process holds in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.serving.memory_bytes("VmRSS")
    }

    /// Whether its process lives.
    pub(crate) fn lives(&self) -> bool {
        // A child that ended and was not waited for is a zombie.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.serving.id()));
        stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("Z").starts_with('Z'))
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Arena {
    pub(crate) fn open() -> Arena {
        let folder = TempDir::new().unwrap();
        let place = |name: &str| folder.path().join(name);
        for (name, arguments) in [
            (ADMINISTRATOR, &["--admin"][..]),
            (WRITER, &["--grant", "database/_system=write"]),
            (READER, &["--grant", "database/_system=read"]),
        ] {
            add_account(&place("guarded"), name, arguments);
        }
        let hide = ["--grant", "database/_system/secret=none"];
        for name in [WRITER, READER] {
            account(&place("guarded"), &[&["grant", name][..], &hide[1..]].concat(), "");
        }
        let (certificate, key) = certificate(folder.path());
        let open = Server::start(&place("open"), LIMITS);
        let guarded = Server::start(&place("guarded"), LIMITS);
        let tls = ["--tls-cert", &certificate, "--tls-key", &key];
        let secure = Server::start(&place("secure"), &[LIMITS, &tls].concat());
        let (node, other) = cluster(folder.path());
        let arena = Arena { open, guarded, secure, node, _other: other, _folder: folder };
        arena.fill();
        arena
    }

    /// Makes what attacks aim at.
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

    /// Each server with its name.
    pub(crate) fn servers(&self) -> [(&'static str, &Server); 4] {
        [
            ("open", &self.open),
            ("guarded", &self.guarded),
            ("secure", &self.secure),
            ("node", &self.node),
        ]
    }
}

/// Limits that are small enough to be reached within a test.
const LIMITS: &[&str] = &["--exchange-timeout", "2s", "--query-runtime-max", "5s"];

fn account(data: &Path, arguments: &[&str], password: &str) {
    let mut command = pellucid(&["account", "--data", data.to_str().unwrap()]);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that asks for no password may have ended.
    let _ = child.stdin.take().unwrap().write_all(password.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn add_account(data: &Path, name: &str, arguments: &[&str]) {
    account(data, &[&["add", name][..], arguments].concat(), &format!("{name}\n"));
}

/// Two nodes of a cluster that share a secret.
fn cluster(folder: &Path) -> (Server, Server) {
    let secret = folder.join("cluster-secret");
    write_private(&secret, "a secret of at least thirty-two characters\n");
    // Both nodes have to know both.
    let addresses = free_addresses::<2>().map(|address| address.to_string());
    let nodes = addresses.clone().map(|address| format!("http://{address}")).join(",");
    let start = |node: usize| {
        let data = folder.join(format!("node{node}"));
        let advertised = format!("http://{}", addresses[node]);
        let mut command = pellucid(&["serve", "--data", data.to_str().unwrap()]);
        command.args(["--listen", &addresses[node], "--cluster", &nodes]);
        command.args(["--advertise", &advertised, "--threads", "1"]);
        command.args(["--cluster-secret-file", secret.to_str().unwrap()]).args(LIMITS);
        command.args(PATIENT_NODES);
        let serving = Serving::spawn(command);
        let address = serving.address;
        Server { serving, address }
    };
    (start(0), start(1))
}

/// A client that asks all the time, and notes how long it waited at most and during which attack.
pub(crate) struct Watch {
    ends: Arc<AtomicBool>,
    attack: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<(Duration, usize)>>,
}

impl Watch {
    /// Watches the open server.
    pub(crate) fn begin(arena: &Arena) -> Watch {
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
        Watch { ends, attack, thread: std::thread::spawn(watch) }
    }

    /// Says which attack is under way, by its number.
    pub(crate) fn attack(&self, number: usize) {
        self.attack.store(number, Ordering::Relaxed);
    }

    /// The longest wait during each attack.
    pub(crate) fn end(self) -> Vec<(Duration, usize)> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
