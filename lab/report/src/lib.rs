//! Reports: tables, histograms and one-file HTML from recorded figures.
//!
//! Figures that nobody can read change nothing. This crate presents the records of the load
//! generator and the server's account as text for a terminal, and as a page that needs no network.
//! Both show the same numbers. It does not depend on the origin of the figures: [`Report`] is all
//! that it gets.

#![forbid(unsafe_code)]

mod chart;
mod command;
mod compare;
#[cfg(test)]
mod example;
mod finding;
mod hgrm;
pub mod histogram_text;
mod hlog;
mod html;
mod machine;
mod model;
mod phases;
mod quantiles;
mod span;
mod study;
pub mod text;
mod thinning;
mod units;

pub use chart::{Chart, ChartEvent, ChartForm, Series, Unit};
pub use command::command_line;
pub use compare::{
    Bar, Bars, Change, ComparedRun, Comparison, ConfidenceInterval, PhaseDelta, PhaseSource,
    QuantileDelta, compare,
};
pub use finding::{
    Estimate, Finding, JudgedLoad, Judgement, RUNS_MIN, SAMPLES_MIN, Source, both, either,
};
pub use hgrm::hgrm;
pub use hlog::hlog;
pub use html::{FlameGraph, FlameSample, FlameUnit, flame_html, flame_svg, html, study_html};
pub use machine::Machine;
pub use model::{ClientFigures, Report, Sample, Section, TimelineInterval, Verdict};
pub use span::{Span, covered_seconds, span_labels};
pub use study::{
    ANSWER_LINES_MAX, ChartGroup, ChartSection, CompletedStep, MOMENT_NS, ProfileSection,
    ProfileShare, ProfileStack, STUDY_SCHEMA, StudyReport,
};
pub use thinning::thin_out;
