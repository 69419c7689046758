//! The order, descriptions and colours of phases, the same in all views.

use pellucid_account::{Distribution, OperationAccount};

use crate::units::{microseconds, percent_column};

/// The name of a column, and the function that gets its value in nanoseconds.
type Column = (&'static str, fn(&Distribution) -> f64);

/// The columns of a phase table between the name and the share.
const COLUMNS: [Column; 10] = [
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
struct Row<'account> {
    name: &'account str,
    distribution: &'account Distribution,
    /// True if it is part of the phase above it.
    is_part: bool,
    /// True if its time passes before the total begins.
    is_before_total: bool,
    /// The share of the mean total, 0 to 1; `None` for a time that is not within it.
    share_of_mean: Option<f64>,
}

/// The cells of a phase table: its header, the phases in their order with their parts indented, and
/// the total. A phase before the total gets the suffix `mark`.
pub(crate) fn table(account: &OperationAccount, mark: &str) -> Vec<Vec<String>> {
    let mut header = vec!["phase".to_owned()];
    header.extend(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
    header.push("% of mean".to_owned());
    let words_of = |row: Row<'_>| {
        let indent = if row.is_part { "  " } else { "" };
        let mark = if row.is_before_total && !row.is_part { mark } else { "" };
        let mut words = vec![format!("{indent}{}{mark}", row.name)];
        words.extend(COLUMNS.iter().map(|(_, value)| microseconds(value(row.distribution))));
        words.push(row.share_of_mean.map_or_else(|| "-".to_owned(), percent_column));
        words
    };
    [header].into_iter().chain(rows(account).into_iter().map(words_of)).collect()
}

fn rows(account: &OperationAccount) -> Vec<Row<'_>> {
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
    // The mean of a part is over the requests in which it occurred; its share is of all requests.
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

/// The CSS class that gives the marks of a phase their colour (`report.css`).
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
