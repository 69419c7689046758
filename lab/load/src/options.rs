//! The options of a run.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pellucid_clock::Clock;

use crate::error::LoadError;
use crate::schedule::Arrivals;
use crate::simulation::Simulation;
use crate::source::RequestSources;
use crate::stages::{Profile, Stage};
use crate::wrk2_timers::Pacer;
use pellucid_client::http::{CapturedResponse, Header, HttpRequest, Target, TlsOptions};

/// The largest number of connections that one process can reasonably hold open.
const MAX_CONNECTIONS: usize = 1_000_000;
/// The largest number of threads that is useful on any machine.
const MAX_THREADS: usize = 4_096;
/// The deepest pipeline of requests on one connection.
pub const MAX_PIPELINE_DEPTH: usize = 1_024;
/// The largest number of requests in flight on one HTTP/2 connection.
pub const MAX_STREAMS: usize = 1_024;
/// The highest rate that can be asked for, in requests per second.
const MAX_RATE_PER_SECOND: u64 = 1_000_000_000;

/// The longest pause of an answer to a question beside the load, and the time after which nothing
/// more is read of it.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// The limit that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The run ends after this time.
    Duration(Duration),
    /// The run ends when this many requests were answered or have failed.
    Requests(u64),
}

/// A wrk or wrk2 script and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOptions {
    /// The Lua file.
    pub path: PathBuf,
    /// The arguments after `--`, which `init` receives after the URL.
    pub arguments: Vec<String>,
}

/// The options of a run; the defaults are wrk's.
#[derive(Clone)]
pub struct LoadOptions {
    /// The service to load.
    pub target: Target,
    /// Connections kept open, over all threads (`-c`).
    pub connections: usize,
    /// Threads, each with its own event loop and its share of the connections (`-t`).
    pub threads: usize,
    /// The limit that ends the run (`-d`).
    pub limit: Limit,
    /// Requests per second over all connections. `None` is a closed loop: every connection sends
    /// its next request as soon as the last one is answered, as wrk does.
    pub rate_per_second: Option<u64>,
    /// The spread of the starts of requests, with a rate.
    pub arrivals: Arrivals,
    /// The method that times the sends (`--pacing`).
    pub pacer: Pacer,
    /// The stages of rate and connections over time, instead of `rate_per_second`. The run ends
    /// with the last stage, whatever `limit` is.
    pub stages: Vec<Stage>,
    /// True if a connection carries many requests; otherwise, every request opens its own
    /// connection.
    pub keep_alive: bool,
    /// The time that a request may take before it counts as timed out (`--timeout`).
    pub timeout: Duration,
    /// Requests with an intended start within this time are counted, but are left out of the
    /// histograms. wrk2 always leaves out its first ten seconds.
    pub warm_up: Duration,
    /// True if a batch of requests that a script sends at once is one measurement, from its start
    /// to its last answer (`-B`).
    pub measures_batches: bool,
    /// Headers of every request (`-H`).
    pub headers: Vec<Header>,
    /// Statuses from 400 on that are not errors (`--accept`), such as 404 if the load asks for
    /// missing keys on purpose. Sources that check answers judge statuses themselves.
    pub accepted_statuses: Vec<u16>,
    /// The script (`-s`). It excludes `sources`.
    pub script: Option<ScriptOptions>,
    /// The sources that make the requests in Rust, instead of a script.
    pub sources: Option<Arc<dyn RequestSources>>,
    /// Requests in flight on one connection when no rate is given.
    pub pipeline_depth: usize,
    /// The number of requests in flight on an HTTP/2 connection, with a rate or without; `None` is
    /// HTTP/1.1. Without TLS, the connection begins with HTTP/2 (prior knowledge, RFC 9113 section
    /// 3.3).
    pub http2_streams: Option<usize>,
    /// True if each request goes to the node of a sharded cluster that owns its key. The target is
    /// asked for the list of nodes, and every connection has a socket to each node.
    pub direct: bool,
    /// True if watched requests, at most about a thousand per second and thread, carry `Prefer:
    /// timing` and a `traceparent`, so that servers that can report their own time do so.
    pub ask_timing: bool,
    /// The certificates that a run against `https://` trusts.
    pub tls: TlsOptions,
    /// Set by the caller to end the run early; what was measured until then is kept.
    pub stop: Arc<AtomicBool>,
    /// Virtual time and a simulated service instead of the real clock and the target.
    pub simulation: Option<Arc<Simulation>>,
}

impl LoadOptions {
    /// wrk's defaults for `target`: 2 threads, 10 connections, 10 seconds, 2 seconds of timeout.
    #[must_use]
    pub fn new(target: Target) -> LoadOptions {
        LoadOptions {
            target,
            connections: 10,
            threads: 2,
            limit: Limit::Duration(Duration::from_secs(10)),
            rate_per_second: None,
            arrivals: Arrivals::Constant,
            pacer: Pacer::Exact,
            stages: Vec::new(),
            keep_alive: true,
            timeout: Duration::from_secs(2),
            warm_up: Duration::ZERO,
            measures_batches: false,
            headers: Vec::new(),
            accepted_statuses: Vec::new(),
            script: None,
            sources: None,
            pipeline_depth: 1,
            http2_streams: None,
            direct: false,
            ask_timing: false,
            tls: TlsOptions::default(),
            stop: Arc::new(AtomicBool::new(false)),
            simulation: None,
        }
    }

    /// True if requests start at times that do not depend on answers.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.rate_per_second.is_some() || self.stages.iter().any(|s| s.rate_per_second.is_some())
    }

    /// The limit that ends the run: the end of the last stage, if it has stages.
    #[must_use]
    pub fn effective_limit(&self) -> Limit {
        match self.stages.is_empty() {
            true => self.limit,
            false => Limit::Duration(self.stages.iter().map(|stage| stage.duration).sum()),
        }
    }

    /// The clock of the run.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.simulation.as_ref().map_or_else(Clock::system, |simulation| simulation.clock())
    }

    /// Lets time pass without a load, as between two runs.
    pub fn pause(&self, duration: Duration) {
        match &self.simulation {
            Some(simulation) => simulation.pass(duration),
            None => std::thread::sleep(duration),
        }
    }

    /// Sends a GET of `path` beside the load, with the credentials of its requests. It ends some
    /// seconds later at most. Returns the status, and the head and the body of the answer.
    ///
    /// # Errors
    /// The error in words, if the request failed or the service is simulated.
    pub fn ask(&self, path: &str) -> Result<(u16, CapturedResponse), String> {
        if self.simulation.is_some() {
            return Err("a simulated service is asked nothing beside its load".to_owned());
        }
        let line = self.authorization().map(|value| format!("Authorization: {value}\r\n"));
        let headers = line.as_deref().unwrap_or_default();
        let (patience, limit) = (ASK_LIMIT, Some(ASK_LIMIT));
        let request = HttpRequest { headers, patience, limit, ..HttpRequest::get(path) };
        request.ask(&self.target, &self.tls)
    }

    /// The value of the header `Authorization` of every request, if they have one.
    pub(crate) fn authorization(&self) -> Option<&str> {
        let is_it = |header: &&Header| header.name.eq_ignore_ascii_case("authorization");
        self.headers.iter().find(is_it).map(|header| header.value.as_str())
    }

    /// The rate and the number of connections over the run.
    pub(crate) fn profile(&self) -> Profile {
        match self.stages.is_empty() {
            true => Profile::constant(self.rate_per_second.unwrap_or(0), self.connections),
            false => Profile::new(&self.stages, self.connections),
        }
    }

    /// The length of the run, unless a number of requests ends it.
    fn duration(&self) -> Option<Duration> {
        match self.effective_limit() {
            Limit::Duration(duration) => Some(duration),
            Limit::Requests(_) => None,
        }
    }

    /// Checks what can be checked without touching the network.
    ///
    /// # Errors
    /// [`LoadError::Option`] names the option and what it must be.
    pub fn check(&self) -> Result<(), LoadError> {
        let rates = self.stages.iter().filter(|stage| stage.rate_per_second.is_some()).count();
        let checks: [(bool, &str); 25] = [
            (self.threads >= 1, "the number of threads must be at least 1"),
            (self.threads <= MAX_THREADS, "the number of threads must be at most 4096"),
            (self.connections >= self.threads, "number of connections must be >= threads"),
            (self.connections <= MAX_CONNECTIONS, "the number of connections must be at most 1M"),
            (self.rate_per_second != Some(0), "the rate must be at least 1 request per second"),
            (
                self.rate_per_second.is_none_or(|rate| rate <= MAX_RATE_PER_SECOND),
                "the rate must be at most 1G requests per second",
            ),
            (!self.timeout.is_zero(), "the timeout must be longer than zero"),
            (
                self.limit != Limit::Duration(Duration::ZERO),
                "the duration must be longer than zero",
            ),
            (
                (1..=MAX_PIPELINE_DEPTH).contains(&self.pipeline_depth),
                "the pipeline depth must be between 1 and 1024",
            ),
            (
                self.pipeline_depth == 1 || self.rate_per_second.is_none(),
                "a pipeline and a rate exclude each other: a late answer would hide in it",
            ),
            (
                self.script.is_none() || self.sources.is_none(),
                "a script and a request source exclude each other",
            ),
            (
                self.stages.is_empty() || self.rate_per_second.is_none(),
                "a rate and stages exclude each other: give every stage its rate",
            ),
            (
                rates == 0 || rates == self.stages.len(),
                "either every stage has a rate or none: a run is an open or a closed loop",
            ),
            (
                self.stages.iter().all(|stage| !stage.duration.is_zero()),
                "every stage must last longer than zero",
            ),
            (
                self.stages.iter().all(|s| s.connections.is_none_or(|n| n >= self.threads)),
                "every stage must have at least as many connections as there are threads (-t)",
            ),
            (
                self.stages.iter().all(|s| s.rate_per_second.unwrap_or(0) <= MAX_RATE_PER_SECOND),
                "the rate of a stage must be at most 1G requests per second",
            ),
            (
                self.arrivals == Arrivals::Constant || self.is_paced(),
                "Poisson arrivals need a rate",
            ),
            (
                self.pacer == Pacer::Exact
                    || self.rate_per_second.is_some()
                        && self.arrivals == Arrivals::Constant
                        && self.keep_alive
                        && self.http2_streams.is_none()
                        && !self.direct,
                "the pacing of wrk2 needs a rate, constant arrivals and HTTP/1.1 on connections \
                 that are kept",
            ),
            (
                self.http2_streams.is_none_or(|streams| (1..=MAX_STREAMS).contains(&streams)),
                "the number of streams must be between 1 and 1024",
            ),
            (
                self.http2_streams.is_none() || self.keep_alive && self.pipeline_depth == 1,
                "HTTP/2 keeps its connections and has streams instead of a pipeline",
            ),
            (
                self.keep_alive || self.pipeline_depth == 1,
                "a connection for each request leaves nothing to pipeline",
            ),
            (
                !self.direct
                    || self.keep_alive
                        && self.pipeline_depth == 1
                        && self.http2_streams.is_none()
                        && !self.target.is_tls()
                        && self.target.socket().is_none()
                        && self.simulation.is_none(),
                "--direct speaks HTTP/1.1 over TCP without TLS, as nodes do, on connections that \
                 are kept",
            ),
            (
                self.accepted_statuses.iter().all(|status| (400..=599).contains(status)),
                "a status to accept lies between 400 and 599: those below are right anyway",
            ),
            (
                self.simulation.is_none() || self.threads == 1,
                "a simulated run has one thread: virtual time has one hand",
            ),
            // After the durations: a run without a length is no fault of the warm-up.
            (
                self.duration().is_none_or(|duration| self.warm_up < duration),
                "the warm-up must be shorter than the run, of which it leaves out the beginning",
            ),
        ];
        match checks.iter().find(|(holds, _)| !holds) {
            Some((_, text)) => Err(LoadError::Option((*text).to_owned())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> LoadOptions {
        LoadOptions::new(Target::parse("http://localhost").unwrap())
    }

    #[test]
    fn the_defaults_are_valid() {
        options().check().unwrap();
    }

    #[test]
    fn fewer_connections_than_threads_are_refused_as_wrk_refuses_them() {
        let options = LoadOptions { connections: 1, threads: 2, ..options() };
        let text = options.check().unwrap_err().to_string();
        assert_eq!(text, "number of connections must be >= threads");
    }

    #[test]
    fn invalid_options_are_refused_with_the_reason() {
        let stage = |rate_per_second| {
            let duration = Duration::from_millis(1);
            Stage { duration, rate_per_second, ramp: false, connections: None }
        };
        let (warm_up, limit) = (Duration::from_secs(5), Limit::Duration(Duration::from_secs(5)));
        let (both, mixed) = (vec![stage(Some(1))], vec![stage(Some(1)), stage(None)]);
        let narrow = vec![Stage { connections: Some(1), ..stage(Some(1)) }];
        let rate = Some(10);
        for (refused, reason) in [
            (LoadOptions { warm_up, limit, ..options() }, "warm-up"),
            (LoadOptions { limit: Limit::Duration(Duration::ZERO), ..options() }, "the duration"),
            (LoadOptions { pipeline_depth: 2, rate_per_second: rate, ..options() }, "pipeline"),
            (LoadOptions { stages: mixed, ..options() }, "every stage"),
            (LoadOptions { stages: narrow, ..options() }, "as many connections as there are"),
            (LoadOptions { arrivals: Arrivals::Poisson, ..options() }, "need a rate"),
            (LoadOptions { rate_per_second: rate, stages: both, ..options() }, "a rate and stages"),
        ] {
            let Err(LoadError::Option(told)) = refused.check() else { panic!("{reason}") };
            assert!(told.contains(reason), "{told}");
        }
    }
}
