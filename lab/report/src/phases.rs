//! The names, order and colours of phases, the same in all views.

use pellucid_account::{Distribution, OperationAccount};

/// The name of a column and how its value in nanoseconds is found.
pub(crate) type Column = (&'static str, fn(&Distribution) -> f64);

/// The columns of a phase table after the name and the share: what each is called, and its value.
pub(crate) const COLUMNS: [Column; 10] = [
    ("min", |d| d.min_ns as f64),
    ("q1", |d| d.q1_ns as f64),
    ("median", |d| d.p50_ns as f64),
    ("mean", |d| d.mean_ns),
    ("q3", |d| d.q3_ns as f64),
    ("p90", |d| d.p90_ns as f64),
    ("p99", |d| d.p99_ns as f64),
    ("p99.9", |d| d.p99_9_ns as f64),
    ("p99.99", |d| d.p99_99_ns as f64),
    ("max", |d| d.max_ns as f64),
];

/// A row of a phase table.
#[derive(Debug)]
pub(crate) struct Row<'account> {
    pub(crate) name: &'account str,
    pub(crate) distribution: &'account Distribution,
    /// True if it is part of the phase above it.
    pub(crate) is_part: bool,
    /// True if it precedes the total.
    pub(crate) is_before_total: bool,
    /// Of the mean total, 0 to 1; `None` for what is not within it.
    pub(crate) share_of_mean: Option<f64>,
}

/// The rows of a phase table: the phases in their order with their parts, then the total.
pub(crate) fn rows(account: &OperationAccount) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for phase in &account.phases {
        let is_before_total = phase.name == "receive";
        rows.push(row(account, &phase.name, &phase.distribution, false, is_before_total));
        if is_before_total {
            rows.push(row(account, "loop_wait", &account.loop_wait, true, true));
        }
        if let Some(part) = account.transport_part_of(&phase.name) {
            rows.push(row(account, &part.name, &part.distribution, true, is_before_total));
        }
        if phase.name == "execute" {
            let parts = account.parts.iter();
            rows.extend(
                parts.map(|part| row(account, &part.name, &part.distribution, true, false)),
            );
        }
    }
    rows.push(row(account, "total", &account.total, false, false));
    rows
}

fn row<'account>(
    account: &OperationAccount,
    name: &'account str,
    distribution: &'account Distribution,
    is_part: bool,
    is_before_total: bool,
) -> Row<'account> {
    // A part's mean is over the requests in which it occurred, its share is of all.
    let sum_ns = distribution.mean_ns * distribution.count as f64;
    let total_ns = account.total.mean_ns * account.total.count as f64;
    let share = if total_ns > 0.0 { sum_ns / total_ns } else { 0.0 };
    let share_of_mean = (!is_before_total).then_some(share);
    Row { name, distribution, is_part, is_before_total, share_of_mean }
}

/// The activity of a request during a phase, to follow `the time spent …`.
pub(crate) fn activity(phase: &str) -> String {
    match phase {
        "receive" => "receiving the request",
        "parse" => "parsing the request",
        "route" => "routing it to its handler",
        "queue" => "waiting in the queue",
        "execute" => "in the store",
        "encode" => "encoding the response",
        "write" => "writing the response to the socket",
        "unaccounted" => "outside all phases (unaccounted)",
        other => return format!("in {other}"),
    }
    .to_owned()
}

/// The class that gives marks of a phase their colour (`report.css`).
pub(crate) fn class(phase: &str) -> &'static str {
    match phase {
        "receive" => "phase-receive",
        "parse" => "phase-parse",
        "route" => "phase-route",
        "queue" => "phase-queue",
        "execute" => "phase-execute",
        "encode" => "phase-encode",
        "write" => "phase-write",
        _ => "phase-unaccounted",
    }
}
