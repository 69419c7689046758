//! wrk, from Debian's package, alone on the second core.

use std::process::Command;

use crate::peers::{LOAD_CORE, text};

/// Requests per second that `program` with `arguments` reports, on the core of the load. Both wrk
/// and `pellucid load` end with a line of this form.
pub fn requests_per_second(program: &str, arguments: &[&str]) -> Result<f64, String> {
    let output = Command::new("taskset")
        .args(["-c", LOAD_CORE, program])
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if printed.contains("Non-2xx") || printed.contains("Socket errors") {
        return Err(format!("{program} met errors:\n{printed}"));
    }
    let line = printed.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    let line = line.ok_or_else(|| {
        format!("{program} printed no rate:\n{printed}{}", String::from_utf8_lossy(&output.stderr))
    })?;
    line.trim().parse().map_err(text)
}

/// wrk at full throttle.
pub fn full_throttle(url: &str, connections: usize, seconds: u64) -> Result<f64, String> {
    let (connections, seconds) = (connections.to_string(), format!("{seconds}s"));
    requests_per_second("wrk", &["-t", "1", "-c", &connections, "-d", &seconds, url])
}
