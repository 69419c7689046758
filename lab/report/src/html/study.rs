//! The page of a study: what it asks, what it found beside what was found before, and its charts.

use super::figure::Table;
use super::flame::{FLAME_SCRIPT, FLAME_STYLE};
use super::markup::Markup;
use super::{SCRIPT, STYLE, chart, head, page_with, profiles};
use crate::study::{ChartGroup, Finding, StudyReport};
use crate::units::{date_time, duration};

/// The whole page of a study.
#[must_use]
pub fn study_html(report: &StudyReport) -> String {
    let scripts = [SCRIPT, FLAME_SCRIPT];
    let scripts = if report.profiles.is_empty() { &scripts[..1] } else { &scripts };
    page_with(&report.title, &[STYLE, FLAME_STYLE], scripts, |page| {
        head::write_title(page, &report.title, &date_time(report.generated_unix_ms));
        write_findings(page, report);
        let settings = report.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
        head::write_run(page, &report.command, settings.collect(), &report.machine);
        for (index, section) in report.sections.iter().enumerate() {
            let id = format!("section-{index}");
            page.element("section", &[("id", &id), ("class", "load")], |page| {
                page.leaf("h2", &[], &section.name);
                page.leaf("p", &[("class", "muted")], &section.description);
                page.element("div", &[("class", "charts")], |page| {
                    section.charts.iter().for_each(|chart| chart::write(page, chart));
                });
                section.groups.iter().for_each(|group| write_group(page, group));
            });
        }
        profiles::write(page, &report.profiles);
        write_steps(page, report);
    })
}

/// Writes charts that stay closed until they are asked for.
fn write_group(page: &mut Markup, group: &ChartGroup) {
    page.element("details", &[("class", "group")], |page| {
        page.element("summary", &[], |page| {
            page.leaf("strong", &[], &group.name);
            page.text(&format!(" {}", group.description));
        });
        page.element("div", &[("class", "charts")], |page| {
            group.charts.iter().for_each(|chart| chart::write(page, chart));
        });
    });
}

fn write_findings(page: &mut Markup, report: &StudyReport) {
    page.element("section", &[("class", "card findings"), ("aria-label", "Findings")], |page| {
        page.leaf("h2", &[], "Findings");
        page.leaf("p", &[], &report.question);
        page.element("div", &[("class", "conclusions")], |page| {
            report.findings.iter().for_each(|finding| write_finding(page, finding));
        });
        if report.findings.is_empty() {
            page.leaf("p", &[], "Nothing was measured.");
        }
        for note in &report.notes {
            page.leaf("p", &[("class", "note")], note);
        }
        page.element("p", &[("class", "contents")], |page| {
            for (index, section) in report.sections.iter().enumerate() {
                page.leaf("a", &[("href", &format!("#section-{index}"))], &section.name);
                page.text(" ");
            }
            if !report.profiles.is_empty() {
                page.leaf("a", &[("href", "#profiles")], "Profiles");
            }
        });
    });
}

fn write_finding(page: &mut Markup, finding: &Finding) {
    let verdict = match finding.is_same {
        Some(true) => "as before",
        Some(false) => "otherwise here",
        None => "cannot be told",
    };
    page.element("div", &[], |page| {
        page.element("p", &[("class", "muted")], |page| {
            page.leaf("span", &[("class", "verdict")], verdict);
            page.text(&format!(" {}", finding.original));
        });
        page.leaf("p", &[], &head::unbroken(&finding.sentence));
    });
}

fn write_steps(page: &mut Markup, report: &StudyReport) {
    let mut table = Table::with_header(["step", "took"]);
    let steps = report.steps.iter();
    table.rows.extend(steps.map(|step| vec![step.name.clone(), duration(step.seconds * 1e9)]));
    page.element("section", &[("class", "load")], |page| {
        page.leaf("h2", &[], "What was done");
        page.element("div", &[("class", "card quantiles")], |page| {
            table.write(page, "Steps");
        });
    });
}
