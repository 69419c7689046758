//! The report of a study, as every view shows it: the page, the text and the JSON.

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::finding::{Finding, JudgedLoad};
use crate::machine::Machine;

/// The name of the schema of [`StudyReport`] as JSON (docs/studies.md).
pub const STUDY_SCHEMA: &str = "pellucid.study.v2";

/// The largest number of lines of a study's answer.
pub const ANSWER_LINES_MAX: usize = 5;

/// The outcome of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyReport {
    /// The name of the schema, [`STUDY_SCHEMA`].
    pub schema: String,
    /// The name on the command line, such as `merge-tree`.
    pub name: String,
    /// The title.
    pub title: String,
    /// The study's question.
    pub question: String,
    /// The answer, in at most [`ANSWER_LINES_MAX`] lines.
    pub answer: Vec<String>,
    /// The chart that shows the answer.
    pub picture: Option<Chart>,
    /// The size of the study: `quick`, `default` or `full`.
    pub scale: String,
    /// The exact command line that repeats the study.
    pub command: String,
    /// The time at which the report was made, in milliseconds since 1970 (UTC).
    pub generated_unix_ms: u64,
    /// The machine on which the figures were measured.
    pub machine: Machine,
    /// The settings: names and values.
    pub settings: Vec<(String, String)>,
    /// The steps, in order.
    pub steps: Vec<CompletedStep>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The loads, in order, each with its verdict.
    pub loads: Vec<JudgedLoad>,
    /// The charts, in groups.
    pub sections: Vec<ChartSection>,
    /// The profiles of processor time, memory and waits; empty if they were not recorded.
    #[serde(default)]
    pub profiles: Vec<ProfileSection>,
    /// Facts that the reader must know to judge the figures, one plain sentence each.
    pub notes: Vec<String>,
}

/// A step of a study that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompletedStep {
    /// The name of the step.
    pub name: String,
    /// The length of the step.
    pub seconds: f64,
}

/// Charts that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChartSection {
    /// The heading.
    pub name: String,
    /// The subject, in a sentence or two.
    pub description: String,
    /// The part of the report to which it belongs together with other sections, such as `Single
    /// runs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Its charts.
    pub charts: Vec<Chart>,
    /// Further charts in groups, which a reader opens one at a time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ChartGroup>,
}

/// The charts of one of several similar things, closed until a reader opens them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChartGroup {
    /// The subject of the charts.
    pub name: String,
    /// The content, in a line that is seen while the group is closed.
    pub description: String,
    /// The charts.
    pub charts: Vec<Chart>,
}

impl ChartSection {
    /// A section with these charts, not in a part with others.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        charts: Vec<Chart>,
    ) -> ChartSection {
        let (name, description) = (name.into(), description.into());
        ChartSection { name, description, part: None, charts, groups: Vec::new() }
    }

    /// All charts of the section: its own, and then those of its groups.
    fn all_charts(&self) -> impl Iterator<Item = &Chart> {
        self.charts.iter().chain(self.groups.iter().flat_map(|group| &group.charts))
    }
}

/// A profile of the measured process: shares first, then the stacks that they were summed from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileSection {
    /// The heading, such as `Processor time`.
    pub title: String,
    /// True if amounts are bytes; otherwise, they are nanoseconds.
    pub is_bytes: bool,
    /// The length of the recording, in nanoseconds.
    pub duration_ns: u64,
    /// The number of samples; 0 in older reports.
    #[serde(default)]
    pub samples: u64,
    /// The share of the amount that has both a phase or job and a component, from 0 to 1.
    pub explained: f64,
    /// The shares by phase or job and component, the largest first.
    pub shares: Vec<ProfileShare>,
    /// The names of the functions; stacks refer to them by index.
    pub functions: Vec<String>,
    /// The stacks.
    pub stacks: Vec<ProfileStack>,
    /// Remarks on gaps in the profile, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The cost of one phase or job and component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileShare {
    /// The phase of the request, or `job` and its name; `unlabelled` for neither.
    pub phase: String,
    /// The part of the program.
    pub component: String,
    /// The amount.
    pub amount: f64,
    /// The share of the total, from 0 to 1.
    pub share: f64,
}

/// One stack, with the amount of its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileStack {
    /// The operation and phase of the request, or the job.
    pub root: String,
    /// The indexes of the functions, the outermost first.
    pub stack: Vec<u32>,
    /// The amount.
    pub amount: f64,
    /// The amount by time, if times are known: the number of the [`MOMENT_NS`] since the beginning,
    /// and the amount in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<(u32, f64)>,
}

/// The precision of the times of profiles, in nanoseconds.
pub const MOMENT_NS: u64 = 50_000_000;

impl ProfileSection {
    /// The sum of all amounts.
    #[must_use]
    pub fn amount(&self) -> f64 {
        self.stacks.iter().map(|stack| stack.amount).sum()
    }
}

impl StudyReport {
    /// All charts: the picture, and those of sections and their groups.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.picture.iter().chain(self.sections.iter().flat_map(ChartSection::all_charts))
    }

    /// The number of loads with each verdict, the most frequent first.
    #[must_use]
    pub fn verdicts(&self) -> Vec<(&str, usize)> {
        let mut verdicts: Vec<(&str, usize)> = Vec::new();
        for load in &self.loads {
            match verdicts.iter_mut().find(|(name, _)| *name == load.verdict) {
                Some((_, number)) => *number += 1,
                None => verdicts.push((&load.verdict, 1)),
            }
        }
        verdicts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        verdicts
    }

    /// The report as JSON text.
    ///
    /// # Errors
    /// An error of `serde_json`; every report can be written, so none is expected.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}
