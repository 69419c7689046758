//! The load: the program's own generator as a process, with scripts that choose keys at random.

use std::ffi::OsString;
use std::io::Write;
use std::process::Command;

use serde_json::Value;

use crate::error::StudyError;

/// Connections and threads, as in the original.
pub(super) const CONNECTIONS: u32 = 64;
pub(super) const THREADS: u32 = 4;
/// Bytes of a value.
pub(super) const VALUE_BYTES: usize = 290;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Put,
    Get,
    /// GETs of which 3 in 10 are for keys that are not there.
    GetMissing,
}

impl Work {
    pub(super) const ALL: [Work; 3] = [Work::Put, Work::Get, Work::GetMissing];

    pub(super) fn title(self) -> &'static str {
        match self {
            Work::Put => "PUT",
            Work::Get => "GET",
            Work::GetMissing => "GET, 30 % missing",
        }
    }

    /// A script of wrk's. Keys are those of `keys`, in lines of Lua.
    pub(super) fn script(self, keys: &[String]) -> String {
        let mut script = String::from("local keys = {");
        for key in keys {
            script += &format!("'{key}',");
        }
        script += "}\nlocal count = #keys\n";
        script += &match self {
            Work::Put => {
                let value = "v".repeat(VALUE_BYTES);
                format!(
                    "wrk.method = 'PUT'\nwrk.body = '{value}'\nfunction request()\n  return \
                     wrk.format(nil, '/v0/entity?id=' .. keys[math.random(count)])\nend\n"
                )
            }
            Work::Get => "function request()\n  return wrk.format(nil, '/v0/entity?id=' .. \
                          keys[math.random(count)])\nend\n"
                .to_owned(),
            Work::GetMissing => "function request()\n  local key = keys[math.random(count)]\n  \
                                 if math.random(10) <= 3 then key = key .. '-none' end\n  return \
                                 wrk.format(nil, '/v0/entity?id=' .. key)\nend\n"
                .to_owned(),
        };
        script
    }
}

/// The percentiles of the original, and the most.
pub(super) const PERCENTILES: [(&str, f64); 8] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
    ("max", 1.0),
];
/// Which of them is the 50th, and which the 99th.
const P50: usize = 0;
const P99: usize = 3;

/// Where the bars of a histogram end, in microseconds; the last one has what is beyond.
pub(super) const BAR_ENDS_US: [u64; 12] =
    [50, 100, 200, 400, 700, 1_000, 2_000, 4_000, 10_000, 20_000, 40_000, 100_000];
/// Bars of a histogram.
pub(super) const BARS: usize = BAR_ENDS_US.len() + 1;

/// What a load shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    pub(super) per_second: f64,
    /// Response times at the percentiles, in nanoseconds.
    pub(super) percentiles_ns: [f64; PERCENTILES.len()],
    /// Shares of the requests by their response time.
    pub(super) shares: [f64; BARS],
}

impl Loaded {
    pub(super) fn p50_ns(&self) -> f64 {
        self.percentiles_ns[P50]
    }

    pub(super) fn p99_ns(&self) -> f64 {
        self.percentiles_ns[P99]
    }
}

/// The generator, and what it loads.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) program: &'a OsString,
    pub(super) url: &'a str,
    pub(super) script: &'a str,
    /// Whether each request goes to the owner of its key.
    pub(super) is_direct: bool,
}

fn failed(error: impl std::fmt::Display) -> StudyError {
    StudyError::Step(format!("the load: {error}"))
}

impl Load<'_> {
    /// Loads for so many seconds, at this rate or as fast as the connections can.
    pub(super) fn run(&self, rate: Option<f64>, seconds: u64) -> Result<Loaded, StudyError> {
        let duration = format!("{seconds}s");
        let rate = rate.map(|rate| format!("{:.0}", rate.max(1.0)));
        let rate = rate.iter().flat_map(|rate| ["-R", rate]);
        let flags: Vec<&str> = ["-d", &duration].into_iter().chain(rate).collect();
        let result = self.call(&flags)?;
        let times = result["response_time"]["hdr_v2_base64"].as_str();
        let times = times.ok_or_else(|| failed("its result lacks the response times"))?;
        let times = pellucid_report::json::decoded(times).map_err(failed)?;
        let mut shares = [0.0; BARS];
        // By recorded values, each of which is in one bar: what a histogram counts between two
        // values has those on either border, too.
        for times_here in times.iter_recorded() {
            let at_us = times_here.value_iterated_to() / 1_000;
            let bar = BAR_ENDS_US.partition_point(|end_us| *end_us <= at_us);
            let count = times_here.count_since_last_iteration();
            shares[bar] += count as f64 / times.len() as f64;
        }
        Ok(Loaded {
            per_second: figure(&result["requests_per_second"])?,
            percentiles_ns: PERCENTILES.map(|(_, at)| times.value_at_quantile(at) as f64),
            shares,
        })
    }

    /// The highest rate that is held with this 99th percentile, as `--find-max` finds it: once and
    /// soon, or three times with long trials. Nothing if none is.
    pub(super) fn highest(&self, p99: &str, is_quick: bool) -> Option<f64> {
        let objective = format!("p99={p99}");
        let quick: &[&str] = if is_quick { &["--quick"] } else { &[] };
        let flags = [&["--find-max", "--slo", objective.as_str()][..], quick].concat();
        figure(&self.call(&flags).ok()?["rate_per_second"]).ok()
    }

    fn call(&self, flags: &[&str]) -> Result<Value, StudyError> {
        let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
        file.write_all(self.script.as_bytes()).map_err(failed)?;
        let mut command = Command::new(self.program);
        command.args(["load", "--json", "-c", &CONNECTIONS.to_string()]);
        // Keys that are not there are asked for on purpose, and are no errors.
        command.args(["-t", &THREADS.to_string(), "--accept", "404"]);
        command.arg("-s").arg(file.path()).args(flags);
        if self.is_direct {
            command.arg("--direct");
        }
        let output = command.arg(self.url).output().map_err(failed)?;
        serde_json::from_slice(&output.stdout)
            .map_err(|_| failed(String::from_utf8_lossy(&output.stderr)))
    }
}

fn figure(value: &Value) -> Result<f64, StudyError> {
    value.as_f64().ok_or_else(|| failed("its result lacks a figure"))
}
