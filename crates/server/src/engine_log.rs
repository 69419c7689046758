//! Logs the engine's figures: one line for each kind, at an interval that the operator sets.
//! Counters are logged as the increase since the line before.

use std::sync::Arc;
use std::time::Duration;

use pellucid_embedded::{SAMPLED_EVERY, engine_stats};
use pellucid_store::Store;
use pellucid_thread::{Job, PeriodicThread};
use serde_json::{Value, json};

use crate::engine_page::{SCHEMA, document};
use crate::log::Log;

const LOG_THREAD: &str = "pellucid-figures";

/// The lines for the log: one for each kind, without the kinds in which nothing has happened.
/// Counters are shown as the increase since `before`.
fn lines(before: &Value, now: &Value, seconds: f64) -> Vec<String> {
    let kinds = [
        ("state", "/state"),
        ("reads", "/reads"),
        ("writes", "/writes"),
        ("flush", "/background/flush"),
        ("compaction", "/background/compactions"),
        ("collection", "/background/collection"),
    ];
    let line = |(kind, path): (&str, &str)| {
        let now = now.pointer(path)?;
        let figures = match kind {
            "state" => now.clone(),
            _ => since(before.pointer(path), now),
        };
        let happened = kind == "state" || has_number(&figures);
        let line = json!({
            "schema": SCHEMA, "kind": kind, "seconds": seconds, "sampled_every": SAMPLED_EVERY,
            "figures": figures,
        });
        happened.then(|| line.to_string())
    };
    kinds.into_iter().filter_map(line).collect()
}

/// Subtracts from every number in `now` the number at the same place in `before`.
fn since(before: Option<&Value>, now: &Value) -> Value {
    match now {
        Value::Number(number) => {
            let before = before.and_then(Value::as_u64).unwrap_or(0);
            number.as_u64().map_or(Value::Null, |now| now.saturating_sub(before).into())
        }
        Value::Object(fields) => {
            let less = |(name, value): (&String, &Value)| {
                (name.clone(), since(before.and_then(|before| before.get(name)), value))
            };
            Value::Object(fields.iter().map(less).collect())
        }
        Value::Array(items) => {
            let less = |(index, value)| since(before.and_then(|before| before.get(index)), value);
            Value::Array(items.iter().enumerate().map(less).collect())
        }
        other => other.clone(),
    }
}

fn has_number(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_u64() != Some(0),
        Value::Object(fields) => fields.values().any(has_number),
        Value::Array(items) => items.iter().any(has_number),
        _ => false,
    }
}

/// The `tracing` target of the engine's figures. Each event is a JSON document.
pub const ENGINE_TARGET: &str = "pellucid::engine";

/// Starts a thread that logs the engine's figures every `interval`. The first lines come after one
/// interval. Returns `None` if the store has no such figures.
pub(crate) fn log_engine(
    store: Arc<dyn Store>,
    log: Log,
    interval: Duration,
) -> std::io::Result<Option<PeriodicThread>> {
    static FIGURES: Job = Job::new("figures");
    let figures = move || engine_stats(&*store).as_ref().map(document);
    let Some(mut before) = figures() else { return Ok(None) };
    let step = move || {
        let Some(now) = figures() else { return };
        for line in lines(&before, &now, interval.as_secs_f64()) {
            log.with(|| tracing::info!(target: ENGINE_TARGET, "{line}"));
        }
        before = now;
    };
    PeriodicThread::start(LOG_THREAD, &FIGURES, interval, step).map(Some)
}

#[cfg(test)]
mod tests {
    use pellucid_embedded::{EngineStats, JobFigures, LevelFigures};

    use super::*;

    #[test]
    fn lines_show_increases_and_kinds_without_one_have_no_line() {
        let stats = EngineStats::default();
        let before = document(&stats);
        assert_eq!(lines(&before, &before, 30.0).len(), 1, "the state alone");
        let mut later = stats.clone();
        later.writes.batches = 5;
        let middle = document(&later);
        later.writes.batches = 12;
        later.reads.missing.count = 3;
        later.ledger.flush.runs = 1;
        let compaction = JobFigures { runs: 2, ..JobFigures::default() };
        later.ledger.levels = vec![LevelFigures { compaction, ..LevelFigures::default() }];
        later.collected.segments = 4;
        let lines: Vec<Value> = lines(&middle, &document(&later), 30.0)
            .iter()
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .collect();
        let kinds: Vec<_> = lines.iter().map(|line| &line["kind"]).collect();
        assert_eq!(kinds, ["state", "reads", "writes", "flush", "compaction", "collection"]);
        assert_eq!(lines[2]["figures"]["batches"], 7);
        assert_eq!(lines[3]["figures"]["runs"], 1);
        assert_eq!(lines[5]["figures"]["segments"], 4);
    }
}
