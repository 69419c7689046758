//! The child's messages. Each second it sends a sample of counters that only grow, so the
//! difference of two samples shows what happened between them.

use std::collections::BTreeMap;

use pellucid_account::Snapshot;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::proc::ProcessFigures;
use crate::profile_recording::RecordedProfiles;

/// The most samples that are kept. When there are more, every other one is dropped; no count is
/// lost by that.
const SAMPLES_MAX: usize = 1_200;

/// A line of the child's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// A note for the report.
    Note(String),
    /// The counters at one moment.
    Sample(Box<Sample>),
    /// The account of all requests, at the end.
    Account(Box<Snapshot>),
    /// The profiles of processor time, memory and waits, at the end.
    Profiles(RecordedProfiles),
}

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// The time since the load began.
    pub(super) seconds: f64,
    /// The engine's account (docs/engine-account.md).
    pub(super) engine: Value,
    /// The sums by operation and outcome, such as `get ok`.
    pub(super) operations: BTreeMap<String, OperationSums>,
    /// The process's use of resources.
    pub(super) process: ProcessFigures,
    /// The page cache of the control group; 0 without a group.
    pub(super) page_cache_bytes: u64,
}

/// Sums over the requests of one operation and outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct OperationSums {
    /// The number of requests.
    pub(super) count: u64,
    /// The sum of their times.
    pub(super) total_ns: f64,
    /// The sums of the times of their parts.
    pub(super) parts_ns: BTreeMap<String, f64>,
}

impl OperationSums {
    /// The sums of all operations of an account.
    pub(super) fn of(snapshot: &Snapshot) -> BTreeMap<String, OperationSums> {
        let sum = |count: u64, mean_ns: f64| count as f64 * mean_ns;
        let operations = snapshot.operations.iter().map(|account| {
            let parts = account.parts.iter().map(|part| {
                let times = &part.distribution;
                (part.name.clone(), sum(times.count, times.mean_ns))
            });
            let sums = OperationSums {
                count: account.count,
                total_ns: sum(account.total.count, account.total.mean_ns),
                parts_ns: parts.collect(),
            };
            (format!("{} {}", account.operation, account.outcome), sums)
        });
        operations.collect()
    }
}

/// The whole output of a child.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    pub(super) samples: Vec<Sample>,
    pub(super) notes: Vec<String>,
    pub(super) account: Option<Snapshot>,
    pub(super) profiles: RecordedProfiles,
    /// One sample in this many is kept.
    kept_one_in: u64,
    seen: u64,
}

impl Recording {
    pub(super) fn take(&mut self, line: Line) {
        match line {
            Line::Note(note) => self.notes.push(note),
            Line::Account(account) => self.account = Some(*account),
            Line::Profiles(profiles) => self.profiles = profiles,
            Line::Sample(sample) => self.take_sample(*sample),
        }
    }

    fn take_sample(&mut self, sample: Sample) {
        let kept_one_in = self.kept_one_in.max(1);
        if self.seen.is_multiple_of(kept_one_in) {
            self.samples.push(sample);
        }
        self.seen += 1;
        if self.samples.len() > SAMPLES_MAX {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.kept_one_in = kept_one_in * 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_thinned_evenly() {
        let mut recording = Recording::default();
        for second in 0..5_000 {
            let sample = Sample { seconds: f64::from(second), ..Sample::default() };
            recording.take(Line::Sample(Box::new(sample)));
        }
        let samples = &recording.samples;
        assert!(samples.len() <= SAMPLES_MAX && samples.len() > SAMPLES_MAX / 2);
        let steps: Vec<f64> =
            samples.windows(2).map(|pair| pair[1].seconds - pair[0].seconds).collect();
        assert!(steps.iter().all(|step| *step == 8.0), "{steps:?}");
    }

    #[test]
    fn lines_round_trip() {
        let line = Line::Sample(Box::new(Sample { seconds: 1.5, ..Sample::default() }));
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
