//! The engine's part of `/metrics`. A figure has either a metric of its own or shares a family with
//! others; its path in the document of `/_admin/engine` decides which, and gives the labels.

use pellucid_embedded::{EngineStats, Metric};

/// A family of metrics, with the labels and values of its samples.
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) help: &'static str,
    pub(crate) samples: Vec<(String, f64)>,
}

/// All families. Values of families whose names end with `_seconds_total` are converted from
/// nanoseconds.
pub(crate) fn families(stats: &EngineStats) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    stats.each(|shown| {
        let path: Vec<&str> = shown.path.split('/').collect();
        let Some(Metric { name, help }) = shown.metric.or_else(|| shared(&path)) else { return };
        let name = format!("pellucid_engine_{name}");
        let per = if name.ends_with("_seconds_total") { 1e9 } else { 1.0 };
        let sample = (labels(&path), shown.value as f64 / per);
        match families.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push(sample),
            None => families.push(Family { name, help, samples: vec![sample] }),
        }
    });
    let troubles = [
        ("part=\"ledger\"", stats.ledger.trouble.is_some()),
        ("part=\"collection\"", stats.collection_trouble.is_some()),
    ];
    let samples = troubles.map(|(labels, is_there)| (labels.to_owned(), f64::from(is_there)));
    families.push(Family {
        name: "pellucid_engine_trouble".to_owned(),
        help: "1 while jobs fail or are put off; /_admin/engine has the reason.",
        samples: samples.to_vec(),
    });
    families
}

/// The metric that all figures with paths of this form share; `None` if they are not shown.
fn shared(path: &[&str]) -> Option<Metric> {
    let (name, help) = match *path {
        ["state", "memory", _, "used_bytes"] => {
            ("memory_bytes", "Memory beside the page cache, by share of the setting.")
        }
        ["state", "memory", _, "limit_bytes"] => {
            ("memory_limit_bytes", "What each share of the memory setting may take.")
        }
        ["reads", "journal", "time", _] => return None,
        ["reads", "journal", _, "samples"] | ["reads", "levels", _, "steps", _, "samples"] => {
            ("read_step_samples_total", "Steps of reads that were timed, by samples.")
        }
        ["reads", "journal", _, "sum_ns"] | ["reads", "levels", _, "steps", _, "sum_ns"] => {
            ("read_step_seconds_total", "Time of the steps of reads that were timed.")
        }
        ["writes", "waits", _, "sum_ns"] => {
            ("write_wait_seconds_total", "Time that writers waited, by cause.")
        }
        ["background", .., "stages", _] => {
            ("job_stage_seconds_total", "Time of jobs by stage; merge and build by samples.")
        }
        _ => return None,
    };
    Some(Metric { name, help })
}

/// The labels of the figure with this path.
fn labels(path: &[&str]) -> String {
    match *path {
        ["state", "memory", share, _] => format!("share=\"{share}\""),
        ["reads", "levels", level, "steps", step, _] => {
            format!("part=\"level_{level}\",step=\"{step}\"")
        }
        ["reads", "journal", step, _] => format!("part=\"journal\",step=\"{step}\""),
        ["state" | "reads", "levels", level, _] => format!("level=\"{level}\""),
        ["reads", "look_ups", place, _] => format!("found_in=\"{place}\""),
        ["writes", "waits", cause, _] => format!("cause=\"{cause}\""),
        ["background", ref job @ .., "stages", stage] => {
            let stage = stage.strip_suffix("_ns").unwrap_or(stage);
            format!("{},stage=\"{stage}\"", job_labels(job))
        }
        ["background", "collection", _] => String::new(),
        ["background", ref job @ .., _] => job_labels(job),
        _ => String::new(),
    }
}

fn job_labels(job: &[&str]) -> String {
    match *job {
        ["compactions", level] => format!("job=\"compaction\",level=\"{level}\""),
        _ => "job=\"flush\",level=\"0\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pellucid_embedded::{EngineStats, JobFigures, LevelFigures};

    use super::*;

    #[test]
    fn families_have_the_samples_of_their_figures() {
        let mut stats = EngineStats::default();
        stats.ledger.levels = vec![LevelFigures::default(); 2];
        stats.reads.levels = vec![Default::default(); 2];
        let compaction = JobFigures { runs: 3, build_ns: 2_000_000_000, ..JobFigures::default() };
        stats.ledger.levels[1].compaction = compaction;
        stats.collection_trouble = Some("no space".to_owned());
        let families = families(&stats);
        assert_eq!(families.len(), 32, "docs/engine-account.md has those");
        let samples = |name: &str| {
            let family = families.iter().find(|family| family.name == name);
            family.map(|family| family.samples.clone()).unwrap_or_default()
        };
        let runs = samples("pellucid_engine_job_runs_total");
        assert_eq!(runs[2], ("job=\"compaction\",level=\"1\"".to_owned(), 3.0));
        let stages = samples("pellucid_engine_job_stage_seconds_total");
        let build = ("job=\"compaction\",level=\"1\",stage=\"build\"".to_owned(), 2.0);
        assert!(stages.contains(&build), "{stages:?}");
        let steps = samples("pellucid_engine_read_step_samples_total");
        let filter = ("part=\"level_1\",step=\"filter\"".to_owned(), 0.0);
        assert!(steps.contains(&filter) && steps.len() == 2 * 6 + 3, "{steps:?}");
        let troubles = [("part=\"ledger\"", 0.0), ("part=\"collection\"", 1.0)];
        let troubles = troubles.map(|(labels, value)| (labels.to_owned(), value));
        assert_eq!(samples("pellucid_engine_trouble"), troubles);
    }
}
