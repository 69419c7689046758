//! The findings of a study, as text for a terminal.

use crate::study::StudyReport;

/// The question, the findings, the verdicts of the loads, and the notes of a study.
#[must_use]
pub fn findings(report: &StudyReport) -> String {
    let mut text = format!("{}\n{}\n", report.title, report.question);
    for finding in &report.findings {
        let judgement = finding.judgement.name();
        text.push_str(&format!(
            "\n  {} ({judgement})\n  → {}\n",
            finding.original, finding.sentence
        ));
        for figure in &finding.figures {
            text.push_str(&format!("    {}: {figure} ({})\n", figure.name, figure.spread()));
        }
    }
    let verdicts = report.verdicts().into_iter();
    let verdicts: Vec<_> = verdicts.map(|(name, number)| format!("{number} {name}")).collect();
    if !verdicts.is_empty() {
        text.push_str(&format!("\nLoads: {}.\n", verdicts.join(", ")));
    }
    for note in &report.notes {
        text.push_str(&format!("Note: {note}\n"));
    }
    text
}
