//! The stages of the demo: fill the store, find a rate below saturation, hold that rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pellucid_account::OperationAccount;
use pellucid_load::{Limit, LoadOptions, LoadResult, Target, run};

use crate::Failure;
use crate::demo::requests::{DemoRequests, Kind};
use crate::load::account::{PAUSE, of_run};
use crate::server_process::ServerProcess;

/// Connections while the store is filled.
const FILL_CONNECTIONS: usize = 8;
/// Requests in flight on each connection while the store is filled.
const FILL_DEPTH: usize = 32;
/// The duration of the load at full speed that measures the saturation rate.
const PROBE: Duration = Duration::from_secs(2);
/// The chosen rate as a share of the saturation rate.
const RATE_SHARE: f64 = 0.5;
/// The share of a rate that has to be answered for the rate to count as held.
const HELD_SHARE: f64 = 0.99;
/// The most attempts to hold a rate, which is halved after each that failed.
const RATE_TRIES: usize = 4;

/// The parameters that all stages share.
pub(crate) struct Plan {
    pub(crate) keys: u64,
    pub(crate) seconds: u64,
    pub(crate) rate: Option<u64>,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    /// True once a signal has ended the demo.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The result of a load at a constant rate, with the account of the server.
pub(crate) struct ConstantRateResult {
    pub(crate) result: LoadResult,
    pub(crate) account: Option<OperationAccount>,
}

impl Plan {
    fn options(&self, server: &ServerProcess, kind: Kind) -> Result<LoadOptions, Failure> {
        let target = Target::parse(&server.url("/v0/entity"))?;
        let host = target.host_header();
        let mut options = LoadOptions::new(target);
        options.sources = Some(Arc::new(DemoRequests { kind, keys: self.keys, host }));
        options.connections = self.connections;
        options.threads = self.threads;
        options.stop = Arc::clone(&self.stop);
        Ok(options)
    }

    /// Puts every key once.
    pub(crate) fn fill(&self, server: &ServerProcess) -> Result<LoadResult, Failure> {
        let mut options = self.options(server, Kind::Fill)?;
        options.connections = FILL_CONNECTIONS.max(self.threads);
        options.pipeline_depth = FILL_DEPTH;
        options.limit = Limit::Requests(self.keys);
        options.timeout = Duration::from_secs(30);
        let result = run_whole(&options)?;
        if result.requests < self.keys {
            let answered = result.requests;
            let keys = self.keys;
            return Err(Failure::work(format!("only {answered} of {keys} PUTs were answered")));
        }
        Ok(result)
    }

    /// The rate to hold: the requested one, or half of the saturation rate, rounded down to two
    /// digits.
    pub(crate) fn find_rate(&self, server: &ServerProcess, kind: Kind) -> Result<u64, Failure> {
        if let Some(rate) = self.rate {
            return Ok(rate);
        }
        let mut options = self.options(server, kind)?;
        options.limit = Limit::Duration(PROBE);
        let result = run_whole(&options)?;
        Ok(round_down((result.requests_per_second() * RATE_SHARE) as u64).max(1))
    }

    /// Runs a load at `rate` for the plan's duration; halves the rate while it cannot be held.
    pub(crate) fn hold(
        &self,
        server: &ServerProcess,
        kind: &Kind,
        rate: u64,
        say: &mut dyn FnMut(&str),
    ) -> Result<ConstantRateResult, Failure> {
        let mut rate = rate;
        for attempt in 1.. {
            std::thread::sleep(PAUSE);
            let mut options = self.options(server, kind.clone())?;
            options.limit = Limit::Duration(Duration::from_secs(self.seconds));
            options.rate_per_second = Some(rate);
            let result = run_whole(&options)?;
            if result.requests_per_second() >= rate as f64 * HELD_SHARE || attempt == RATE_TRIES {
                let account = of_run(&options, &result).into_iter().next();
                return Ok(ConstantRateResult { result, account });
            }
            say(&format!(
                "{rate} requests a second were not held ({:.0} answered): halving the rate",
                result.requests_per_second()
            ));
            rate = (rate / 2).max(1);
        }
        unreachable!("the last attempt returns whatever it measured")
    }
}

/// Runs a load, and fails if any request failed: figures must not count errors as answers.
fn run_whole(options: &LoadOptions) -> Result<LoadResult, Failure> {
    let outcome = run(options, &mut |_| {}).and_then(LoadResult::whole);
    if options.stop.load(Ordering::Relaxed) {
        return Err(Failure::work("the demo was interrupted"));
    }
    let result = outcome?;
    let errors = &result.errors;
    if result.stopped_early || errors.sockets() + errors.status > 0 {
        let first = result.first_error.as_deref().unwrap_or("the run was stopped");
        return Err(Failure::work(format!(
            "the load met {} failed requests, the first: {first}",
            errors.sockets() + errors.status
        )));
    }
    Ok(result)
}

/// Rounds down to two significant digits.
fn round_down(number: u64) -> u64 {
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    number / unit * unit
}

#[cfg(test)]
mod tests {
    use super::round_down;

    #[test]
    fn rates_are_round() {
        assert_eq!([0, 7, 99, 100, 12_999].map(round_down), [0, 7, 99, 100, 12_000]);
    }
}
