//! The load as a process: the program's own generator with a script of wrk's.

use std::ffi::OsString;
use std::io::Write;
use std::process::Command;

use hdrhistogram::Histogram;
use serde_json::Value;

use crate::error::StudyError;

/// The generator, and what it loads.
#[derive(Clone, Copy)]
pub(crate) struct Generator<'a> {
    pub(crate) program: &'a OsString,
    pub(crate) url: &'a str,
    pub(crate) script: &'a str,
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    /// Whether each request goes to the owner of its key.
    pub(crate) is_direct: bool,
    /// Whether keys that are not there are asked for on purpose, and their 404 is no error.
    pub(crate) asks_for_missing: bool,
}

/// What a load shows.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) per_second: f64,
    /// Response times, in nanoseconds.
    pub(crate) times: Histogram<u64>,
}

impl Loaded {
    /// The response time at a quantile, in nanoseconds.
    pub(crate) fn at(&self, quantile: f64) -> f64 {
        self.times.value_at_quantile(quantile) as f64
    }
}

fn failed(error: impl std::fmt::Display) -> StudyError {
    StudyError::Step(format!("the load: {error}"))
}

impl Generator<'_> {
    /// Loads for so many seconds, at this rate or as fast as the connections can.
    pub(crate) fn run(&self, rate: Option<f64>, seconds: u64) -> Result<Loaded, StudyError> {
        let duration = format!("{seconds}s");
        let rate = rate.map(|rate| format!("{:.0}", rate.max(1.0)));
        let rate = rate.iter().flat_map(|rate| ["-R", rate]);
        let flags: Vec<&str> = ["-d", &duration].into_iter().chain(rate).collect();
        let result = self.call(&flags)?;
        let times = result["response_time"]["hdr_v2_base64"].as_str();
        let times = times.ok_or_else(|| failed("its result lacks the response times"))?;
        let times = pellucid_report::json::decoded(times).map_err(failed)?;
        Ok(Loaded { per_second: figure(&result["requests_per_second"])?, times })
    }

    /// The highest rate that is held with this 99th percentile, as `--find-max` finds it: once and
    /// soon, or three times with long trials. Nothing if none is.
    pub(crate) fn highest(&self, p99: &str, is_quick: bool) -> Option<f64> {
        let objective = format!("p99={p99}");
        let quick: &[&str] = if is_quick { &["--quick"] } else { &[] };
        let flags = [&["--find-max", "--slo", objective.as_str()][..], quick].concat();
        figure(&self.call(&flags).ok()?["rate_per_second"]).ok()
    }

    fn call(&self, flags: &[&str]) -> Result<Value, StudyError> {
        let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
        file.write_all(self.script.as_bytes()).map_err(failed)?;
        let mut command = Command::new(self.program);
        command.args(["load", "--json", "-c", &self.connections.to_string()]);
        command.args(["-t", &self.threads.to_string(), "-s"]).arg(file.path()).args(flags);
        if self.is_direct {
            command.arg("--direct");
        }
        if self.asks_for_missing {
            command.args(["--accept", "404"]);
        }
        let output = command.arg(self.url).output().map_err(failed)?;
        serde_json::from_slice(&output.stdout)
            .map_err(|_| failed(String::from_utf8_lossy(&output.stderr)))
    }
}

fn figure(value: &Value) -> Result<f64, StudyError> {
    value.as_f64().ok_or_else(|| failed("its result lacks a figure"))
}
