//! The tables of wrk and wrk2, line for line.
//!
//! Scripts parse these tables and plots are made from them, so the layout is kept, down to the
//! width of the columns. Figures that wrk2 does not have come after the last line.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use crate::histograms::in_microseconds;
use crate::options::{Limit, LoadOptions};
use crate::result::LoadResult;
use crate::units::{format_binary, format_metric, format_run_time, format_time_us};

/// The number of counters in a bucket of a histogram with three digits, as wrk2 reports it.
const SUB_BUCKETS: u32 = 2_048;
/// The interval at which wrk and this generator sample the rate, in milliseconds.
const SAMPLING_INTERVAL_MS: u64 = 100;
/// wrk2's names of its distributions.
const CORRECTED: &str = "Recorded Latency";
const UNCORRECTED: &str =
    "Uncorrected Latency (measured without taking delayed starts into account)";
/// Steps of the spectrum for every halving of the distance to 100 %, as in wrk2.
const TICKS_PER_HALF_DISTANCE: u32 = 5;
/// The percentiles of wrk2's short distribution.
const WRK2_PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];
/// The percentiles of wrk's.
const WRK_PERCENTILES: [f64; 4] = [50.0, 75.0, 90.0, 99.0];

/// The two lines that come before the run.
#[must_use]
pub fn header(options: &LoadOptions) -> String {
    let time = match options.effective_limit() {
        Limit::Duration(duration) => format_run_time(duration),
        Limit::Requests(requests) => format!("{requests} requests"),
    };
    format!(
        "Running {time} test @ {}\n  {} threads and {} connections\n",
        options.target.url(),
        options.threads,
        options.connections
    )
}

/// The distributions of latency that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distributions {
    /// None.
    #[default]
    None,
    /// The distribution from the intended start (`-L`).
    Corrected,
    /// Both that and, of a run with a rate, the one from the actual send (`-U`).
    Both,
}

/// The table that comes after the run, in the layout of wrk2 for a run with a rate, and of wrk
/// otherwise.
#[must_use]
pub fn table(result: &LoadResult, shown: Distributions) -> String {
    let times_us = in_microseconds(&result.times.response);
    let paced = result.load.paced;
    let mut out = String::new();
    if paced {
        calibration(&mut out, result);
    }
    thread_stats(&mut out, &times_us, &result.course.request_rates);
    match (shown, paced) {
        (Distributions::None, _) => {}
        (_, false) => distribution(&mut out, &times_us),
        (_, true) => spectrum(&mut out, &times_us, CORRECTED),
    }
    if paced && shown == Distributions::Both {
        out.push('\n');
        spectrum(&mut out, &in_microseconds(&result.times.service), UNCORRECTED);
    }
    summary(&mut out, result);
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string cannot fail");
    out.push('\n');
}

fn calibration(out: &mut String, result: &LoadResult) {
    for thread in &result.per_thread {
        let mean_ms = thread.mean_response_time_ns / 1e6;
        line(
            out,
            format_args!(
                "  Thread calibration: mean lat.: {mean_ms:.3}ms, \
                 rate sampling interval: {SAMPLING_INTERVAL_MS}ms"
            ),
        );
    }
}

fn thread_stats(out: &mut String, times_us: &Histogram<u64>, rates: &Histogram<u64>) {
    line(
        out,
        format_args!("  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev"),
    );
    stats_line(out, "Latency", times_us, lowest_max(times_us), format_time_us);
    stats_line(out, "Req/Sec", rates, rates.max(), format_metric);
}

fn stats_line(
    out: &mut String,
    name: &str,
    values: &Histogram<u64>,
    max: u64,
    format: fn(f64) -> String,
) {
    let (mean, stdev) = (values.mean(), values.stdev());
    let (low, high) = ((mean - stdev).max(0.0), mean + stdev);
    let within = match values.len() {
        0 => 0.0,
        all => values.count_between(low.ceil() as u64, high as u64) as f64 * 100.0 / all as f64,
    };
    line(
        out,
        format_args!(
            "    {name:<10}{}{}{}{within:>8.2}%",
            padded(&format(mean), 8),
            padded(&format(stdev), 10),
            padded(&format(max as f64), 9),
        ),
    );
}

/// Right-aligned so that the digits end in the same column: a unit of two letters takes both
/// columns after it, one of one letter leaves one free.
fn padded(amount: &str, width: usize) -> String {
    let letters = amount.bytes().rev().take(2).filter(u8::is_ascii_alphabetic).count();
    let pad = 2 - letters;
    format!("{amount:>width$}{:pad$}", "", width = width - pad)
}

fn distribution(out: &mut String, times_us: &Histogram<u64>) {
    line(out, format_args!("  Latency Distribution"));
    for percentile in WRK_PERCENTILES {
        let value = format_time_us(times_us.value_at_percentile(percentile) as f64);
        line(out, format_args!("{percentile:>7.0}%{}", padded(&value, 10)));
    }
}

fn spectrum(out: &mut String, times_us: &Histogram<u64>, name: &str) {
    line(out, format_args!("  Latency Distribution (HdrHistogram - {name})"));
    for percentile in WRK2_PERCENTILES {
        let value = format_time_us(times_us.value_at_percentile(percentile) as f64);
        line(out, format_args!("{percentile:>7.3}%{}", padded(&value, 10)));
    }
    line(out, format_args!("\n  Detailed Percentile spectrum:"));
    let columns = ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"];
    let [value, percentile, count, inverse] = columns;
    line(out, format_args!("{value:>12} {percentile:>12} {count:>12} {inverse:>12}\n"));
    let mut count = 0;
    for step in times_us.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        count += step.count_since_last_iteration();
        let value_ms = milliseconds(times_us.highest_equivalent(step.value_iterated_to()));
        let quantile = step.quantile_iterated_to();
        let inverse = 1.0 / (1.0 - quantile);
        line(out, format_args!("{value_ms:>12.3} {quantile:>12.6} {count:>12} {inverse:>12.2}"));
    }
    let (mean, stdev) = (times_us.mean() / 1_000.0, times_us.stdev() / 1_000.0);
    line(out, format_args!("#[Mean    = {mean:>12.3}, StdDeviation   = {stdev:>12.3}]"));
    let (max, count) = (milliseconds(lowest_max(times_us)), times_us.len());
    line(out, format_args!("#[Max     = {max:>12.3}, Total count    = {count:>12}]"));
    let (buckets, sub_buckets) = (times_us.buckets(), SUB_BUCKETS);
    line(out, format_args!("#[Buckets = {buckets:>12}, SubBuckets     = {sub_buckets:>12}]"));
    line(out, format_args!("----------------------------------------------------------"));
}

fn milliseconds(time_us: u64) -> f64 {
    time_us as f64 / 1_000.0
}

/// wrk2 shows the lower end of the bucket that holds the slowest request.
fn lowest_max(values: &Histogram<u64>) -> u64 {
    values.lowest_equivalent(values.max())
}

fn summary(out: &mut String, result: &LoadResult) {
    let run_time = format_time_us(result.duration.as_micros() as f64);
    let read = format_binary(result.bytes as f64);
    line(out, format_args!("  {} requests in {run_time}, {read}B read", result.requests));
    let errors = &result.errors;
    if errors.sockets() > 0 {
        line(
            out,
            format_args!(
                "  Socket errors: connect {}, read {}, write {}, timeout {}",
                errors.connect, errors.read, errors.write, errors.timeout
            ),
        );
    }
    if errors.status > 0 {
        line(out, format_args!("  Non-2xx or 3xx responses: {}", errors.status));
    }
    line(out, format_args!("Requests/sec: {:>9.2}", result.requests_per_second()));
    let transfer = format_binary(result.bytes_per_second());
    line(out, format_args!("Transfer/sec: {transfer:>10}B"));
}

/// The lines that wrk2 does not have. They follow the output of a script's `done`, and contain no
/// word that scripts look for in the table.
#[must_use]
pub fn accounts(result: &LoadResult) -> String {
    let mut text = "\n".to_owned();
    let out = &mut text;
    let (p50, p99, p999, max) = ("p50", "p99", "p99.9", "max");
    line(out, format_args!("  Accounts          {p50:>12}{p99:>12}{p999:>12}{max:>12}"));
    let accounts: [(&str, &Histogram<u64>); 6] = [
        ("Response time", &result.times.response),
        ("Service time", &result.times.service),
        ("Send lateness", &result.times.send_lateness),
        ("  connection", &result.times.connection_wait),
        ("  generator", &result.times.generator_delay),
        ("Connect time", &result.times.connect),
    ];
    for (name, times) in accounts.iter().filter(|(_, times)| !times.is_empty()) {
        let at = |percentile| format_time_us(times.value_at_percentile(percentile) as f64 / 1e3);
        let (p50, p99, p999, max) = (at(50.0), at(99.0), at(99.9), at(100.0));
        line(out, format_args!("    {name:<16}{p50:>12}{p99:>12}{p999:>12}{max:>12}"));
    }
    // One request for each connection is simply in flight when the time is up.
    if result.load.paced && result.unanswered > result.load.connections as u64 {
        line(out, format_args!("  Unanswered at the end: {}", result.unanswered));
    }
    let (again, left_out) = (result.sent_again, result.errors.left_out);
    if again + left_out > 0 {
        line(
            out,
            format_args!("  Left out by the server: sent again {again}, given up {left_out}"),
        );
    }
    if let Some(text) = &result.first_error {
        line(out, format_args!("  First error: {text}"));
    }
    if result.stopped_early {
        line(out, format_args!("  Stopped early"));
    }
    text
}

#[cfg(test)]
mod tests;
