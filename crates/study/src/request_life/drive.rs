//! The side of the client: it starts the server, puts the requests on, and has both sides'
//! figures.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pellucid_account::Distribution;
use pellucid_load::{
    Limit, LoadOptions, LoadResult, RequestSource, RequestSources, Target, ThreadShare, run,
};
use pellucid_report::ProfileSection;

use super::figures::ServerFigures;
use super::plan::{KEYS, Operation, RunKey, ServerPlan, VALUE_BYTES};
use crate::error::StudyError;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Of the requests of a run, one in so many is sent before it and not recorded.
const WARM_UP_ONE_IN: u64 = 20;

/// What both sides say of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunFigures {
    pub(crate) key: RunKey,
    pub(crate) server: ServerFigures,
    /// From the first byte sent to the last byte received.
    pub(crate) client: Distribution,
    pub(crate) requests_per_second: f64,
}

/// The process of a server.
pub(super) struct ServerProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
    plan: ServerPlan,
}

impl ServerProcess {
    pub(super) fn start(program: &[OsString], plan: ServerPlan) -> Result<Self, StudyError> {
        let failed = |what: String| StudyError::Step(format!("the server's process: {what}"));
        let [path, arguments @ ..] = program else {
            return Err(failed("it is not known how to start it".to_owned()));
        };
        let mut child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        let Some(output) = output else { return Err(failed("it has no output".to_owned())) };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let told = serde_json::to_string(&plan).map_err(|error| failed(error.to_string()))?;
        let mut process = ServerProcess { child, input, output, address, plan };
        let answer = process.ask(&told)?;
        process.address = answer.parse().map_err(|_| failed(format!("it says `{answer}`")))?;
        Ok(process)
    }

    fn ask(&mut self, line: &str) -> Result<String, StudyError> {
        let failed = |error: std::io::Error| {
            StudyError::Step(format!("the server's process does not answer: {error}"))
        };
        if let Some(input) = &mut self.input {
            writeln!(input, "{line}").and_then(|()| input.flush()).map_err(failed)?;
        }
        let mut answer = String::new();
        if self.output.read_line(&mut answer).map_err(failed)? == 0 {
            let what = "the server's process ended; its message is above";
            return Err(StudyError::Step(what.to_owned()));
        }
        Ok(answer.trim().to_owned())
    }

    /// Puts every key once, so that reads find them.
    pub(super) fn fill(&self) -> Result<(), StudyError> {
        self.load(Operation::Put, KEYS).map(|_| ())
    }

    /// Sends `requests` requests of `operation`, one after the other, and returns what both sides
    /// say of them.
    pub(super) fn measure(
        &mut self,
        operation: Operation,
        requests: u64,
    ) -> Result<RunFigures, StudyError> {
        self.load(operation, (requests / WARM_UP_ONE_IN).max(1))?;
        self.ask("begin")?;
        let result = self.load(operation, requests)?;
        let answer = self.ask(&format!("end {} {requests}", operation.accounted()))?;
        let server: ServerFigures = serde_json::from_str(&answer)
            .map_err(|error| StudyError::Step(format!("the server's figures: {error}")))?;
        let (transport, hand_over) = (self.plan.transport, self.plan.hand_over);
        Ok(RunFigures {
            key: RunKey { operation, transport, hand_over },
            server,
            client: client_side(&result),
            requests_per_second: result.requests_per_second(),
        })
    }

    /// Where processor time, memory and waits of the server went since it started.
    pub(super) fn profiles(&mut self) -> Result<Vec<ProfileSection>, StudyError> {
        let answer = self.ask("profiles")?;
        serde_json::from_str(&answer)
            .map_err(|error| StudyError::Step(format!("the server's profiles: {error}")))
    }

    fn load(&self, operation: Operation, requests: u64) -> Result<LoadResult, StudyError> {
        let step = |error: &dyn std::fmt::Display| StudyError::Step(error.to_string());
        let url = self.plan.transport.url(self.address);
        let target = Target::parse(&url).map_err(|error| step(&error))?;
        let host = target.host_header();
        let mut options = LoadOptions::new(target);
        (options.connections, options.threads) = (1, 1);
        options.limit = Limit::Requests(requests);
        options.timeout = TIMEOUT;
        options.sources = Some(Arc::new(Requests { operation, host }));
        self.plan.transport.set(&mut options);
        let result = run(&options, &mut |_| {}).map_err(|error| step(&error))?;
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

    /// Ends the server cleanly.
    pub(super) fn stop(mut self) -> Result<(), StudyError> {
        // Its input ends, and it with it.
        self.input = None;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                Err(StudyError::Step(format!("the server's process ended with {status}")))
            }
            Err(error) => Err(StudyError::Step(error.to_string())),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // One that was stopped has been waited for, and these do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The requests of one operation.
struct Requests {
    operation: Operation,
    host: String,
}

impl RequestSources for Requests {
    fn source(&self, _: ThreadShare) -> Box<dyn RequestSource> {
        Box::new(Source { operation: self.operation, host: self.host.clone(), number: 0 })
    }
}

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
    let histogram = &result.service_time;
    let quantile = |quantile: f64| histogram.value_at_quantile(quantile);
    let mut log2: Vec<(u64, u64)> = Vec::new();
    for step in histogram.iter_recorded() {
        let value = step.value_iterated_to();
        let power = if value == 0 { 0 } else { 1 << value.ilog2() };
        let count = step.count_since_last_iteration();
        match log2.last_mut() {
            Some((last, sum)) if *last == power => *sum += count,
            _ => log2.push((power, count)),
        }
    }
    Distribution {
        count: histogram.len(),
        min_ns: histogram.min(),
        q1_ns: quantile(0.25),
        mean_ns: histogram.mean(),
        q3_ns: quantile(0.75),
        max_ns: histogram.max(),
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p99_9_ns: quantile(0.999),
        p99_99_ns: quantile(0.9999),
        log2,
        buckets: Vec::new(),
    }
}
