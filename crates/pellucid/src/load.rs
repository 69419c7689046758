//! `pellucid load`: the load generator with wrk2's flags.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use hdrhistogram::Histogram;
use pellucid_load::{
    Header, Limit, LoadError, LoadOptions, LoadResult, Progress, ScriptOptions, Target,
    parse_count, parse_duration, run as run_load, wrk2,
};

use crate::Failure;

/// Load an HTTP service and measure its latency.
///
/// With a rate, requests start on a schedule that slow answers do not delay, and latency counts
/// from the intended start. Without one, every connection sends as soon as it has its answer.
///
/// Example: pellucid load -c 64 -t 1 -d 20s -R 10000 -L -s put.lua http://127.0.0.1:8080
#[derive(Args)]
pub(crate) struct LoadArguments {
    /// What to load.
    url: String,
    /// Connections to keep open.
    #[arg(short, long, default_value = "10", value_parser = count)]
    connections: u64,
    /// Threads.
    #[arg(short, long, default_value = "2", value_parser = count)]
    threads: u64,
    /// Duration of the run, such as 20s or 2m.
    #[arg(short, long, default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Requests per second over all connections, such as 10k.
    #[arg(short = 'R', long, value_parser = count)]
    rate: Option<u64>,
    /// Print the distribution of latency and its detailed spectrum.
    #[arg(short = 'L', long)]
    latency: bool,
    /// A wrk or wrk2 script.
    #[arg(short, long)]
    script: Option<PathBuf>,
    /// A header of every request, as `Name: value`.
    #[arg(short = 'H', long = "header")]
    headers: Vec<String>,
    /// How long a request may take before it counts as timed out.
    #[arg(long, default_value = "2s", value_parser = duration)]
    timeout: Duration,
    /// Leave requests that start within this time out of the histograms.
    #[arg(long, default_value = "0s", value_parser = duration)]
    warm_up: Duration,
    /// Print the result as JSON instead.
    #[arg(long)]
    json: bool,
    /// Arguments of the script.
    #[arg(last = true)]
    arguments: Vec<String>,
}

fn count(text: &str) -> Result<u64, String> {
    parse_count(text).map_err(|error| error.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// Runs the load and prints what wrk2 would.
pub(crate) fn run(arguments: LoadArguments) -> Result<(), Failure> {
    let (latency, json) = (arguments.latency, arguments.json);
    let options = options_of(arguments)?;
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&options.stop))
        .map_err(Failure::work)?;
    // The script's own words, printed while it is set up, come before the header, as in wrk.
    let mut progress = |progress: Progress| {
        if progress == Progress::Ready && !json {
            print!("{}", wrk2::header(&options));
        }
    };
    let mut result = run_load(&options, &mut progress).map_err(failure_of)?;
    if json {
        println!("{}", json_of(&result));
    } else {
        print!("{}", wrk2::table(&result, latency));
    }
    result.call_done().map_err(failure_of)
}

fn options_of(arguments: LoadArguments) -> Result<LoadOptions, Failure> {
    let mut options = LoadOptions::new(Target::parse(&arguments.url).map_err(usage_of)?);
    let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    options.connections = small(arguments.connections);
    options.threads = small(arguments.threads);
    options.limit = Limit::Duration(arguments.duration);
    options.rate_per_second = arguments.rate;
    options.timeout = arguments.timeout;
    options.warm_up = arguments.warm_up;
    let headers = arguments.headers.iter().map(|text| Header::parse(text));
    options.headers = headers.collect::<Result<_, _>>().map_err(usage_of)?;
    let script_arguments = arguments.arguments;
    options.script =
        arguments.script.map(|path| ScriptOptions { path, arguments: script_arguments });
    options.check().map_err(usage_of)?;
    Ok(options)
}

fn failure_of(error: LoadError) -> Failure {
    Failure::work(error)
}

fn usage_of(error: LoadError) -> Failure {
    Failure::usage(error)
}

/// The result for programs.
fn json_of(result: &LoadResult) -> serde_json::Value {
    let errors = &result.errors;
    serde_json::json!({
        "schema": "pellucid.load.v1",
        "url": result.url,
        "started_unix_ms": result.started.unix_ms(),
        "duration_seconds": result.duration.as_secs_f64(),
        "threads": result.threads,
        "connections": result.connections,
        "rate_per_second": result.rate_per_second,
        "requests": result.requests,
        "requests_per_second": result.requests_per_second(),
        "unanswered": result.unanswered,
        "bytes": result.bytes,
        "errors": {
            "connect": errors.connect, "read": errors.read, "write": errors.write,
            "timeout": errors.timeout, "status": errors.status, "malformed": errors.malformed,
        },
        "response_time": histogram_json(&result.response_time),
        "service_time": histogram_json(&result.service_time),
        "send_lateness": histogram_json(&result.send_lateness),
        "stopped_early": result.stopped_early,
    })
}

fn histogram_json(histogram: &Histogram<u64>) -> serde_json::Value {
    let at = |quantile: f64| histogram.value_at_quantile(quantile);
    serde_json::json!({
        "count": histogram.len(),
        "mean_ns": histogram.mean(),
        "min_ns": histogram.min(),
        "p50_ns": at(0.5),
        "p90_ns": at(0.9),
        "p99_ns": at(0.99),
        "p99.9_ns": at(0.999),
        "p99.99_ns": at(0.9999),
        "max_ns": histogram.max(),
    })
}
