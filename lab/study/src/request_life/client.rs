//! The client's side: it starts the server, sends the requests, and collects the figures of both
//! sides.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use pellucid_account::Distribution;
use pellucid_load::{LoadOptions, LoadResult, RequestSource, Target, ThreadShare};
use pellucid_profile::RECORDING_HERTZ;
use pellucid_report::JudgedLoad;

use super::figures::{ServerFigures, powers, quantiles};
use super::plan::{KEYS, Operation, RunKey, ServerPlan, VALUE_BYTES};
use crate::child_server::ChildServer;
use crate::error::StudyError;
use crate::loads::{all_answered, judged};
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
    server: ChildServer,
    plan: ServerPlan,
}

impl ServerProcess {
    /// Starts the server, and profiles it from then on.
    pub(super) fn start(program: &[OsString], plan: ServerPlan) -> Result<Self, StudyError> {
        let mut server = ChildServer::start(SERVER, program, &plan)?;
        server.profile(RECORDING_HERTZ)?;
        Ok(ServerProcess { server, plan })
    }

    /// The process ID.
    pub(super) fn id(&self) -> u32 {
        self.server.id()
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
        self.server.ask::<()>("begin")?;
        let result = self.load(operation, requests)?;
        let end = format!("end {} {requests}", operation.accounted());
        let server: ServerFigures = self.server.ask(&end)?;
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
        self.server.profiles()
    }

    fn load(&self, operation: Operation, requests: u64) -> Result<LoadResult, StudyError> {
        let url = self.plan.transport.url(self.server.address());
        let target = Target::parse(&url).map_err(StudyError::step)?;
        let host = target.host_header();
        let mut options = LoadOptions::new(target);
        (options.connections, options.threads) = (1, 1);
        options.timeout = TIMEOUT;
        options.sources = Some(Arc::new(move |_: ThreadShare| -> Box<dyn RequestSource> {
            Box::new(source(operation, host.clone()))
        }));
        self.plan.transport.set(&mut options);
        all_answered(options, requests, &format!("requests for {}", operation.title()))
    }

    /// Stops the server cleanly.
    pub(super) fn stop(self) -> Result<(), StudyError> {
        self.server.stop()
    }
}

/// The requests of one operation.
fn source(operation: Operation, host: String) -> impl RequestSource {
    let mut number = 0;
    move |out: &mut Vec<u8>| {
        let head = match operation {
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
        if operation == Operation::Put {
            out.resize(out.len() + VALUE_BYTES, b'v');
        }
        number = (number + 1) % KEYS;
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
