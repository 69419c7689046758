//! Tests of the layout that scripts and plots of wrk2's users rely on.

use super::*;
use crate::error_counts::ErrorCounts;
use crate::histograms::{rate_histogram, time_histogram};
use crate::result::{RunHistory, ThreadResult};
use crate::simulation::{HttpServer, Reply, Simulation};
use crate::times::Times;
use pellucid_client::http::Target;

fn times(values_us: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = time_histogram();
    for (value_us, count) in values_us {
        histogram.record_n(value_us * 1_000, *count).unwrap();
    }
    histogram
}

/// Runs a request, and gives the result these figures.
fn result(rate_per_second: Option<u64>, response_time: Histogram<u64>) -> LoadResult {
    let options = LoadOptions {
        rate_per_second,
        threads: 1,
        connections: 1,
        limit: Limit::Requests(1),
        simulation: Some(Simulation::new(HttpServer::new(|_| Reply::ok()))),
        ..LoadOptions::new(Target::parse("http://localhost:8080").unwrap())
    };
    let finished = crate::run(&options, &mut |_| {}).unwrap();
    let mut request_rates = rate_histogram();
    request_rates.record_n(10_000, 3).unwrap();
    request_rates.record(12_000).unwrap();
    let (requests, mean_response_time_ns) = (response_time.len(), 2_928_000.0);
    LoadResult {
        duration: std::time::Duration::from_millis(20_001),
        requests,
        bytes: 13_401_000,
        times: Times {
            service: response_time.clone(),
            send_lateness: if rate_per_second.is_some() { times(&[(2, 7)]) } else { times(&[]) },
            response: response_time,
            ..Times::new()
        },
        course: RunHistory { request_rates, ..finished.course },
        per_thread: vec![ThreadResult {
            requests,
            mean_response_time_ns,
            ..ThreadResult::default()
        }],
        ..finished
    }
}

#[test]
fn the_header_is_the_one_of_wrk() {
    let options = LoadOptions::new(Target::parse("http://localhost:8080").unwrap());
    assert_eq!(
        header(&options),
        "Running 10s test @ http://localhost:8080\n  2 threads and 10 connections\n"
    );
}

#[test]
fn a_closed_loop_looks_as_in_wrk() {
    let result = result(None, times(&[(250, 75), (491, 15), (5_800, 10)]));
    let expected = "  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   841.35us    1.66ms   5.80ms   90.00%
    Req/Sec    10.50k     0.87k   12.01k    75.00%
  Latency Distribution
     50%  250.00us
     75%  250.00us
     90%  491.00us
     99%    5.80ms
  100 requests in 20.00s, 12.78MB read
Requests/sec:      5.00
Transfer/sec:    654.31KB
";
    let text = table(&result, Distributions::Corrected);
    assert!(text.starts_with(expected), "{text}");
    assert!(!table(&result, Distributions::None).contains("Distribution"));
}

#[test]
fn an_open_loop_looks_as_in_wrk2() {
    let result = result(Some(10_000), times(&[(54, 1), (1_000, 98), (88_000, 1)]));
    let text = table(&result, Distributions::Corrected);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "  Thread calibration: mean lat.: 2.928ms, rate sampling interval: 100ms");
    assert_eq!(lines[2], "    Latency     1.86ms    8.65ms  87.94ms   99.00%");
    let distribution = [
        "  Latency Distribution (HdrHistogram - Recorded Latency)",
        " 50.000%    1.00ms",
        " 75.000%    1.00ms",
        " 90.000%    1.00ms",
        " 99.000%    1.00ms",
        " 99.900%   88.00ms",
        " 99.990%   88.00ms",
        " 99.999%   88.00ms",
        "100.000%   88.00ms",
        "",
        "  Detailed Percentile spectrum:",
        "       Value   Percentile   TotalCount 1/(1-Percentile)",
        "",
        "       0.054     0.000000            1         1.00",
        "       1.000     0.100000           99         1.11",
    ];
    assert_eq!(lines[4..4 + distribution.len()], distribution);
    let last = lines.iter().position(|line| line.ends_with(" inf")).unwrap();
    let footer = [
        "      87.999     1.000000          100          inf",
        "#[Mean    =        1.860, StdDeviation   =        8.655]",
        "#[Max     =       87.936, Total count    =          100]",
        "#[Buckets =           27, SubBuckets     =         2048]",
        "----------------------------------------------------------",
        "  100 requests in 20.00s, 12.78MB read",
        "Requests/sec:      5.00",
        "Transfer/sec:    654.31KB",
    ];
    assert_eq!(lines[last..last + footer.len()], footer);
}

/// With `-U`, the time from the actual send has its own spectrum behind the other one.
#[test]
fn the_uncorrected_latency_has_a_block_of_its_own() {
    let mut result = result(Some(10_000), times(&[(1_000, 100)]));
    result.times.service = times(&[(54, 100)]);
    let text = table(&result, Distributions::Both);
    let rule = "-".repeat(58);
    let blocks: Vec<&str> = text.split(&format!("{rule}\n")).collect();
    assert!(blocks[0].contains("HdrHistogram - Recorded Latency)\n 50.000%    1.00ms\n"), "{text}");
    let begin = "\n  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without \
                 taking delayed starts into account))\n 50.000%   54.00us\n";
    assert!(blocks[1].starts_with(begin), "{text}");
    assert!(blocks[2].starts_with("  100 requests in "), "{text}");
    assert!(!table(&result, Distributions::Corrected).contains("Uncorrected"));
}

/// Plots of wrk2's users are made from these steps: five for each halving of the distance to 100 %.
#[test]
fn the_spectrum_has_the_steps_of_wrk2() {
    let mut values = time_histogram();
    for value_us in 1..=100_000 {
        values.record(value_us * 1_000).unwrap();
    }
    let text = table(&result(Some(1), values), Distributions::Corrected);
    let begin = text.find("1/(1-Percentile)").unwrap();
    let percentiles: Vec<&str> = text[begin..]
        .lines()
        .skip(2)
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    let first = [
        "0.000000", "0.100000", "0.200000", "0.300000", "0.400000", "0.500000", "0.550000",
        "0.600000", "0.650000", "0.700000", "0.750000", "0.775000", "0.800000", "0.825000",
        "0.850000", "0.875000", "0.887500",
    ];
    assert_eq!(percentiles[..first.len()], first);
    assert_eq!(percentiles.last(), Some(&"1.000000"));
}

#[test]
fn errors_have_the_lines_of_wrk_and_ours_come_last() {
    let mut result = result(Some(100), times(&[(100, 5)]));
    result.errors = ErrorCounts {
        connect: 1,
        read: 2,
        write: 3,
        timeout: 4,
        status: 5,
        malformed: 1,
        ..ErrorCounts::default()
    };
    result.first_error = Some("connect: refused".to_owned());
    result.unanswered = 9;
    let theirs = table(&result, Distributions::None);
    let text = format!("{theirs}{}", accounts(&result));
    assert!(text.contains("\n  Socket errors: connect 1, read 2, write 3, timeout 4\n"), "{text}");
    assert!(text.contains("\n  Non-2xx or 3xx responses: 5\n"));
    let ours = text.split_once("Transfer/sec:").unwrap().1;
    assert!(!theirs.contains("lateness"));
    for part in ["Response time", "Service time", "Send lateness", "9", "connect: refused"] {
        assert!(ours.contains(part), "{part}: {ours}");
    }
    assert!(!ours.contains('%') && !ours.contains("Latency"));
}
