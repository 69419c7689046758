//! The loads of a study, each with its verdict.

use super::figure::{Table, folded};
use super::markup::Markup;
use crate::study::StudyReport;
use crate::units::{count, duration, rate};

/// Writes the table, closed, and the evidence for loads that are not stable.
pub(super) fn write(page: &mut Markup, report: &StudyReport) {
    if report.loads.is_empty() {
        return;
    }
    folded(page, ("loads", "Loads and their verdicts"), &summary(report), |page| {
        page.element("div", &[("class", "card")], |page| {
            let header = ["load", "run", "asked for", "answered", "p99", "verdict"];
            let mut table = Table::with_header(header);
            table.rows.extend(report.loads.iter().map(|load| {
                let offered = load.offered_per_second;
                vec![
                    load.name.clone(),
                    load.run.to_string(),
                    offered
                        .map_or_else(|| "closed loop".to_owned(), |of| format!("{}/s", rate(of))),
                    format!("{}/s", rate(load.answered_per_second)),
                    load.p99_ns.map_or_else(|| "-".to_owned(), duration),
                    load.verdict.clone(),
                ]
            }));
            table.write(page, "Loads and their verdicts");
            for load in report.loads.iter().filter(|load| load.verdict != "stable") {
                let text =
                    format!("{}, run {}: {}: {}", load.name, load.run, load.verdict, load.evidence);
                page.leaf("p", &[("class", "note")], &text);
            }
        });
    });
}

/// The number of loads, and of each verdict.
pub(super) fn summary(report: &StudyReport) -> String {
    let verdicts = report.verdicts().into_iter();
    let counted = verdicts.map(|(verdict, number)| format!("{} {verdict}", count(number as u64)));
    let counted: Vec<String> = counted.collect();
    let loads = match report.loads.len() {
        1 => "1 load".to_owned(),
        many => format!("{} loads", count(many as u64)),
    };
    format!("{loads}: {}.", counted.join(", "))
}
