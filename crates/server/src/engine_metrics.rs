//! The engine's part of `/metrics`: families with labels, and figures without.

use pellucid_embedded::{EngineStats, JobFigures, LevelFigures, MemoryShare, SampledTime};

use crate::engine_page::{found, shares, stages};

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
