//! Compares a server in front of a ring with the driver itself: both send the same statements at
//! the same rate and consistency. The server and its clients share the core that the driver's
//! clients have alone; the ring is on the other core.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bars::{Bar, judge, median};
use crate::client::Client;
use crate::driver::Driver;
use crate::plan::{KEYS, Plan};
use crate::quiet_rounds::{columns, turns};
use crate::{Outcome, is_quick, setting, text};

/// The core of the clients and the server.
const CLIENT_CORE: usize = 0;
const KEYSPACE: &str = "bench";
const RATE_USUAL: f64 = 200.0;
const VALUE_BYTES: usize = 1_024;
/// The number of pairs of runs, whose median ratio is the result, and the seconds of each run.
const PAIRS: usize = 8;
const SECONDS: f64 = 6.0;
const PAIRS_QUICK: usize = 4;
const SECONDS_QUICK: f64 = 3.0;
/// The greatest ratio of the server's p50 to the driver's.
const RATIO_MOST: f64 = 1.15;
/// The time that nodes of the ring may need after their start to find each other.
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// Runs the benchmark; true if all bars hold.
pub fn run() -> Outcome<bool> {
    let nodes = std::env::var("RING").map_err(|_| "RING names the nodes, with commas")?;
    stay_on_core()?;
    let folder = tempfile::tempdir().map_err(text)?;
    let server = Server::start(&nodes, folder.path())?;
    let driver = Driver::open(&nodes.split(',').collect::<Vec<_>>(), KEYSPACE)?;
    let (pairs, seconds) = if is_quick() { (PAIRS_QUICK, SECONDS_QUICK) } else { (PAIRS, SECONDS) };
    let (rate, value) = (setting("RATE", RATE_USUAL)?, "v".repeat(VALUE_BYTES));
    fill(&server, &driver, &value)?;
    let plan = Plan::at(rate, seconds);
    let mut holds = true;
    for (method, body) in [("PUT", value.as_str()), ("GET", "")] {
        let ours = || {
            let ask = |client: &mut Client, key: &str| ask(client, method, key, body);
            plan.run(|| Client::connect(&server.address), ask)
        };
        let theirs = || plan.run(|| Ok(()), |(), key| driver.ask(method, key, body));
        (ours()?, theirs()?);
        let figures = turns(pairs, |is_ours| if is_ours { ours() } else { theirs() })?;
        let pair = |(our, their): &(f64, f64)| [*our, *their, our / their];
        let figures: Vec<_> = figures.iter().map(pair).collect();
        let [ours_ms, theirs_ms, ratios] = columns(&figures);
        println!(
            "{method}, {rate} requests/s: p50 {:.3} ms by Pellucid, {:.3} ms by the driver",
            median(&ours_ms),
            median(&theirs_ms)
        );
        let name = format!("cql_{}_p50_vs_driver", method.to_ascii_lowercase());
        holds &= judge(&name, &ratios, Bar::AtMost(RATIO_MOST));
    }
    Ok(holds)
}

/// Sends a PUT or GET of an entity, and waits for the complete answer.
fn ask(client: &mut Client, method: &str, key: &str, value: &str) -> Outcome<()> {
    client.call(method, &format!("/v0/entity?id={key}"), value).map(|_| ())
}

/// Puts all keys through both, and retries while the ring refuses.
fn fill(server: &Server, driver: &Driver, value: &str) -> Outcome<()> {
    let begun = Instant::now();
    let mut client = Client::connect(&server.address)?;
    for key in (0..KEYS).map(|key| format!("key{key:06}")) {
        loop {
            let put = ask(&mut client, "PUT", &key, value);
            match put.and_then(|()| driver.ask("PUT", &key, value)) {
                Ok(()) => break,
                Err(error) if begun.elapsed() > SETTLE_MAX => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(250)),
            }
        }
    }
    Ok(())
}

/// Binds this process and those that it starts to one core.
fn stay_on_core() -> Outcome<()> {
    // SAFETY: a set of processors is plain memory, and all zeros are the empty set.
    let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a local variable, and the core's number is below its size.
    unsafe { libc::CPU_SET(CLIENT_CORE, &mut cores) };
    // SAFETY: the set outlives the call, which is given its size.
    let set = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cores) };
    if set == 0 { Ok(()) } else { Err(text(std::io::Error::last_os_error())) }
}

/// A running Pellucid with one event loop.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(nodes: &str, folder: &Path) -> Outcome<Server> {
        let program = program();
        let mut child = Command::new(&program)
            .args(["serve", "--listen", "127.0.0.1:0", "--threads", "1", "--engine", "cql"])
            .args(["--cql", nodes, "--cql-keyspace", KEYSPACE, "--cql-replication", "3"])
            .arg("--data")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("no output to read")?;
        BufReader::new(stdout).read_line(&mut line).map_err(text)?;
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.ok_or("the server does not listen")?.to_owned();
        Ok(Server { child, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: the child was not waited for, so its id belongs to no other process.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

/// Returns the path of the release build of Pellucid.
fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("PELLUCID") {
        return PathBuf::from(program);
    }
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(usual, PathBuf::from);
    target.join("release/pellucid")
}
