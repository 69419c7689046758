//! When clients ask, and what it took.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::bars::median;

/// Clients at a time, each of which waits for its answer before it asks again.
pub const CLIENTS: usize = 4;
/// Keys that are asked for, in turn.
pub const KEYS: usize = 1_000;

/// See the module.
pub struct Plan {
    /// Between two requests of a client.
    pub interval: Duration,
    /// How long a run is.
    pub length: Duration,
}

impl Plan {
    /// So many requests a second, of all clients together.
    pub fn at(rate: f64, seconds: f64) -> Plan {
        let interval = Duration::from_secs_f64(CLIENTS as f64 / rate);
        Plan { interval, length: Duration::from_secs_f64(seconds) }
    }

    /// The median latency in milliseconds. It counts from when a request was due, but for the time
    /// by which the system wakes a client up too late.
    pub fn run<C>(
        &self,
        open: impl Fn() -> Outcome<C> + Sync,
        ask: impl Fn(&mut C, &str) -> Outcome<()> + Sync,
    ) -> Outcome<f64> {
        let count = (self.length.as_secs_f64() / self.interval.as_secs_f64()) as u32;
        let latencies = Mutex::new(Vec::new());
        let begun = Instant::now();
        let client = |number: usize| -> Outcome<()> {
            let mut connection = open()?;
            let mut mine = Vec::with_capacity(count as usize);
            for index in 0..count {
                let lead = self.interval.mul_f64(number as f64 / CLIENTS as f64);
                let due = begun + lead + self.interval * index;
                let ahead = due.saturating_duration_since(Instant::now());
                std::thread::sleep(ahead);
                let from = if ahead.is_zero() { due } else { Instant::now() };
                let key = (index as usize * CLIENTS + number) % KEYS;
                ask(&mut connection, &format!("key{key:06}"))?;
                mine.push(from.elapsed().as_secs_f64() * 1_000.0);
            }
            if let Ok(mut all) = latencies.lock() {
                all.extend(mine);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let client = &client;
            let clients: Vec<_> =
                (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
            clients.into_iter().try_for_each(|client| {
                client.join().unwrap_or_else(|_| Err("a client ended".to_owned()))
            })
        })?;
        let latencies = latencies.into_inner().map_err(crate::text)?;
        Ok(median(&latencies))
    }
}
