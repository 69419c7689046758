//! The engine's part of `/metrics`, read from the document that its page shows.

use serde_json::Value;

/// A family of metrics. By its name, nanoseconds become seconds.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// The samples in the document: fixed labels, and a path. `{label}` stands for each item of a
    /// list, by its level, or each field of an object, by its name; `{label:prefix}` adds a prefix.
    samples: &'static [(&'static str, &'static str)],
}

const fn family(
    name: &'static str,
    help: &'static str,
    samples: &'static [(&'static str, &'static str)],
) -> Family {
    Family { name, help, samples }
}

/// See the module.
pub(crate) static FAMILIES: &[Family] = &[
    family(
        "pellucid_engine_level_tables",
        "Tables of a level.",
        &[("", "state/levels/{level}/tables")],
    ),
    family(
        "pellucid_engine_level_bytes",
        "Bytes of a level's tables.",
        &[("", "state/levels/{level}/size_bytes")],
    ),
    family(
        "pellucid_engine_level_directory_bytes",
        "Memory of the directories of a level's tables.",
        &[("", "state/levels/{level}/directory_bytes")],
    ),
    family(
        "pellucid_engine_memory_bytes",
        "Memory beside the page cache, by share of the setting.",
        &[("", "state/memory/{share}/used_bytes")],
    ),
    family(
        "pellucid_engine_memory_limit_bytes",
        "What each share of the memory setting may take.",
        &[("", "state/memory/{share}/limit_bytes")],
    ),
    family(
        "pellucid_engine_memtable_bytes",
        "Bytes of the memtables.",
        &[("", "state/memtable_bytes")],
    ),
    family(
        "pellucid_engine_sealed_memtables",
        "Memtables that wait for their flush.",
        &[("", "state/sealed_memtables")],
    ),
    family(
        "pellucid_engine_table_memory_bytes",
        "Memory of the tables beside the page cache.",
        &[("", "state/table_memory_bytes")],
    ),
    family(
        "pellucid_engine_compaction_debt_bytes",
        "Bytes that compactions are behind.",
        &[("", "state/compaction_debt_bytes")],
    ),
    family(
        "pellucid_engine_look_ups_total",
        "Look-ups by where they ended.",
        &[("", "reads/look_ups/{found_in}/count")],
    ),
    family(
        "pellucid_engine_tables_asked_total",
        "Tables asked for a key.",
        &[("", "reads/levels/{level}/asked")],
    ),
    family(
        "pellucid_engine_tables_excluded_total",
        "Tables that a filter or directory ruled out.",
        &[("", "reads/levels/{level}/excluded")],
    ),
    family(
        "pellucid_engine_false_positives_total",
        "Tables that a filter or directory let pass in vain.",
        &[("", "reads/levels/{level}/false_positives")],
    ),
    family(
        "pellucid_engine_index_searches_total",
        "Tables that had no directory and answered by filter and index.",
        &[("", "reads/levels/{level}/by_index")],
    ),
    family(
        "pellucid_engine_blocks_searched_total",
        "Blocks of tables searched.",
        &[("", "reads/levels/{level}/blocks_searched")],
    ),
    family(
        "pellucid_engine_read_step_samples_total",
        "Steps of reads that were timed, by samples.",
        &[
            ("", "reads/levels/{part:level_}/steps/{step}/samples"),
            ("part=\"journal\",step=\"place\"", "reads/journal/place/samples"),
            ("part=\"journal\",step=\"read_cached\"", "reads/journal/read_cached/samples"),
            ("part=\"journal\",step=\"read_disk\"", "reads/journal/read_disk/samples"),
        ],
    ),
    family(
        "pellucid_engine_read_step_seconds_total",
        "Time of the steps of reads that were timed.",
        &[
            ("", "reads/levels/{part:level_}/steps/{step}/sum_ns"),
            ("part=\"journal\",step=\"place\"", "reads/journal/place/sum_ns"),
            ("part=\"journal\",step=\"read_cached\"", "reads/journal/read_cached/sum_ns"),
            ("part=\"journal\",step=\"read_disk\"", "reads/journal/read_disk/sum_ns"),
        ],
    ),
    family(
        "pellucid_engine_journal_records_read_total",
        "Records read from the journal.",
        &[("", "reads/journal/records")],
    ),
    family(
        "pellucid_engine_journal_read_bytes_total",
        "Bytes of records read from the journal.",
        &[("", "reads/journal/bytes")],
    ),
    family("pellucid_engine_batches_total", "Batches written.", &[("", "writes/batches")]),
    family("pellucid_engine_entries_written_total", "Entries written.", &[("", "writes/entries")]),
    family(
        "pellucid_engine_payload_written_bytes_total",
        "Bytes of keys and values written.",
        &[("", "writes/user_bytes")],
    ),
    family(
        "pellucid_engine_write_wait_seconds_total",
        "Time that writers waited, by cause.",
        &[("", "writes/waits/{cause}/sum_ns")],
    ),
    family(
        "pellucid_engine_job_runs_total",
        "Flushes, and merges out of a level.",
        &[(FLUSH, "background/flush/runs"), (COMPACTION, "background/compactions/{level}/runs")],
    ),
    family(
        "pellucid_engine_job_tables_total",
        "Tables written by jobs.",
        &[
            (FLUSH, "background/flush/tables_out"),
            (COMPACTION, "background/compactions/{level}/tables_out"),
        ],
    ),
    family(
        "pellucid_engine_job_read_bytes_total",
        "Bytes read by jobs.",
        &[
            (FLUSH, "background/flush/bytes_in"),
            (COMPACTION, "background/compactions/{level}/bytes_in"),
        ],
    ),
    family(
        "pellucid_engine_job_written_bytes_total",
        "Bytes written by jobs.",
        &[
            (FLUSH, "background/flush/bytes_out"),
            (COMPACTION, "background/compactions/{level}/bytes_out"),
        ],
    ),
    family(
        "pellucid_engine_job_stage_seconds_total",
        "Time of jobs by stage; merge and build by samples.",
        &[
            (FLUSH, "background/flush/stages/{stage}"),
            (COMPACTION, "background/compactions/{level}/stages/{stage}"),
        ],
    ),
    family(
        "pellucid_engine_segments_collected_total",
        "Segments of the journal that garbage collection has freed.",
        &[("", "background/collection/segments")],
    ),
    family(
        "pellucid_engine_collection_copied_bytes_total",
        "Bytes that garbage collection of the journal has copied.",
        &[("", "background/collection/copied_bytes")],
    ),
    family(
        "pellucid_engine_collection_freed_bytes_total",
        "Bytes that garbage collection of the journal has freed.",
        &[("", "background/collection/freed_bytes")],
    ),
];

const FLUSH: &str = "job=\"flush\",level=\"0\"";
const COMPACTION: &str = "job=\"compaction\"";

impl Family {
    /// The labels and values in the engine's document.
    pub(crate) fn samples(&self, document: &Value) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        for (labels, path) in self.samples {
            collect(document, path, (*labels).to_owned(), &mut found);
        }
        if self.name.ends_with("_seconds_total") {
            found.iter_mut().for_each(|(_, value)| *value /= 1e9);
        }
        found
    }
}

/// Collects the samples at `path` below `value`.
fn collect(value: &Value, path: &str, labels: String, found: &mut Vec<(String, f64)>) {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let Some(label) = first.strip_prefix('{').and_then(|label| label.strip_suffix('}')) else {
        return match (value.get(first), rest) {
            (Some(value), "") => found.extend(value.as_f64().map(|value| (labels, value))),
            (Some(value), rest) => collect(value, rest, labels, found),
            (None, _) => {}
        };
    };
    let (label, prefix) = label.split_once(':').unwrap_or((label, ""));
    let mut each = |name: &str, value: &Value| {
        let comma = if labels.is_empty() { "" } else { "," };
        let labels = format!("{labels}{comma}{label}=\"{prefix}{name}\"");
        match rest {
            "" => found.extend(value.as_f64().map(|value| (labels, value))),
            rest => collect(value, rest, labels, found),
        }
    };
    match value {
        Value::Array(items) => items.iter().for_each(|item| {
            let level = item.get("level").or_else(|| item.get("from_level"));
            each(level.and_then(Value::as_str).unwrap_or_default(), item);
        }),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            each(name.strip_suffix("_ns").unwrap_or(name), value);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use pellucid_embedded::{EngineStats, JobFigures, LevelFigures};

    use super::*;
    use crate::engine_page::document;

    /// A path that leads nowhere would leave its family empty.
    #[test]
    fn every_family_has_samples() {
        let mut stats = EngineStats::default();
        stats.ledger.levels = vec![LevelFigures::default(); 2];
        stats.reads.levels = vec![Default::default(); 2];
        let compaction = JobFigures { runs: 3, build_ns: 2_000_000_000, ..JobFigures::default() };
        stats.ledger.levels[1].compaction = compaction;
        let document = document(&stats);
        let samples = |name: &str| {
            let family = FAMILIES.iter().find(|family| family.name == name);
            family.map(|family| family.samples(&document)).unwrap_or_default()
        };
        for family in FAMILIES {
            assert!(!samples(family.name).is_empty(), "{}", family.name);
        }
        let runs = samples("pellucid_engine_job_runs_total");
        assert_eq!(runs[2], ("job=\"compaction\",level=\"1\"".to_owned(), 3.0));
        let stages = samples("pellucid_engine_job_stage_seconds_total");
        let build = ("job=\"compaction\",level=\"1\",stage=\"build\"".to_owned(), 2.0);
        assert!(stages.contains(&build), "{stages:?}");
        let steps = samples("pellucid_engine_read_step_samples_total");
        let filter = ("part=\"level_1\",step=\"filter\"".to_owned(), 0.0);
        assert!(steps.contains(&filter) && steps.len() == 2 * 6 + 3, "{steps:?}");
    }
}
