//! The engine's account of itself: `GET /_admin/engine`, the engine's part of `/metrics`, and a
//! line a kind in the log at an interval of the operator's choice.
//!
//! All three show the same document (schema `pellucid.engine.v1`, docs/engine-account.md). Its
//! parts `reads`, `writes` and `background` hold counters only, numbers that grow from the opening
//! of the store on; `state` holds what is now.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_store::{
    EngineStats, FoundFigures, Job, JobFigures, LevelFigures, MemoryShare, SAMPLED_EVERY,
    SampledTime, Store,
};
use serde_json::{Map, Value, json};

use crate::log::Log;

/// The name of the document's form.
pub(crate) const SCHEMA: &str = "pellucid.engine.v1";
const LOG_THREAD: &str = "pellucid-figures";

/// The document that `GET /_admin/engine` answers with, for whoever embeds the engine and wants the
/// same view of it.
#[must_use]
pub fn document(stats: &EngineStats) -> Value {
    json!({
        "schema": SCHEMA,
        "sampled_every": SAMPLED_EVERY,
        "state": state(stats),
        "reads": reads(stats),
        "writes": writes(stats),
        "background": background(stats),
    })
}

fn state(stats: &EngineStats) -> Value {
    let ledger = &stats.ledger;
    let level = |(number, level): (usize, &LevelFigures)| {
        json!({
            "level": number.to_string(),
            "tables": level.tables,
            "size_bytes": level.size_bytes,
            "entries": level.entries,
            "tombstones": level.tombstones,
            "blocks": level.blocks,
            "blocks_checked": level.blocks_checked,
            "directory_bytes": level.directory_bytes,
        })
    };
    json!({
        "published_sequence": stats.published_sequence,
        "durable_sequence": stats.durable_sequence,
        "flushed_sequence": stats.flushed_sequence,
        "journal_segments": stats.segments,
        "journal_bytes": stats.journal_bytes,
        "journal_dead_bytes": stats.journal_dead_bytes,
        "journal_marker_bytes": stats.journal_marker_bytes,
        "memtable_bytes": ledger.memtable_bytes,
        "sealed_memtables": ledger.sealed_memtables,
        "table_memory_bytes": ledger.table_memory_bytes,
        "memory": memory(stats),
        "levels": ledger.levels.iter().enumerate().map(level).collect::<Vec<_>>(),
        "compaction_debt_bytes": ledger.debt_bytes,
        "write_delay_ns": ledger.write_delay_ns,
        "snapshots": ledger.snapshots,
        "running": ledger.running.map(job_name),
        "trouble": ledger.trouble,
        "collection_trouble": stats.collection_trouble,
        "write_amplification": stats.write_amplification(),
        "space_amplification": stats.space_amplification(),
    })
}

/// The shares of the memory setting, by name.
fn shares(stats: &EngineStats) -> [(&'static str, MemoryShare); 4] {
    let memory = &stats.memory;
    [
        ("memtables", memory.memtables),
        ("tables", memory.tables),
        ("jobs", memory.jobs),
        ("journal", memory.journal),
    ]
}

fn memory(stats: &EngineStats) -> Value {
    let share = |(name, share): (&str, MemoryShare)| {
        let figures = json!({ "limit_bytes": share.limit_bytes, "used_bytes": share.used_bytes });
        (name.to_owned(), figures)
    };
    let mut shares: Map<_, _> = shares(stats).into_iter().map(share).collect();
    shares.insert("setting_bytes".to_owned(), stats.memory.setting_bytes.into());
    shares.into()
}

fn job_name(job: Job) -> String {
    match job {
        Job::Flush => "flush".to_owned(),
        Job::Compaction { from, to } => format!("compaction {from} to {to}"),
    }
}

/// Where a look-up ended, with its figures.
fn found(stats: &EngineStats) -> Vec<(String, FoundFigures)> {
    let reads = &stats.reads;
    let levels = reads.levels.iter().enumerate();
    let levels = levels.map(|(number, figures)| (format!("level_{number}"), *figures));
    let first = [("missing".to_owned(), reads.missing), ("memtable".to_owned(), reads.memtable)];
    first.into_iter().chain(levels).collect()
}

fn time(time: SampledTime) -> Value {
    json!({ "samples": time.samples, "sum_ns": time.sum_ns })
}

fn reads(stats: &EngineStats) -> Value {
    let look_ups = found(stats).into_iter().map(|(place, figures)| {
        let figures = json!({ "count": figures.count, "time": time(figures.time) });
        (place, figures)
    });
    let level = |(number, level): (usize, &LevelFigures)| {
        let (reads, steps) = (&level.reads, &level.reads.steps);
        json!({
            "level": number.to_string(),
            "asked": reads.asked,
            "excluded": reads.excluded,
            "false_positives": reads.false_positives,
            "by_index": reads.by_index,
            "blocks_searched": reads.blocks_searched,
            "time": time(reads.time),
            "steps": {
                "directory": time(steps.directory),
                "filter": time(steps.filter),
                "index": time(steps.index),
                "fetch_cached": time(steps.fetch_cached),
                "fetch_disk": time(steps.fetch_disk),
                "search": time(steps.search),
            },
        })
    };
    json!({
        "look_ups": look_ups.collect::<Map<_, _>>(),
        "levels": stats.ledger.levels.iter().enumerate().map(level).collect::<Vec<_>>(),
        "journal": {
            "held_values": stats.reads.held_values,
            "records": stats.reads.records,
            "bytes": stats.reads.record_bytes,
            "time": time(stats.reads.record_time),
            "place": time(stats.reads.place_time),
            "read_cached": time(stats.reads.cached_time),
            "read_disk": time(stats.reads.disk_time),
        },
    })
}

fn writes(stats: &EngineStats) -> Value {
    let (writes, durability) = (&stats.writes, &stats.durability);
    let synced = |sum_ns| json!({ "count": durability.waits, "sum_ns": sum_ns });
    json!({
        "batches": writes.batches,
        "entries": writes.entries,
        "user_bytes": writes.user_bytes,
        "journal_append": time(writes.append_time),
        "memtable": time(writes.memtable_time),
        "syncs": stats.syncs,
        "sync_ns": durability.sync_ns,
        "waits": {
            "other_writer": { "count": writes.writer_waits, "sum_ns": writes.writer_waited_ns },
            "memtables_full": { "count": stats.ledger.waits, "sum_ns": stats.ledger.waited_ns },
            "merges_behind": { "count": writes.delays, "sum_ns": writes.delayed_ns },
            "group": synced(durability.group_waited_ns),
            "sync": synced(durability.sync_waited_ns),
        },
    })
}

fn background(stats: &EngineStats) -> Value {
    let compactions = stats.ledger.levels.iter().enumerate().map(|(number, level)| {
        let mut job = job(&level.compaction);
        job.insert("from_level".to_owned(), number.to_string().into());
        Value::Object(job)
    });
    json!({
        "flush": job(&stats.ledger.flush),
        "compactions": compactions.collect::<Vec<_>>(),
        "collection": {
            "segments": stats.collected.segments,
            "copied_bytes": stats.collected.copied_bytes,
            "freed_bytes": stats.collected.freed_bytes,
        },
    })
}

/// The stages of a job with their nanoseconds.
fn stages(job: &JobFigures) -> [(&'static str, u64); 8] {
    [
        ("order", job.order_ns),
        ("merge", job.merge_ns),
        ("build", job.build_ns),
        ("filter", job.filter_ns),
        ("write", job.write_ns),
        ("sync", job.sync_ns),
        ("journal_sync", job.journal_sync_ns),
        ("commit", job.commit_ns),
    ]
}

fn job(figures: &JobFigures) -> Map<String, Value> {
    let stages = stages(figures).map(|(name, ns)| (format!("{name}_ns"), Value::from(ns)));
    let counters = [
        ("runs", figures.runs),
        ("moves", figures.moves),
        ("entries_in", figures.entries_in),
        ("entries_dropped", figures.entries_dropped),
        ("bytes_in", figures.bytes_in),
        ("bytes_out", figures.bytes_out),
        ("tables_out", figures.tables_out),
        ("duration_ns", figures.duration_ns),
    ];
    let mut job: Map<_, _> =
        counters.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
    job.insert("stages".to_owned(), stages.into_iter().collect::<Map<_, _>>().into());
    job
}

/// A family of metrics: name, kind, help, and for each sample its labels and value.
pub(crate) type Family = (&'static str, &'static str, &'static str, Vec<(String, f64)>);

/// The steps of reads by their labels: those within tables by level, and those of the journal.
fn read_steps(stats: &EngineStats) -> Vec<(String, SampledTime)> {
    let levels = stats.ledger.levels.iter().enumerate();
    let of_level = |(number, level): (usize, &LevelFigures)| {
        let steps = level.reads.steps;
        [
            ("directory", steps.directory),
            ("filter", steps.filter),
            ("index", steps.index),
            ("fetch_cached", steps.fetch_cached),
            ("fetch_disk", steps.fetch_disk),
            ("search", steps.search),
        ]
        .map(|(step, time)| (format!("part=\"level_{number}\",step=\"{step}\""), time))
    };
    let journal = [
        ("place", stats.reads.place_time),
        ("read_cached", stats.reads.cached_time),
        ("read_disk", stats.reads.disk_time),
    ]
    .map(|(step, time)| (format!("part=\"journal\",step=\"{step}\""), time));
    levels.flat_map(of_level).chain(journal).collect()
}

/// The engine's figures as families with labels.
pub(crate) fn families(stats: &EngineStats) -> Vec<Family> {
    let levels = || stats.ledger.levels.iter().enumerate();
    let by_level = |of: fn(&LevelFigures) -> u64| {
        levels().map(|(number, level)| (format!("level=\"{number}\""), of(level) as f64)).collect()
    };
    let by_share = |of: fn(&MemoryShare) -> u64| {
        let sample =
            |(name, share): (&str, MemoryShare)| (format!("share=\"{name}\""), of(&share) as f64);
        shares(stats).into_iter().map(sample).collect()
    };
    let look_ups = found(stats);
    let look_ups = look_ups
        .iter()
        .map(|(place, figures)| (format!("found_in=\"{place}\""), figures.count as f64));
    let mut jobs = vec![("job=\"flush\",level=\"0\"".to_owned(), stats.ledger.flush)];
    jobs.extend(levels().map(|(number, level)| {
        (format!("job=\"compaction\",level=\"{number}\""), level.compaction)
    }));
    let by_job = |of: fn(&JobFigures) -> u64| {
        jobs.iter().map(|(labels, job)| (labels.clone(), of(job) as f64)).collect()
    };
    let stage_seconds = jobs.iter().flat_map(|(labels, job)| {
        stages(job).map(|(name, ns)| (format!("{labels},stage=\"{name}\""), ns as f64 / 1e9))
    });
    let steps = read_steps(stats);
    let step_samples = steps.iter().map(|(labels, time)| (labels.clone(), time.samples as f64));
    let step_seconds =
        steps.iter().map(|(labels, time)| (labels.clone(), time.sum_ns as f64 / 1e9));
    let waits = [
        ("other_writer", stats.writes.writer_waited_ns),
        ("memtables_full", stats.ledger.waited_ns),
        ("merges_behind", stats.writes.delayed_ns),
        ("group", stats.durability.group_waited_ns),
        ("sync", stats.durability.sync_waited_ns),
    ];
    let waits = waits.map(|(cause, ns)| (format!("cause=\"{cause}\""), ns as f64 / 1e9));
    vec![
        (
            "pellucid_engine_level_tables",
            "gauge",
            "Tables of a level.",
            by_level(|level| level.tables),
        ),
        (
            "pellucid_engine_level_bytes",
            "gauge",
            "Bytes of a level's tables.",
            by_level(|level| level.size_bytes),
        ),
        (
            "pellucid_engine_level_directory_bytes",
            "gauge",
            "Memory of the directories of a level's tables.",
            by_level(|level| level.directory_bytes),
        ),
        (
            "pellucid_engine_memory_bytes",
            "gauge",
            "Memory beside the page cache, by share of the setting.",
            by_share(|share| share.used_bytes),
        ),
        (
            "pellucid_engine_memory_limit_bytes",
            "gauge",
            "What each share of the memory setting may take.",
            by_share(|share| share.limit_bytes),
        ),
        (
            "pellucid_engine_look_ups_total",
            "counter",
            "Look-ups by where they ended.",
            look_ups.collect(),
        ),
        (
            "pellucid_engine_tables_asked_total",
            "counter",
            "Tables asked for a key.",
            by_level(|level| level.reads.asked),
        ),
        (
            "pellucid_engine_tables_excluded_total",
            "counter",
            "Tables that a filter or directory ruled out.",
            by_level(|level| level.reads.excluded),
        ),
        (
            "pellucid_engine_false_positives_total",
            "counter",
            "Tables that a filter or directory let pass in vain.",
            by_level(|level| level.reads.false_positives),
        ),
        (
            "pellucid_engine_index_searches_total",
            "counter",
            "Tables that had no directory and answered by filter and index.",
            by_level(|level| level.reads.by_index),
        ),
        (
            "pellucid_engine_blocks_searched_total",
            "counter",
            "Blocks of tables searched.",
            by_level(|level| level.reads.blocks_searched),
        ),
        (
            "pellucid_engine_read_step_samples_total",
            "counter",
            "Steps of reads that were timed, by samples.",
            step_samples.collect(),
        ),
        (
            "pellucid_engine_read_step_seconds_total",
            "counter",
            "Time of the steps of reads that were timed.",
            step_seconds.collect(),
        ),
        (
            "pellucid_engine_write_wait_seconds_total",
            "counter",
            "Time that writers waited, by cause.",
            waits.into(),
        ),
        (
            "pellucid_engine_job_runs_total",
            "counter",
            "Flushes, and merges out of a level.",
            by_job(|job| job.runs),
        ),
        (
            "pellucid_engine_job_tables_total",
            "counter",
            "Tables written by jobs.",
            by_job(|job| job.tables_out),
        ),
        (
            "pellucid_engine_job_read_bytes_total",
            "counter",
            "Bytes read by jobs.",
            by_job(|job| job.bytes_in),
        ),
        (
            "pellucid_engine_job_written_bytes_total",
            "counter",
            "Bytes written by jobs.",
            by_job(|job| job.bytes_out),
        ),
        (
            "pellucid_engine_job_stage_seconds_total",
            "counter",
            "Time of jobs by stage; merge and build by samples.",
            stage_seconds.collect(),
        ),
    ]
}

/// The engine's figures without labels, in the manner of [`Store::figures`].
pub(crate) fn singles(stats: &EngineStats) -> Vec<(&'static str, u64)> {
    vec![
        ("engine_memtable_bytes", stats.ledger.memtable_bytes),
        ("engine_sealed_memtables", stats.ledger.sealed_memtables),
        ("engine_table_memory_bytes", stats.ledger.table_memory_bytes),
        ("engine_compaction_debt_bytes", stats.ledger.debt_bytes),
        ("engine_journal_records_read_total", stats.reads.records),
        ("engine_journal_read_bytes_total", stats.reads.record_bytes),
        ("engine_batches_total", stats.writes.batches),
        ("engine_entries_written_total", stats.writes.entries),
        ("engine_payload_written_bytes_total", stats.writes.user_bytes),
        ("engine_segments_collected_total", stats.collected.segments),
        ("engine_collection_copied_bytes_total", stats.collected.copied_bytes),
        ("engine_collection_freed_bytes_total", stats.collected.freed_bytes),
    ]
}

/// The lines for the log: one a kind, as far as something happened. Counters are shown as what was
/// added since `before`.
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

/// `now` with every number less that of `before`.
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

/// The target of the events that are the engine's figures, each a JSON document.
pub const ENGINE_TARGET: &str = "pellucid::engine";

/// The thread that writes the engine's figures to the log, for as long as this lives.
pub(crate) struct EngineLog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EngineLog {
    /// Writes every `interval`, from the first on.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        log: Log,
        interval: Duration,
    ) -> std::io::Result<EngineLog> {
        let (stop, stopped) = channel();
        let run = move || {
            static FIGURES: pellucid_thread::Job = pellucid_thread::Job::new("figures");
            let _job = pellucid_thread::start_job(&FIGURES);
            let figures = || store.engine_stats().as_ref().map(document);
            let Some(mut before) = figures() else { return };
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let Some(now) = figures() else { return };
                for line in lines(&before, &now, interval.as_secs_f64()) {
                    log.with(|| tracing::info!(target: ENGINE_TARGET, "{line}"));
                }
                before = now;
            }
        };
        let thread = std::thread::Builder::new().name(LOG_THREAD.to_owned()).spawn(run)?;
        Ok(EngineLog { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for EngineLog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_what_was_added_and_no_line_what_was_not() {
        let stats = EngineStats::default();
        let before = document(&stats);
        assert_eq!(lines(&before, &before, 30.0).len(), 1, "the state alone");
        let mut later = stats.clone();
        later.writes.batches = 5;
        let middle = document(&later);
        later.writes.batches = 12;
        later.ledger.flush.runs = 1;
        let lines: Vec<Value> = lines(&middle, &document(&later), 30.0)
            .iter()
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .collect();
        let kinds: Vec<_> = lines.iter().map(|line| &line["kind"]).collect();
        assert_eq!(kinds, ["state", "writes", "flush"]);
        assert_eq!(lines[1]["figures"]["batches"], 7);
        assert_eq!(lines[2]["figures"]["runs"], 1);
    }
}
