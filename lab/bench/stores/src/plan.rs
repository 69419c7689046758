//! The times at which clients send their requests, and the latencies.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::bars::median;

/// The number of clients. Each waits for its answer before its next request.
pub const CLIENTS: usize = 4;
/// The number of keys, which are requested in turn.
pub const KEYS: usize = 1_000;

/// The schedule of a run.
pub struct Plan {
    /// The time between two requests of a client.
    pub interval: Duration,
    /// The duration of a run.
    pub length: Duration,
}

impl Plan {
    /// Returns a schedule with `rate` requests per second of all clients together.
    pub fn at(rate: f64, seconds: f64) -> Plan {
        let interval = Duration::from_secs_f64(CLIENTS as f64 / rate);
        Plan { interval, length: Duration::from_secs_f64(seconds) }
    }

    /// Runs the schedule; returns the median latency in milliseconds. A latency counts from the
    /// time at which the request was due. If the client slept until then, it counts from its
    /// waking, so that a late wake-up by the system is left out.
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
