//! Runs of wrk and h2load, from Debian's packages, alone on the second core.

use std::process::Command;

use crate::peers::{BODY_BYTES, LOAD_CORE, text};

/// Runs `program` with `arguments` on the core of the load; returns the requests per second that it
/// reports. Both wrk and `pellucid load` print a line of this form.
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

/// Runs GETs of wrk at full throttle; returns the requests per second.
pub fn full_throttle(url: &str, connections: usize, seconds: u64) -> Result<f64, String> {
    let (connections, seconds) = (connections.to_string(), format!("{seconds}s"));
    requests_per_second("wrk", &["-t", "1", "-c", &connections, "-d", &seconds, url])
}

/// Runs PUTs of wrk at full throttle, with a body as long as the study's values; returns the
/// requests per second.
pub fn full_throttle_put(url: &str, connections: usize, seconds: u64) -> Result<f64, String> {
    let body = "v".repeat(BODY_BYTES);
    let script = script_file(&format!("wrk.method = 'PUT'\nwrk.body = '{body}'\n"))?;
    let script = script.path().to_str().ok_or("the path of the script is no text")?;
    let (connections, seconds) = (connections.to_string(), format!("{seconds}s"));
    let arguments = ["-t", "1", "-c", &connections, "-d", &seconds, "-s", script, url];
    requests_per_second("wrk", &arguments)
}

/// Writes a script to a temporary file, which is removed with the result.
pub fn script_file(code: &str) -> Result<tempfile::NamedTempFile, String> {
    let file = tempfile::NamedTempFile::new().map_err(text)?;
    std::fs::write(file.path(), code).map_err(text)?;
    Ok(file)
}

/// Runs wrk with one connection; returns the median latency in microseconds.
pub fn median_latency_us(url: &str, seconds: u64) -> Result<f64, String> {
    let output = Command::new("taskset")
        .args(["-c", LOAD_CORE, "wrk", "-t", "1", "-c", "1", "--latency", "-d"])
        .args([&format!("{seconds}s"), url])
        .output()
        .map_err(text)?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = printed.lines().find_map(|line| line.trim().strip_prefix("50%"));
    let figure = line.ok_or_else(|| format!("wrk printed no median:\n{printed}"))?.trim();
    let digits = figure.trim_end_matches(char::is_alphabetic);
    let unit = match &figure[digits.len()..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        other => return Err(format!("wrk printed a latency in {other}")),
    };
    digits.parse::<f64>().map(|value| value * unit).map_err(text)
}

/// Runs h2load for `seconds`; returns the number of requests.
///
/// # Errors
///
/// A text, if h2load cannot be started or not all requests succeed.
pub fn h2load(url: &str, connections: usize, streams: usize, seconds: u64) -> Result<f64, String> {
    let output = Command::new("taskset")
        .args(["-c", LOAD_CORE, "h2load", "-c", &connections.to_string()])
        .args(["-m", &streams.to_string(), "-D", &seconds.to_string(), url])
        .output()
        .map_err(|error| format!("cannot start h2load: {error}; install nghttp2-client"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    // `requests: 159831 total, 159895 started, 159831 done, 159831 succeeded, 0 failed, …`
    let line = printed.lines().find(|line| line.starts_with("requests:"));
    let figures: Option<Vec<f64>> =
        line.map(|line| line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect());
    match figures.as_deref() {
        Some([total, _, _, succeeded, ..]) if *total > 0.0 && total == succeeded => Ok(*total),
        _ => Err(format!("h2load met errors:\n{printed}")),
    }
}
