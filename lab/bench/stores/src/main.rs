//! `bench-stores`: measures the cost of the stores over other engines in comparison with those
//! engines themselves. Both sides run in turns within one call, and the result is the median of the
//! ratios.
//!
//! `rocksdb` compares the store over RocksDB with RocksDB's own interface. `cql` compares a server
//! in front of a ring with the driver. `scripts/bench-stores` starts the ring and runs both.

#[path = "../../src/bars.rs"]
#[allow(dead_code, reason = "shared with a benchmark that uses more of it")]
mod bars;
#[path = "../../src/client.rs"]
#[allow(dead_code, reason = "shared with a benchmark that uses more of it")]
mod client;
mod cql_overhead;
mod driver;
mod overhead;
#[path = "../../src/peers.rs"]
#[allow(dead_code, reason = "shared with a benchmark that uses more of it")]
mod peers;
mod plan;
#[path = "../../src/quiet_rounds.rs"]
mod quiet_rounds;

use std::path::Path;
use std::process::ExitCode;

use crate::peers::text;

/// The result of a step; an error ends the benchmark, and its text is printed.
type Outcome<T> = Result<T, String>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (what, file) = (arguments.next(), arguments.next());
    let outcome = match what.as_deref() {
        Some("rocksdb") => overhead::run(),
        Some(overhead::ONE_DATABASE) => overhead::run_one(Path::new(&file.unwrap_or_default())),
        Some("cql") => cql_overhead::run(),
        _ => Err("name the benchmark: rocksdb or cql".to_owned()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench-stores: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns true if `QUICK` asks for short runs.
fn is_quick() -> bool {
    std::env::var_os("QUICK").is_some_and(|value| value != "0")
}

/// Reads a number from the environment; returns `otherwise` if the variable is not set.
fn setting(name: &str, otherwise: f64) -> Outcome<f64> {
    match std::env::var(name) {
        Ok(value) => value.parse().map_err(|_| format!("{name}={value} is no number")),
        Err(_) => Ok(otherwise),
    }
}
