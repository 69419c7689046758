//! The engine's account of itself: `GET /_admin/engine`.
//!
//! It is a document (schema `pellucid.engine.v1`, docs/engine-account.md), which the log shows,
//! too. Its parts `reads`, `writes` and `background` hold counters only, numbers that grow from the
//! opening of the store on; `state` holds what is now.

use pellucid_embedded::{
    EngineStats, FoundFigures, Job, JobFigures, LevelFigures, MemoryShare, SAMPLED_EVERY,
    SampledTime,
};
use serde_json::{Map, Value, json};

/// The name of the document's form.
pub(crate) const SCHEMA: &str = "pellucid.engine.v1";

/// The document of `GET /_admin/engine`, which programs with an embedded engine may show, too.
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

/// The places where look-ups ended, with their figures.
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
        ("in_parts", figures.in_parts),
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
