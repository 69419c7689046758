//! The client's side: it starts the server, sends the requests, and collects the figures of both
//! sides.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pellucid_account::Distribution;
use pellucid_load::{
    Limit, LoadOptions, LoadResult, RequestSource, Target, ThreadShare, run as load,
};
use pellucid_report::JudgedLoad;

use super::figures::{ServerFigures, powers, quantiles};
use super::plan::{KEYS, Operation, RunKey, ServerPlan, VALUE_BYTES};
use crate::error::StudyError;
use crate::loads::judged;
use crate::process::Process;
use crate::profile_recording::RecordedProfiles;

/// The name of the process in messages.
const SERVER: &str = "the server's process";
/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The number of requests of a run divided by that of its warm-up.
const WARM_UP_ONE_IN: u64 = 20;

/// The figures of one run, of both sides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunFigures {
    pub(crate) key: RunKey,
    pub(crate) server: ServerFigures,
    /// The client's times, from the first byte sent to the last byte received.
    pub(crate) client: Distribution,
    pub(crate) judged: JudgedLoad,
}

pub(super) struct ServerProcess {
    process: Process,
    address: SocketAddr,
    plan: ServerPlan,
}

impl ServerProcess {
    pub(super) fn start(program: &[OsString], plan: ServerPlan) -> Result<Self, StudyError> {
        let (process, address) = Process::serving(SERVER, program, &plan)?;
        Ok(ServerProcess { process, address, plan })
    }

    /// The process ID.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends requests without measuring them.
    pub(super) fn send(&self, operation: Operation, requests: u64) -> Result<(), StudyError> {
        self.load(operation, requests).map(|_| ())
    }

    /// Puts every key once, so that reads find them.
    pub(super) fn fill(&self) -> Result<(), StudyError> {
        self.send(Operation::Put, KEYS)
    }

    /// Sends `requests` requests of `operation`, one after the other, and returns the figures of
    /// both sides. `run` is the number of the run.
    pub(super) fn measure(
        &mut self,
        operation: Operation,
        requests: u64,
        run: usize,
    ) -> Result<RunFigures, StudyError> {
        self.load(operation, (requests / WARM_UP_ONE_IN).max(1))?;
        self.process.ask("begin")?;
        let result = self.load(operation, requests)?;
        let answer = self.process.ask(&format!("end {} {requests}", operation.accounted()))?;
        let server: ServerFigures = serde_json::from_str(&answer)
            .map_err(|error| StudyError::Step(format!("the server's figures: {error}")))?;
        let (transport, hand_over) = (self.plan.transport, self.plan.hand_over);
        let key = RunKey { operation, transport, hand_over };
        Ok(RunFigures {
            key,
            server,
            client: client_side(&result),
            judged: judged(key.title(), run, &result),
        })
    }

    /// The profiles of processor time, memory and waits of the server since it started.
    pub(super) fn profiles(&mut self) -> Result<RecordedProfiles, StudyError> {
        let answer = self.process.ask("profiles")?;
        serde_json::from_str(&answer)
            .map_err(|error| StudyError::Step(format!("the server's profiles: {error}")))
    }

    fn load(&self, operation: Operation, requests: u64) -> Result<LoadResult, StudyError> {
        let url = self.plan.transport.url(self.address);
        let target = Target::parse(&url).map_err(StudyError::step)?;
        let host = target.host_header();
        let mut options = LoadOptions::new(target);
        (options.connections, options.threads) = (1, 1);
        options.limit = Limit::Requests(requests);
        options.timeout = TIMEOUT;
        options.sources = Some(Arc::new(move |_: ThreadShare| {
            let host = host.clone();
            Box::new(Source { operation, host, number: 0 }) as Box<dyn RequestSource>
        }));
        self.plan.transport.set(&mut options);
        let result =
            load(&options, &mut |_| {}).and_then(LoadResult::whole).map_err(StudyError::step)?;
        let errors = result.errors.all();
        if errors > 0 || result.requests < requests {
            let (answered, hint) = (result.requests, result.first_error.unwrap_or_default());
            return Err(StudyError::Step(format!(
                "{answered} of {requests} requests for {} were answered, {errors} with errors: \
                 {hint}",
                operation.title()
            )));
        }
        Ok(result)
    }

    /// Stops the server cleanly.
    pub(super) fn stop(self) -> Result<(), StudyError> {
        self.process.stop()
    }
}

/// The requests of one operation.
struct Source {
    operation: Operation,
    host: String,
    number: u64,
}

impl RequestSource for Source {
    fn next(&mut self, out: &mut Vec<u8>) {
        let (number, host) = (self.number % KEYS, &self.host);
        self.number += 1;
        let head = match self.operation {
            Operation::Version => format!("GET /_api/version HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            Operation::Get => {
                format!("GET /v0/entity?id=key-{number} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            }
            Operation::Put => format!(
                "PUT /v0/entity?id=key-{number} HTTP/1.1\r\nHost: {host}\r\n\
                 Content-Length: {VALUE_BYTES}\r\n\r\n"
            ),
        };
        out.extend_from_slice(head.as_bytes());
        if self.operation == Operation::Put {
            out.resize(out.len() + VALUE_BYTES, b'v');
        }
    }
}

fn client_side(result: &LoadResult) -> Distribution {
    let histogram = &result.times.service;
    let steps = histogram.iter_recorded();
    Distribution {
        count: histogram.len(),
        min_ns: histogram.min(),
        mean_ns: histogram.mean(),
        max_ns: histogram.max(),
        log2: powers(steps.map(|of| (of.value_iterated_to(), of.count_since_last_iteration()))),
        ..quantiles(|quantile| histogram.value_at_quantile(quantile))
    }
}
