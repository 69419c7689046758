//! Reads the flushes and compactions of RocksDB from its event log. The file `LOG` in its folder
//! has a line of JSON for the beginning and the end of each job, with wall-clock times in
//! microseconds. Polling counters instead would miss short jobs, and would take RocksDB's lock.

use std::collections::HashMap;

use serde_json::Value;

use crate::jobs::{COMPACTION, FLUSH, JobSpan};

/// The text before the JSON of an event.
const MARK: &str = "EVENT_LOG_v1 ";
/// For each kind of job: the event that begins it, the event that ends it, and the kind.
const EVENTS: [(&str, &str, &str); 2] = [
    ("flush_started", "flush_finished", FLUSH),
    ("compaction_started", "compaction_finished", COMPACTION),
];

/// The jobs in the log of the database in `folder`. The database must be closed, because until then
/// the last lines of the log may be in memory only.
#[cfg(feature = "rocksdb")]
pub(super) fn read(folder: &std::path::Path) -> Result<Vec<JobSpan>, crate::error::StudyError> {
    use crate::error::StudyError;
    let log = folder.join("LOG");
    let text = std::fs::read(&log).map_err(|error| StudyError::file("read", &log, error))?;
    Ok(jobs_of(&String::from_utf8_lossy(&text)))
}

/// The jobs in the text of a log, ordered by their ends. Jobs that never ended are left out.
fn jobs_of(text: &str) -> Vec<JobSpan> {
    let mut running: HashMap<(u64, &str), u64> = HashMap::new();
    let mut jobs = Vec::new();
    for line in text.lines() {
        let Some((_, json)) = line.split_once(MARK) else { continue };
        let Ok(event) = serde_json::from_str::<Value>(json) else { continue };
        let number = |name: &str| event[name].as_u64();
        let (Some(job), Some(at_us)) = (number("job"), number("time_micros")) else { continue };
        let Some(name) = event["event"].as_str() else { continue };
        let at_unix_ns = at_us.saturating_mul(1_000);
        for (begins, ends, kind) in EVENTS {
            if name == begins {
                running.insert((job, kind), at_unix_ns);
            } else if name == ends
                && let Some(began_unix_ns) = running.remove(&(job, kind))
            {
                let kind = kind.to_owned();
                jobs.push(JobSpan { kind, began_unix_ns, ended_unix_ns: at_unix_ns });
            }
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_found_among_other_lines_of_the_log() {
        let before = "2026/01/02-03:04:05.000001 140 [db/flush_job.cc:331] ";
        let events = [
            r#"{"time_micros": 1000, "job": 3, "event": "flush_started", "num_memtables": 1}"#,
            r#"{"time_micros": 1400, "job": 4, "event": "compaction_started", "files_L0": [9, 7]}"#,
            r#"{"time_micros": 1450, "cf_name": "t", "job": 3, "event": "table_file_creation"}"#,
            r#"{"time_micros": 1500, "job": 3, "event": "flush_finished", "lsm_state": [1, 0]}"#,
            r#"{"time_micros": 1600, "job": 5, "event": "trivial_move"}"#,
            r#"{"time_micros": 9000, "job": 4, "event": "compaction_finished"}"#,
            r#"{"time_micros": 9100, "job": 6, "event": "flush_started"}"#,
            r#"{"time_micros": 9200, "job": 7, "event": "flush_finished"}"#,
            r#"{"time_micros": 9300, "job": 8, "event": "flush_sta"#,
        ];
        let lines = events.map(|json| format!("{before}EVENT_LOG_v1 {json}"));
        let text = format!("{before}Compression options:\n{}\nEVENT_LOG_v1\n", lines.join("\n"));
        let job = |kind: &str, began_unix_ns, ended_unix_ns| JobSpan {
            kind: kind.to_owned(),
            began_unix_ns,
            ended_unix_ns,
        };
        let expected = [job(FLUSH, 1_000_000, 1_500_000), job(COMPACTION, 1_400_000, 9_000_000)];
        assert_eq!(jobs_of(&text), expected);
        assert!(jobs_of("").is_empty());
    }
}
