//! A ring of three Cassandra nodes for tests, and a ring of one node that requires a password.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The loopback network of the tests' ring; it differs from that of a ring for manual trials.
const NETWORK: &str = "127.0.41";
/// The loopback network of the node that requires a password.
const PASSWORD_NETWORK: &str = "127.0.42";
/// The name, and the password, of the user that Cassandra creates first.
pub(crate) const FIRST_USER: &str = "cassandra";
/// The name in the nodes' certificate.
pub(crate) const NAME: &str = "ring.example";
/// Number of nodes of the ring.
pub(crate) const NODES: usize = 3;
/// The longest wait for the start of a node, also on a slow machine.
const START_MAX: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(250);

/// The running nodes; dropping it kills them.
pub(crate) struct Ring {
    network: &'static str,
    nodes: Vec<Option<Child>>,
    folder: tempfile::TempDir,
    /// The self-signed certificate of all nodes.
    pub(crate) authority: String,
}

impl Ring {
    /// Starts the ring, and waits until all nodes accept connections.
    pub(crate) fn start() -> Ring {
        Ring::of(NETWORK, NODES, "")
    }

    /// Starts a ring of one node that requires a password.
    pub(crate) fn with_passwords() -> Ring {
        Ring::of(PASSWORD_NETWORK, 1, "1")
    }

    fn of(network: &'static str, nodes: usize, passwords: &str) -> Ring {
        let script = script();
        let fetched = Command::new(&script).arg("jars").stdout(Stdio::null()).status().unwrap();
        assert!(fetched.success(), "Cassandra could not be had: see above what to install");
        let folder = tempfile::TempDir::new().unwrap();
        let certified = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).unwrap();
        let authority = certified.cert.pem();
        let pem = folder.path().join("client.pem");
        let key = certified.signing_key.serialize_pem();
        std::fs::write(&pem, format!("{key}{authority}")).unwrap();
        let mut ring = Ring { network, nodes: Vec::new(), folder, authority };
        for number in 1..=nodes {
            let log = std::fs::File::create(ring.log(number)).unwrap();
            let node = Command::new(&script)
                .args(["node", &number.to_string()])
                .arg(ring.folder.path().join(number.to_string()))
                .env("NETWORK", network)
                .env("CLIENT_PEM", &pem)
                .env("PASSWORDS", passwords)
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap();
            ring.nodes.push(Some(node));
            if number == 1 {
                // The first node is the seed: the others join through it.
                ring.wait(1, 7000);
            }
        }
        (1..=nodes).for_each(|number| ring.wait(number, 9042));
        ring
    }

    /// The addresses of the nodes in the ring of three.
    pub(crate) fn addresses() -> Vec<String> {
        (1..=NODES).map(|number| format!("{NETWORK}.{number}:9042")).collect()
    }

    /// The address of a node in the ring of three, without its port.
    pub(crate) fn host(number: usize) -> String {
        format!("{NETWORK}.{number}")
    }

    /// The address of the first node.
    pub(crate) fn first_address(&self) -> String {
        format!("{}.1:9042", self.network)
    }

    /// Kills a node, as a loss of power would.
    pub(crate) fn kill(&mut self, number: usize) {
        let mut node = self.nodes[number - 1].take().unwrap();
        node.kill().unwrap();
        node.wait().unwrap();
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("out{number}"))
    }

    fn wait(&mut self, number: usize, port: u16) {
        let address: SocketAddr = format!("{}.{number}:{port}", self.network).parse().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = self.nodes[number - 1].as_mut().unwrap().try_wait().unwrap();
            if ended.is_some() || begun.elapsed() > START_MAX {
                let said = std::fs::read_to_string(self.log(number)).unwrap_or_default();
                panic!("node {number} does not take requests: {ended:?}\n{said}");
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for mut node in self.nodes.drain(..).flatten() {
            // The node may have ended by itself; then this fails.
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra")
}
