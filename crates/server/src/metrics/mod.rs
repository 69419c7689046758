//! `GET /metrics`: the account and the figures of transport and store, for Prometheus.

mod family;
mod figures;
mod peers;
mod request_metrics;

use std::fmt::Write;

use pellucid_account::{NamedDistribution, OperationAccount};
use pellucid_embedded::EngineStats;
use pellucid_http::{DisconnectCounts, DisconnectFigures, DisconnectReason};

use self::family::{family, histogram, kind_of, single};
use crate::engine_metrics::families;

pub(crate) use self::figures::Figures;

/// Histograms of phases have every second bucket only, because there are so many of them.
const PHASE_POWER_STEP: usize = 2;
/// The phase whose parts the store measures.
const EXECUTE: &str = "execute";

/// The page, in Prometheus' text format 0.0.4.
pub(crate) fn page(figures: &Figures) -> String {
    let mut page = String::new();
    write_requests(&mut page, &figures.snapshot.operations);
    request_metrics::write(&mut page, figures);
    for (name, help, value) in SINGLES {
        single(&mut page, name, help, value(figures));
    }
    write_cuts(&mut page, &figures.transport.cuts);
    write_store(&mut page, &figures.store);
    if let Some(engine) = &figures.engine {
        write_engine(&mut page, engine);
    }
    peers::write(&mut page, &figures.peers);
    write_info(&mut page, figures);
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

/// The parts of a phase: for `execute` those of the store, for others those of the transport.
fn parts_of<'account>(
    account: &'account OperationAccount,
    phase: &str,
) -> impl Iterator<Item = &'account NamedDistribution> + use<'account> {
    let of_store: &[NamedDistribution] = if phase == EXECUTE { &account.parts } else { &[] };
    of_store.iter().chain(account.transport_part_of(phase))
}

fn labels_of(account: &OperationAccount) -> String {
    format!("operation=\"{}\",outcome=\"{}\"", account.operation, account.outcome)
}

/// A metric without labels: its name, its description, and its value. The name decides the type.
type UnlabeledMetric = (&'static str, &'static str, fn(&Figures) -> f64);

const SINGLES: &[UnlabeledMetric] = &[
    ("pellucid_connections_open", "Connections open now.", |f| f.transport.connections_open as f64),
    (
        "pellucid_requests_in_flight",
        "Requests that wait for the store or are being streamed.",
        |f| f.transport.requests_in_flight as f64,
    ),
    ("pellucid_body_bytes", "Bytes held for request bodies that are coming in.", |f| {
        f.transport.body_bytes as f64
    }),
    ("pellucid_connections_total", "Connections accepted since the start.", |f| {
        f.transport.connections_ever as f64
    }),
    ("pellucid_tls_handshakes_total", "TLS handshakes completed.", |f| {
        f.transport.tls.handshakes as f64
    }),
    (
        "pellucid_tls_handshakes_failed_total",
        "Connections that ended before their TLS handshake was complete.",
        |f| f.transport.tls.handshakes_failed as f64,
    ),
    ("pellucid_tls_decrypted_bytes_total", "Bytes decrypted.", |f| {
        f.transport.tls.decrypted_bytes as f64
    }),
    ("pellucid_tls_encrypted_bytes_total", "Bytes encrypted.", |f| {
        f.transport.tls.encrypted_bytes as f64
    }),
    (
        "pellucid_tls_handshake_seconds_total",
        "The server's time in TLS handshakes, without the waits for clients.",
        |f| seconds(f.transport.tls.handshake_ns),
    ),
    (
        "pellucid_tls_decrypt_seconds_total",
        "Time spent decrypting, part of the phase receive.",
        |f| seconds(f.transport.tls.decrypt_ns),
    ),
    (
        "pellucid_tls_encrypt_seconds_total",
        "Time spent encrypting, part of the phase write.",
        |f| seconds(f.transport.tls.encrypt_ns),
    ),
    ("pellucid_compressed_responses_total", "Responses compressed.", |f| {
        f.transport.compression.responses as f64
    }),
    (
        "pellucid_compression_plain_bytes_total",
        "Bytes of bodies before they were compressed.",
        |f| f.transport.compression.plain_bytes as f64,
    ),
    (
        "pellucid_compression_compressed_bytes_total",
        "Bytes of bodies after they were compressed.",
        |f| f.transport.compression.compressed_bytes as f64,
    ),
    (
        "pellucid_compression_seconds_total",
        "Time spent compressing, part of the phase encode.",
        |f| seconds(f.transport.compression.compress_ns),
    ),
    (
        "pellucid_account_records_lost_total",
        "Requests whose record was overwritten before it could be counted.",
        |f| f.snapshot.records_lost as f64,
    ),
    ("pellucid_cursors_open", "Cursors of queries that have more to give.", |f| {
        f.cursors.open as f64
    }),
    (
        "pellucid_cursors_bytes",
        "Bytes that the results of these cursors take, as counted when each was last kept.",
        |f| f.cursors.bytes as f64,
    ),
    (
        "pellucid_request_memory_bytes",
        "Bytes that requests take now: bodies, queries, results that wait, answers.",
        |f| f.memory.used_bytes() as f64,
    ),
    ("pellucid_request_memory_max_bytes", "Bytes that requests may take together.", |f| {
        f.memory.bytes_max() as f64
    }),
    (
        "pellucid_request_budget_refusals_total",
        "Requests that were refused memory because all together had taken too much.",
        |f| f.memory.refusals() as f64,
    ),
    ("pellucid_log_slow_requests_total", "Requests slower than the log's threshold.", |f| {
        f.followed[0] as f64
    }),
    (
        "pellucid_trace_requests_exported_total",
        "Traced requests whose spans a collector has taken.",
        |f| f.followed[1] as f64,
    ),
    (
        "pellucid_trace_requests_lost_total",
        "Traced requests whose spans were lost, because the collector or its queue was full or \
         gone.",
        |f| f.followed[2] as f64,
    ),
    ("process_cpu_seconds_total", "User and system time.", |f| f.process.cpu_seconds),
    ("pellucid_event_loop_run_seconds_total", "Time that the event loops ran.", |f| {
        seconds(f.process.loops.ran_ns)
    }),
    (
        "pellucid_event_loop_run_delay_seconds_total",
        "Time that the event loops could have run and waited for a processor.",
        |f| seconds(f.process.loops.waited_ns),
    ),
    ("process_resident_memory_bytes", "Resident memory, mapped files included.", |f| {
        f.process.resident_bytes as f64
    }),
    (
        "pellucid_anonymous_memory_bytes",
        "Resident memory that is not of files: what a memory limit is set against.",
        |f| f.process.anonymous_bytes as f64,
    ),
];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn write_cuts(page: &mut String, cuts: &DisconnectFigures) {
    let families: [(&str, &str, &[DisconnectReason], &DisconnectCounts); 3] = [
        (
            "pellucid_connections_refused_total",
            "New connections that were closed at once.",
            &DisconnectReason::OF_NEW_CONNECTIONS,
            &cuts.refused,
        ),
        (
            "pellucid_connections_cut_total",
            "Connections that the server ended by itself.",
            &DisconnectReason::OF_CONNECTIONS,
            &cuts.connections,
        ),
        (
            "pellucid_streams_cut_total",
            "Streams of HTTP/2 that the server ended by itself, and their connections not.",
            &DisconnectReason::OF_STREAMS,
            &cuts.streams,
        ),
    ];
    for (name, help, reasons, counts) in families {
        family(page, name, "counter", help);
        for cut in reasons {
            let _ = writeln!(page, "{name}{{reason=\"{}\"}} {}", cut.name(), counts[*cut]);
        }
    }
}

fn write_store(page: &mut String, figures: &[(&'static str, u64)]) {
    for (name, value) in figures {
        let help = "A figure of the store; docs/architecture.md explains the terms.";
        single(page, &format!("pellucid_{name}"), help, *value);
    }
}

fn write_engine(page: &mut String, stats: &EngineStats) {
    for metric in families(stats) {
        family(page, &metric.name, kind_of(&metric.name), metric.help);
        for (labels, value) in metric.samples {
            let _ = match &*labels {
                "" => writeln!(page, "{} {value}", metric.name),
                labels => writeln!(page, "{}{{{labels}}} {value}", metric.name),
            };
        }
    }
}

fn write_info(page: &mut String, figures: &Figures) {
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
