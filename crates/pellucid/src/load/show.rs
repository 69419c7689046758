//! Text output of a run beyond the tables of wrk and wrk2.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use pellucid_load::{Judgement, LoadResult};

/// The interval between progress lines if standard error is no terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// The progress on standard error. On a terminal one line is overwritten; otherwise a new line is
/// printed every few seconds, so that a log shows the progress.
pub(super) struct ProgressLine {
    is_terminal: bool,
    last_requests: u64,
    last_elapsed: Duration,
    shown: bool,
}

impl ProgressLine {
    pub(super) fn new() -> ProgressLine {
        let is_terminal = std::io::stderr().is_terminal();
        let last_elapsed = Duration::ZERO;
        ProgressLine { is_terminal, last_requests: 0, last_elapsed, shown: false }
    }

    pub(super) fn show(&mut self, elapsed: Duration, requests: u64, errors: u64) {
        let plain_due = self.last_elapsed + PLAIN_INTERVAL;
        // Progress comes about once a second and may be slightly early, so allow a tenth.
        if !self.is_terminal && elapsed + PLAIN_INTERVAL / 10 < plain_due {
            return;
        }
        let seconds = (elapsed.saturating_sub(self.last_elapsed)).as_secs_f64().max(1e-9);
        let rate = requests.saturating_sub(self.last_requests) as f64 / seconds;
        let total = elapsed.as_secs_f64();
        let line = format!("  {total:.0} s: {requests} answers, {rate:.0}/s, {errors} errors");
        if self.is_terminal {
            eprint!("\r\x1b[K{line}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
        (self.last_requests, self.last_elapsed) = (requests, elapsed);
        self.shown = self.is_terminal;
    }

    pub(super) fn clear(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// Formats a time with its unit.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        ns if ns < 1e3 => format!("{ns:.0}ns"),
        ns if ns < 1e6 => format!("{:.1}us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2}ms", ns / 1e6),
        ns => format!("{:.2}s", ns / 1e9),
    }
}

/// Formats the verdict and its evidence.
pub(super) fn judgement(judgement: &Judgement) -> String {
    let verdict = judgement.verdict;
    let mut text = format!("  Verdict: {}: {}.\n", verdict.name(), verdict.meaning());
    for sentence in &judgement.evidence {
        text.push_str(&format!("    {sentence}\n"));
    }
    text
}

/// Formats the number of requests of each node; empty without `--direct`.
pub(super) fn direct(result: &LoadResult) -> String {
    let Some(direct) = &result.direct else { return String::new() };
    let mut text = "  Direct: each request went to the owner of its key.\n".to_owned();
    let all: u64 = direct.nodes.iter().map(|(_, requests)| requests).sum();
    for (node, requests) in &direct.nodes {
        let share = *requests as f64 * 100.0 / all.max(1) as f64;
        text.push_str(&format!("    {node:<40}{requests:>12}{share:>8.1} %\n"));
    }
    if direct.by_another > 0 {
        let by_another = direct.by_another;
        text.push_str(&format!(
            "    {by_another} went by another node, as no connection to the owner was open.\n"
        ));
    }
    text
}

/// Formats the figures of each operation; empty if the load has no named operations.
pub(super) fn operations(result: &LoadResult) -> String {
    if result.operations.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "  {:<20}{:>12}{:>10}{:>12}{:>12}{:>12}\n",
        "Operation", "requests", "errors", "p50", "p99", "max"
    );
    for operation in &result.operations {
        let at = |quantile| time(operation.response_time.value_at_quantile(quantile));
        text.push_str(&format!(
            "    {:<18}{:>12}{:>10}{:>12}{:>12}{:>12}\n",
            operation.name,
            operation.requests,
            operation.errors,
            at(0.5),
            at(0.99),
            at(1.0)
        ));
    }
    text
}
