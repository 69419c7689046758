//! Runs the program's own load generator as a process, with a wrk script.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use hdrhistogram::Histogram;
use pellucid_report::JudgedLoad;
use serde_json::Value;

use crate::error::StudyError;

/// A load generator and its target.
#[derive(Clone, Copy)]
pub(crate) struct Generator<'a> {
    pub(crate) program: &'a OsString,
    pub(crate) url: &'a str,
    pub(crate) script: &'a str,
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    /// True if each request goes to the owner of its key.
    pub(crate) is_direct: bool,
    /// True if requests ask for missing keys on purpose, so that 404 is no error.
    pub(crate) asks_for_missing: bool,
}

/// The figures of a load.
#[derive(Clone, Debug)]
pub(crate) struct LoadFigures {
    pub(crate) judged: JudgedLoad,
    /// Response times, in nanoseconds.
    pub(crate) times: Histogram<u64>,
}

impl LoadFigures {
    /// The response time at a quantile, in nanoseconds.
    pub(crate) fn at(&self, quantile: f64) -> f64 {
        self.times.value_at_quantile(quantile) as f64
    }
}

fn failed(error: impl std::fmt::Display) -> StudyError {
    StudyError::Step(format!("the load: {error}"))
}

impl Generator<'_> {
    /// Runs a load for `time`, at this rate in requests per second, or as fast as the connections
    /// can.
    ///
    /// # Errors
    /// If the generator fails, or any request fails: refusals are quick, and would improve the
    /// figures.
    pub(crate) fn run(&self, rate: Option<f64>, time: Duration) -> Result<LoadFigures, StudyError> {
        let duration = format!("{}ms", time.as_millis());
        let rate = rate.map(|rate| format!("{:.0}", rate.max(1.0)));
        let rate = rate.iter().flat_map(|rate| ["-R", rate]);
        let flags: Vec<&str> = ["-d", &duration].into_iter().chain(rate).collect();
        let (result, status) = self.call(&flags)?;
        check_errors(&result)?;
        if !status.success() {
            return Err(failed(format!("it ended with {status}")));
        }
        let times = result["response_time"]["hdr_v2_base64"].as_str();
        let times = times.ok_or_else(|| failed("its result lacks the response times"))?;
        let times = pellucid_report::histogram_text::decoded(times).map_err(failed)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let evidence = result["verdict"]["evidence"].as_array().into_iter().flatten().map(text);
        let judged = JudgedLoad {
            offered_per_second: result["offered_per_second"].as_f64(),
            answered_per_second: figure(&result["requests_per_second"])?,
            p99_ns: Some(times.value_at_quantile(0.99) as f64),
            verdict: text(&result["verdict"]["name"]),
            evidence: evidence.collect::<Vec<_>>().join(" "),
            ..JudgedLoad::default()
        };
        Ok(LoadFigures { judged, times })
    }

    /// Finds the highest rate with this 99th percentile, with `--find-max`. If `is_quick`, it
    /// searches once with short trials, otherwise three times with long ones. `None` if no rate
    /// keeps the objective, or the generator fails; then a note with the reason is added to
    /// `notes`, in which `name` stands for the load.
    pub(crate) fn highest(
        &self,
        name: &str,
        p99: &str,
        is_quick: bool,
        notes: &mut Vec<String>,
    ) -> Option<f64> {
        let objective = format!("p99={p99}");
        let quick: &[&str] = if is_quick { &["--quick"] } else { &[] };
        let flags = [&["--find-max", "--slo", objective.as_str()][..], quick].concat();
        let found = self.call(&flags).and_then(|(found, status)| match status.success() {
            true => figure(&found["rate_per_second"]),
            false => Err(failed(found["failure"].as_str().unwrap_or("it does not tell why"))),
        });
        let note = |error| {
            notes.push(format!(
                "{name}: the search for the highest rate found none, so the rate of a closed loop \
                 stands in its place ({error})."
            ));
        };
        found.map_err(note).ok()
    }

    fn call(&self, flags: &[&str]) -> Result<(Value, ExitStatus), StudyError> {
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
        let result = serde_json::from_slice(&output.stdout).map_err(|_| {
            let messages = String::from_utf8_lossy(&output.stderr);
            failed(format!("it ended with {}: {}", output.status, messages.trim()))
        })?;
        Ok((result, output.status))
    }
}

fn figure(value: &Value) -> Result<f64, StudyError> {
    value.as_f64().ok_or_else(|| failed("its result lacks a figure"))
}

/// Fails if the result counts errors of any kind.
fn check_errors(result: &Value) -> Result<(), StudyError> {
    let kinds = result["errors"].as_object();
    let kinds = kinds.ok_or_else(|| failed("its result does not count errors"))?;
    let mut met = Vec::new();
    for (kind, count) in kinds {
        let count =
            count.as_u64().ok_or_else(|| failed("its result has an error without count"))?;
        if count > 0 {
            met.push(format!("{kind} {count}"));
        }
    }
    if met.is_empty() {
        return Ok(());
    }
    let first = result["first_error"].as_str().unwrap_or("not told");
    let (met, requests) = (met.join(", "), &result["requests"]);
    Err(failed(format!("of {requests} requests, some failed ({met}); the first: {first}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Regression: why a search failed was told nowhere.
    #[test]
    fn a_search_that_fails_leaves_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("generator");
        let told = |script: &str| {
            // By a shell: a file that this process has open for writing could not be run, not even
            // if only a child that another test is about to start had it open.
            let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod 700 "$2""#;
            let mut shell = Command::new("/bin/sh");
            assert!(
                shell.args(["-c", write, "sh", script]).arg(&program).status().unwrap().success()
            );
            let (connections, threads, url, script) = (1, 1, "http://127.0.0.1:1", "");
            let (is_direct, asks_for_missing) = (false, false);
            let program = &program.clone().into_os_string();
            let generator = Generator {
                program,
                url,
                script,
                connections,
                threads,
                is_direct,
                asks_for_missing,
            };
            let mut notes = Vec::new();
            (generator.highest("PUT", "1ms", true, &mut notes), notes.join("\n"))
        };
        let found = |rate: &str| format!("echo '{{\"rate_per_second\":{rate}}}'");
        assert_eq!(told(&found("7.5")), (Some(7.5), String::new()));
        for (script, expected) in [
            (&*found("null"), "lacks a figure"),
            ("echo '{\"failure\":\"no rate is held\"}'; exit 1", "(the load: no rate is held)"),
            ("echo no server >&2; exit 1", "it ended with exit status: 1: no server"),
        ] {
            let (rate, note) = told(script);
            assert_eq!(rate, None);
            assert!(note.starts_with("PUT: ") && note.contains(expected), "{note}");
        }
    }

    /// Regression: a load whose requests were all answered with 504 had the best figures of all.
    #[test]
    fn a_load_with_errors_fails() {
        let result = |errors: Value| {
            let first = "the owner cannot be reached";
            check_errors(&json!({ "requests": 7, "errors": errors, "first_error": first }))
        };
        assert!(result(json!({ "status": 0, "timeout": 0 })).is_ok());
        let error = result(json!({ "status": 5, "timeout": 0 })).unwrap_err().to_string();
        assert!(error.contains("status 5") && error.contains("cannot be reached"), "{error}");
        assert!(result(json!({ "status": "5" })).is_err() && result(json!(null)).is_err());
    }
}
