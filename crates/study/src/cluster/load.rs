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

/// What a load shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    pub(super) per_second: f64,
    pub(super) p50_ns: f64,
    pub(super) p90_ns: f64,
    pub(super) p99_ns: f64,
    pub(super) p99_9_ns: f64,
    pub(super) max_ns: f64,
}

impl Loaded {
    /// Names and values of the percentiles.
    pub(super) fn percentiles(self) -> [(&'static str, f64); 5] {
        [
            ("p50", self.p50_ns),
            ("p90", self.p90_ns),
            ("p99", self.p99_ns),
            ("p99.9", self.p99_9_ns),
            ("max", self.max_ns),
        ]
    }
}

/// Loads `url` for so many seconds, at this rate or as fast as the connections can.
pub(super) fn load(
    program: &OsString,
    url: &str,
    script: &str,
    rate: Option<f64>,
    seconds: u64,
) -> Result<Loaded, StudyError> {
    let failed = |error: &dyn std::fmt::Display| StudyError::Step(format!("the load: {error}"));
    let mut file = tempfile::NamedTempFile::new().map_err(|error| failed(&error))?;
    file.write_all(script.as_bytes()).map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.args(["load", "--json", "-c", &CONNECTIONS.to_string(), "-t", &THREADS.to_string()]);
    command.args(["-d", &format!("{seconds}s"), "-s"]).arg(file.path());
    if let Some(rate) = rate {
        command.args(["-R", &format!("{rate:.0}")]);
    }
    let output = command.arg(url).output().map_err(|error| failed(&error))?;
    let result: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| failed(&String::from_utf8_lossy(&output.stderr)))?;
    let of = |value: &Value| value.as_f64().ok_or_else(|| failed(&"its result lacks a figure"));
    let times = &result["service_time"];
    Ok(Loaded {
        per_second: of(&result["requests_per_second"])?,
        p50_ns: of(&times["p50_ns"])?,
        p90_ns: of(&times["p90_ns"])?,
        p99_ns: of(&times["p99_ns"])?,
        p99_9_ns: of(&times["p99.9_ns"])?,
        max_ns: of(&times["max_ns"])?,
    })
}
