//! `GET /metrics`: the account and the figures of transport and store, for Prometheus.

mod observed;
mod peers;

use std::fmt::{Display, Write};

use pellucid_account::{
    Activity, Distribution, InterferenceView, Named, OperationAccount, SlowOperation, Snapshot,
};
use pellucid_budget::Budget;
use pellucid_cluster::PeerView;
use pellucid_embedded::EngineStats;
use pellucid_http::{CompressionFigures, Cut, CutFigures, ServerStats, TlsFigures};
use serde_json::Value;

use crate::documents::CursorFigures;
use crate::engine_metrics::FAMILIES;
use crate::engine_page::document;
use crate::process::ProcessFigures;

/// Buckets of durations end at these powers of two nanoseconds: 0.5 µs to 17 s. The server's own
/// histograms have borders there, so nothing is rounded.
const POWERS: std::ops::RangeInclusive<u32> = 9..=34;
/// Phases are shown at every second of them: there are eight times as many.
const PHASE_POWER_STEP: usize = 2;
/// The phase whose parts are the store's.
const EXECUTE: &str = "execute";

/// The figures of the page.
pub(crate) struct Figures {
    pub(crate) snapshot: Snapshot,
    pub(crate) transport: ServerStats,
    pub(crate) store: Vec<(&'static str, u64)>,
    pub(crate) engine: Option<EngineStats>,
    pub(crate) cursors: CursorFigures,
    /// The memory of all requests together.
    pub(crate) memory: Budget,
    pub(crate) process: ProcessFigures,
    /// Slow requests, and of traced ones those exported and those lost.
    pub(crate) followed: [u64; 3],
    /// By operation, without single requests.
    pub(crate) slow: Vec<SlowOperation>,
    /// Since the start, and of the last ten minutes.
    pub(crate) interference: [Vec<InterferenceView>; 2],
    pub(crate) activity: Activity,
    /// Of a cluster, the other nodes.
    pub(crate) peers: Vec<(String, PeerView)>,
    pub(crate) outcomes: &'static [&'static str],
    pub(crate) version: &'static str,
}

/// The page, in Prometheus' text format 0.0.4.
pub(crate) fn page(figures: &Figures) -> String {
    let mut page = String::new();
    write_requests(&mut page, &figures.snapshot.operations);
    observed::write(&mut page, figures);
    write_transport(&mut page, figures);
    write_store(&mut page, &figures.store);
    if let Some(engine) = &figures.engine {
        write_engine(&mut page, &document(engine));
    }
    write_cursors(&mut page, figures.cursors);
    write_memory(&mut page, &figures.memory);
    peers::write(&mut page, &figures.peers);
    write_followed(&mut page, figures);
    write_process(&mut page, figures);
    page
}

fn write_requests(page: &mut String, operations: &[OperationAccount]) {
    let help = "Time from a request read whole to its response written.";
    family(page, "pellucid_request_duration_seconds", "histogram", help);
    for account in operations {
        let labels = labels_of(account);
        histogram(page, "pellucid_request_duration_seconds", &labels, &account.total, 1);
    }
    let help = "Time of a request in one phase; receive precedes the duration, the others fill it.";
    family(page, "pellucid_request_phase_duration_seconds", "histogram", help);
    for account in operations {
        for phase in &account.phases {
            let labels = format!("{},phase=\"{}\"", labels_of(account), phase.name);
            let name = "pellucid_request_phase_duration_seconds";
            histogram(page, name, &labels, &phase.distribution, PHASE_POWER_STEP);
        }
    }
    let help = "Time of a request in one part of a phase, where the part occurred.";
    family(page, "pellucid_request_part_duration_seconds", "histogram", help);
    for account in operations {
        for phase in &account.phases {
            for part in parts_of(account, &phase.name) {
                let (operation, phase, part_name) = (labels_of(account), &phase.name, &part.name);
                let labels = format!("{operation},phase=\"{phase}\",part=\"{part_name}\"");
                let name = "pellucid_request_part_duration_seconds";
                histogram(page, name, &labels, &part.distribution, PHASE_POWER_STEP);
            }
        }
    }
}

/// The parts of a phase: the store's of `execute`, the transport's of others.
fn parts_of<'account>(
    account: &'account OperationAccount,
    phase: &str,
) -> impl Iterator<Item = &'account Named> + use<'account> {
    let of_store: &[Named] = if phase == EXECUTE { &account.parts } else { &[] };
    of_store.iter().chain(account.transport_part_of(phase))
}

fn labels_of(account: &OperationAccount) -> String {
    format!("operation=\"{}\",outcome=\"{}\"", account.operation, account.outcome)
}

fn write_transport(page: &mut String, figures: &Figures) {
    let transport = &figures.transport;
    let gauges = [
        ("pellucid_connections_open", "Connections open now.", transport.connections_open as u64),
        (
            "pellucid_requests_in_flight",
            "Requests that wait for the store or are being streamed.",
            transport.requests_in_flight as u64,
        ),
        (
            "pellucid_body_bytes",
            "Bytes held for request bodies that are coming in.",
            transport.body_bytes as u64,
        ),
    ];
    for (name, help, value) in gauges {
        single(page, name, "gauge", help, value);
    }
    let help = "Connections accepted since the start.";
    single(page, "pellucid_connections_total", "counter", help, transport.connections_ever);
    write_cuts(page, &transport.cuts);
    write_tls(page, &transport.tls);
    write_compression(page, &transport.compression);
    let help = "Requests whose record was overwritten before it could be counted.";
    let lost = figures.snapshot.records_lost;
    single(page, "pellucid_account_records_lost_total", "counter", help, lost);
}

fn write_cuts(page: &mut String, cuts: &CutFigures) {
    type Count = fn(&CutFigures, Cut) -> u64;
    let families: [(&str, &str, &[Cut], Count); 3] = [
        (
            "pellucid_connections_refused_total",
            "New connections that were closed at once.",
            &Cut::OF_NEW_CONNECTIONS,
            CutFigures::refused,
        ),
        (
            "pellucid_connections_cut_total",
            "Connections that the server ended by itself.",
            &Cut::OF_CONNECTIONS,
            CutFigures::connections,
        ),
        (
            "pellucid_streams_cut_total",
            "Streams of HTTP/2 that the server ended by itself, and their connections not.",
            &Cut::OF_STREAMS,
            CutFigures::streams,
        ),
    ];
    for (name, help, reasons, count) in families {
        family(page, name, "counter", help);
        for cut in reasons {
            let _ = writeln!(page, "{name}{{reason=\"{}\"}} {}", cut.name(), count(cuts, *cut));
        }
    }
}

fn write_tls(page: &mut String, tls: &TlsFigures) {
    let counters = [
        ("pellucid_tls_handshakes_total", "TLS handshakes completed.", tls.handshakes),
        (
            "pellucid_tls_handshakes_failed_total",
            "Connections that ended before their TLS handshake was complete.",
            tls.handshakes_failed,
        ),
        ("pellucid_tls_decrypted_bytes_total", "Bytes decrypted.", tls.decrypted_bytes),
        ("pellucid_tls_encrypted_bytes_total", "Bytes encrypted.", tls.encrypted_bytes),
    ];
    for (name, help, value) in counters {
        single(page, name, "counter", help, value);
    }
    let times = [
        (
            "pellucid_tls_handshake_seconds_total",
            "The server's time in TLS handshakes, without the waits for clients.",
            tls.handshake_ns,
        ),
        (
            "pellucid_tls_decrypt_seconds_total",
            "Time spent decrypting, part of the phase receive.",
            tls.decrypt_ns,
        ),
        (
            "pellucid_tls_encrypt_seconds_total",
            "Time spent encrypting, part of the phase write.",
            tls.encrypt_ns,
        ),
    ];
    for (name, help, value_ns) in times {
        single(page, name, "counter", help, value_ns as f64 / 1e9);
    }
}

fn write_compression(page: &mut String, compression: &CompressionFigures) {
    let counters = [
        ("pellucid_compressed_responses_total", "Responses compressed.", compression.responses),
        (
            "pellucid_compression_plain_bytes_total",
            "Bytes of bodies before they were compressed.",
            compression.plain_bytes,
        ),
        (
            "pellucid_compression_compressed_bytes_total",
            "Bytes of bodies after they were compressed.",
            compression.compressed_bytes,
        ),
    ];
    for (name, help, value) in counters {
        single(page, name, "counter", help, value);
    }
    let help = "Time spent compressing, part of the phase encode.";
    let seconds = compression.compress_ns as f64 / 1e9;
    single(page, "pellucid_compression_seconds_total", "counter", help, seconds);
}

fn write_store(page: &mut String, figures: &[(&'static str, u64)]) {
    for (name, value) in figures {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let help = "A figure of the store; docs/architecture.md explains the terms.";
        single(page, &format!("pellucid_{name}"), kind, help, *value);
    }
}

fn write_engine(page: &mut String, document: &Value) {
    for metric in FAMILIES {
        family(page, metric.name, metric.kind(), metric.help);
        for (labels, value) in metric.samples(document) {
            let _ = match &*labels {
                "" => writeln!(page, "{} {value}", metric.name),
                labels => writeln!(page, "{}{{{labels}}} {value}", metric.name),
            };
        }
    }
}

fn write_cursors(page: &mut String, cursors: CursorFigures) {
    let help = "Cursors of queries that have more to give.";
    single(page, "pellucid_cursors_open", "gauge", help, cursors.open);
    let help = "Bytes that the results of these cursors take, as counted when each was last kept.";
    single(page, "pellucid_cursors_bytes", "gauge", help, cursors.bytes);
}

fn write_memory(page: &mut String, memory: &Budget) {
    let help = "Bytes that requests take now: bodies, queries, results that wait, answers.";
    single(page, "pellucid_request_memory_bytes", "gauge", help, memory.used_bytes());
    let help = "Bytes that requests may take together.";
    single(page, "pellucid_request_memory_max_bytes", "gauge", help, memory.bytes_max());
    let help = "Requests that were refused memory because all together had taken too much.";
    single(page, "pellucid_request_budget_refusals_total", "counter", help, memory.refusals());
}

fn write_followed(page: &mut String, figures: &Figures) {
    let [slow, exported, lost] = figures.followed;
    for (name, help, value) in [
        ("pellucid_log_slow_requests_total", "Requests slower than the log's threshold.", slow),
        (
            "pellucid_trace_requests_exported_total",
            "Traced requests whose spans a collector has taken.",
            exported,
        ),
        (
            "pellucid_trace_requests_lost_total",
            "Traced requests whose spans were lost, because the collector or its queue was full or \
             gone.",
            lost,
        ),
    ] {
        single(page, name, "counter", help, value);
    }
}

fn write_process(page: &mut String, figures: &Figures) {
    let process = &figures.process;
    family(page, "process_cpu_seconds_total", "counter", "User and system time.");
    let _ = writeln!(page, "process_cpu_seconds_total {}", process.cpu_seconds);
    let help = "Resident memory, mapped files included.";
    single(page, "process_resident_memory_bytes", "gauge", help, process.resident_bytes);
    let help = "Resident memory that is not of files: what a memory limit is set against.";
    single(page, "pellucid_anonymous_memory_bytes", "gauge", help, process.anonymous_bytes);
    family(page, "pellucid_build_info", "gauge", "The version that runs.");
    let _ = writeln!(page, "pellucid_build_info{{version=\"{}\"}} 1", figures.version);
    let clock = &figures.snapshot.clock;
    family(page, "pellucid_clock_info", "gauge", "The clock behind every duration.");
    let _ = writeln!(
        page,
        "pellucid_clock_info{{source=\"{}\",ticks_per_second=\"{}\",accounting=\"{}\"}} 1",
        clock.source, clock.ticks_per_second, figures.snapshot.accounting
    );
}

fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn single(page: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    family(page, name, kind, help);
    let _ = writeln!(page, "{name} {value}");
}

fn histogram(page: &mut String, name: &str, labels: &str, of: &Distribution, step: usize) {
    let (mut below, mut rows) = (0, of.log2.iter().peekable());
    for power in POWERS.step_by(step) {
        let border_ns = 1_u64 << power;
        while let Some((_, count)) = rows.next_if(|(floor_ns, _)| *floor_ns < border_ns) {
            below += count;
        }
        let border = border_ns as f64 / 1e9;
        let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{border}\"}} {below}");
    }
    let sum = of.mean_ns * of.count as f64 / 1e9;
    let _ = writeln!(page, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", of.count);
    let _ = writeln!(page, "{name}_sum{{{labels}}} {sum}");
    let _ = writeln!(page, "{name}_count{{{labels}}} {}", of.count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_up_to_the_number_of_requests() {
        let of = Distribution {
            count: 6,
            mean_ns: 2_000.0,
            log2: vec![(256, 1), (512, 2), (4_096, 2), (1 << 40, 1)],
            ..Distribution::default()
        };
        let mut page = String::new();
        histogram(&mut page, "d", "a=\"b\"", &of, 1);
        let counts: Vec<&str> = page.lines().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(&counts[..5], ["1", "3", "3", "3", "5"]);
        assert!(page.contains("d_bucket{a=\"b\",le=\"+Inf\"} 6\n"));
        assert!(page.contains("d_sum{a=\"b\"} 0.000012\n"));
        assert!(page.ends_with("d_count{a=\"b\"} 6\n"));
    }
}
