//! Compares a server in front of a ring with the driver itself: both send the same statements at
//! the same rate and consistency. The server and its clients share the core that the driver's
//! clients have alone; the ring is on the other core.

use std::time::{Duration, Instant};

use crate::bars::{Bar, judge, median};
use crate::client::Client;
use crate::driver::Driver;
use crate::peers::{SERVER_CORE, Server, pin_to, serve_in};
use crate::plan::{KEYS, Plan};
use crate::quiet_rounds::{columns, turns};
use crate::{Outcome, is_quick, setting, text};

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
    pin_to(SERVER_CORE)?;
    let folder = tempfile::tempdir().map_err(text)?;
    let flags =
        ["--engine", "cql", "--cql", &nodes, "--cql-keyspace", KEYSPACE, "--cql-replication", "3"];
    let server = serve_in(folder.path(), "127.0.0.1:0", &flags)?;
    let driver = Driver::open(&nodes.split(',').collect::<Vec<_>>(), KEYSPACE)?;
    let (pairs, seconds) = if is_quick() { (PAIRS_QUICK, SECONDS_QUICK) } else { (PAIRS, SECONDS) };
    let (rate, value) = (setting("RATE", RATE_USUAL)?, "v".repeat(VALUE_BYTES));
    fill(&server, &driver, &value)?;
    let plan = Plan::at(rate, seconds);
    let mut holds = true;
    for (method, body) in [("PUT", value.as_str()), ("GET", "")] {
        let ours = || {
            let ask = |client: &mut Client, key: &str| ask(client, method, key, body);
            plan.run(|| Client::connect(server.address()), ask)
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
    let mut client = Client::connect(server.address())?;
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
