//! The result of a load as JSON, schema `pellucid.load.v1`; docs/load.md describes its members.

use hdrhistogram::Histogram;
use pellucid_account::OperationAccount;
use pellucid_load::{Arrivals, DirectResult, Interval, Judgement, LoadResult, OperationResult};
use pellucid_report::histogram_text::encoded;
use pellucid_report::{Machine, command_line};
use serde_json::{Value, json};

use super::background::BackgroundWork;
use super::latency_breakdowns::LatencyBreakdowns;

/// The name of the schema.
pub(crate) const SCHEMA: &str = "pellucid.load.v1";

/// Converts a result to JSON.
pub(super) fn of(
    result: &LoadResult,
    judgement: &Judgement,
    account: Option<&OperationAccount>,
    ways: &LatencyBreakdowns,
    background: &BackgroundWork,
) -> Value {
    let mut document = figures(result);
    let seconds: Vec<f64> =
        result.per_thread.iter().map(|thread| thread.cpu_time.as_secs_f64()).collect();
    let more = json!({
        "command": command_line(),
        "machine": Machine::of_this_machine(env!("CARGO_PKG_VERSION")),
        "verdict": {
            "name": judgement.verdict.name(),
            "meaning": judgement.verdict.meaning(),
            "evidence": judgement.evidence,
        },
        "first_error": result.first_error,
        "failure": result.failure.as_ref().map(ToString::to_string),
        "cpu_seconds_by_thread": seconds,
        "longest_silence": {
            "end_ns": result.course.silence.end_ns,
            "length_ns": result.course.silence.length_ns,
            "at_end_ns": result.course.silence.at_end_ns,
        },
        "processor_waits": {
            "generator_ns": result.processor_waits.generator_ns,
            "server_ns": result.processor_waits.server_ns,
            "either_ns": result.processor_waits.either_ns,
            "others_share": result.processor_waits.others_share,
        },
        "operations": result.operations.iter().map(operation).collect::<Vec<_>>(),
        "throughput_per_second": result.course.throughput_per_second,
        "timeline": result.course.timeline.iter().map(interval).collect::<Vec<_>>(),
        "account": account,
        "ways": ways.json(result),
        "background": background.json(),
    });
    if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
        document.extend(more);
    }
    document
}

fn figures(result: &LoadResult) -> Value {
    let errors = &result.errors;
    json!({
        "schema": SCHEMA,
        "url": result.load.url,
        "started_unix_ms": result.started.unix_ms(),
        "duration_seconds": result.duration.as_secs_f64(),
        "threads": result.load.threads,
        "connections": result.load.connections,
        "keep_alive": result.load.keep_alive,
        "protocol": result.load.protocol,
        "rate_per_second": result.load.rate_per_second,
        "offered_per_second": result.load.offered_per_second,
        "arrivals": match result.load.arrivals {
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
        },
        "pacing": result.load.pacer.name(),
        "requests": result.requests,
        "requests_per_second": result.requests_per_second(),
        "unanswered": result.unanswered,
        "failed_requests": errors.failed_requests,
        "sent_again": result.sent_again,
        "bytes": result.bytes,
        "errors": {
            "connect": errors.connect, "read": errors.read, "write": errors.write,
            "timeout": errors.timeout, "status": errors.status, "malformed": errors.malformed,
            "check": errors.check, "left_out": errors.left_out,
        },
        "response_time": histogram(&result.times.response),
        "service_time": histogram(&result.times.service),
        "unanswered_time": histogram(&result.times.unanswered),
        "send_lateness": histogram(&result.times.send_lateness),
        "connection_wait": histogram(&result.times.connection_wait),
        "generator_delay": histogram(&result.times.generator_delay),
        "connect_time": histogram(&result.times.connect),
        "tls_time": histogram(&result.times.tls),
        "stopped_early": result.stopped_early,
    })
}

/// The nodes that requests went to, each with its account of the operation that occurred most.
pub(super) fn direct(direct: &DirectResult, accounts: &[Option<OperationAccount>]) -> Value {
    let nodes = direct.nodes.iter().zip(accounts).map(|((url, requests), account)| {
        json!({ "url": url, "requests": requests, "account": account })
    });
    json!({ "nodes": nodes.collect::<Vec<_>>(), "by_another": direct.by_another })
}

fn operation(operation: &OperationResult) -> Value {
    json!({
        "name": operation.name,
        "requests": operation.requests,
        "errors": operation.errors,
        "response_time": histogram(&operation.response_time),
        "service_time": histogram(&operation.service_time),
    })
}

fn interval(interval: &Interval) -> Value {
    json!({
        "begin_ns": interval.begin_ns,
        "length_ns": interval.length_ns,
        "answered": interval.answered,
        "errors": interval.errors,
        "backlog": interval.backlog,
        "response_time_hdr_v2_base64": encoded(&interval.histogram()),
    })
}

fn histogram(histogram: &Histogram<u64>) -> Value {
    let at = |quantile: f64| histogram.value_at_quantile(quantile);
    json!({
        "count": histogram.len(),
        "mean_ns": histogram.mean(),
        "min_ns": histogram.min(),
        "p50_ns": at(0.5),
        "p90_ns": at(0.9),
        "p99_ns": at(0.99),
        "p99.9_ns": at(0.999),
        "p99.99_ns": at(0.9999),
        "max_ns": histogram.max(),
        "hdr_v2_base64": encoded(histogram),
    })
}
