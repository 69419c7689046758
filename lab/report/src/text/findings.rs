//! The findings of a study, as text for a terminal.

use crate::study::StudyReport;

/// The question, the conclusions and the notes of a study.
#[must_use]
pub fn findings(report: &StudyReport) -> String {
    let mut text = format!("{}\n{}\n", report.title, report.question);
    for finding in &report.findings {
        let verdict = match finding.is_same {
            Some(true) => "as before",
            Some(false) => "otherwise here",
            None => "cannot be told",
        };
        text.push_str(&format!("\n  {} ({verdict})\n  → {}\n", finding.original, finding.sentence));
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        text.push_str(&format!("Note: {note}\n"));
    }
    text
}
