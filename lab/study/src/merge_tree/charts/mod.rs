//! The charts of the original study, drawn from the engine's account and that of the requests.

mod background;
mod get;
mod head;
mod overview;
mod put;
mod series;

use pellucid_report::{Chart, ChartSection};

use super::source::Source;

pub(super) fn sections(source: &Source<'_>) -> Vec<ChartSection> {
    vec![
        overview::section(source),
        get::section(source),
        put::section(source),
        head::section(source),
        head::files_section(source),
        background::section(source),
    ]
}

/// The main chart of the study: head and body of a GET over time.
pub(super) fn picture(source: &Source<'_>) -> Chart {
    Chart { name: "picture".to_owned(), ..get::parts(source) }
}
