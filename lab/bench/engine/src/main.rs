//! `bench-engine`: compares the engine with RocksDB, fjall, LMDB and redb, on the work of the
//! studies. Peers take turns within one call, each in its own process. The result is the median of
//! the ratios.
//!
//! `QUICK=1` is for a first look. `RUNS`, `KEYS` and `PEERS` (names separated by commas) replace
//! the defaults, `WORK` chooses the parts that run ([`parts`]), and `MEMORY_MB` is the memory
//! setting of our engine. The roles of a child can also be called by hand, to repeat one part on
//! the same store: `child fill rocksdb FOLDER 5000000`, then `child evict`, `child open`,
//! `child scan`.

#[path = "../../src/bars.rs"]
#[allow(dead_code, reason = "shared with a benchmark that uses more of it")]
mod bars;
mod cgroup;
mod child;
mod figures;
mod fjall_peer;
mod lmdb_peer;
mod parts;
mod pauses;
mod peer;
mod pellucid_peer;
mod process;
mod redb_peer;
mod rocksdb_peer;
mod suite;
mod verdict;
mod workload;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use crate::figures::Figures;
use crate::peer::{Outcome, PEERS, PEERS_OF_TABLE};

/// The number of keys, as in the studies.
const KEYS: u64 = 5_000_000;
const KEYS_OF_TABLE: u64 = 1_000_000;
const RUNS: usize = 3;
const KEYS_QUICK: u64 = 500_000;
const RUNS_QUICK: usize = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("child") => work_as_child(&arguments[1..]).map(|figures| {
            println!("{}", figures.to_json());
            true
        }),
        None => measure_all(),
        Some("table") => measure_table(),
        Some(other) => Err(format!("{other:?} is not known: there is `table`, or no argument")),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench-engine: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure_all() -> Outcome<bool> {
    let plan = plan_of(KEYS, &PEERS)?;
    let results = suite::run(&plan)?;
    verdict::show(&plan, &results);
    Ok(verdict::judge_all(&results))
}

/// Prints the table of the engine's README as Markdown.
fn measure_table() -> Outcome<bool> {
    let plan = plan_of(KEYS_OF_TABLE, &PEERS_OF_TABLE)?;
    verdict::show_table(&plan, &suite::run(&plan)?);
    Ok(true)
}

fn plan_of(keys: u64, peers: &[&str]) -> Outcome<suite::Plan> {
    let is_quick = std::env::var_os("QUICK").is_some_and(|value| value != "0");
    let (keys, runs) = if is_quick { (KEYS_QUICK, RUNS_QUICK) } else { (keys, RUNS) };
    parts::check()?;
    let peers = std::env::var("PEERS").unwrap_or_else(|_| peers.join(","));
    Ok(suite::Plan {
        keys: setting("KEYS", keys)?,
        runs: setting("RUNS", runs)?,
        peers: peers.split(',').map(str::to_owned).collect(),
    })
}

fn setting<T: FromStr>(name: &str, otherwise: T) -> Outcome<T> {
    match std::env::var(name) {
        Ok(value) => value.parse().map_err(|_| format!("{name}={value} is no number")),
        Err(_) => Ok(otherwise),
    }
}

fn work_as_child(arguments: &[String]) -> Outcome<Figures> {
    let [role, peer, folder, keys, more @ ..] = arguments else {
        return Err("a child takes a role, a peer, a folder and a number of keys".to_owned());
    };
    let keys = keys.parse().map_err(|_| format!("{keys} is no number of keys"))?;
    let task = child::Task { peer: peer.clone(), folder: PathBuf::from(folder), keys };
    match (role.as_str(), more) {
        ("fill", []) => child::fill(&task),
        ("open", []) => child::open(&task),
        ("scan", []) => child::scan_again(&task),
        ("evict", []) => process::evict(&task.folder).map(|()| Figures::default()),
        ("kill", []) => child::kill(&task),
        ("confined", [limit, groups]) => {
            let limit = limit.parse().map_err(|_| format!("{limit} is no number of bytes"))?;
            child::confined(&task, limit, Path::new(groups))
        }
        _ => Err(format!("there is no role {role:?} with {} more arguments", more.len())),
    }
}
