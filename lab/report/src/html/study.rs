//! The page of a study: its question, its answer and the chart that shows it; below them, closed,
//! the findings, the loads, the charts and the profiles.

use super::figure::{Table, folded};
use super::flame::{FLAME_SCRIPT, FLAME_STYLE};
use super::markup::Markup;
use super::{SCRIPT, STYLE, chart, findings, head, loads, page_with, profiles};
use crate::study::{ChartGroup, ChartSection, StudyReport};
use crate::units::{date_time, duration};

/// The whole page of a study.
#[must_use]
pub fn study_html(report: &StudyReport) -> String {
    let scripts = [SCRIPT, FLAME_SCRIPT];
    let scripts = if report.profiles.is_empty() { &scripts[..1] } else { &scripts };
    page_with(&report.title, &[STYLE, FLAME_STYLE], scripts, |page| {
        head::write_title(page, &report.title, &date_time(report.generated_unix_ms));
        write_answer(page, report);
        write_contents(page, report);
        findings::write(page, &report.findings);
        loads::write(page, report);
        for part in Part::of(&report.sections) {
            part.write(page);
        }
        profiles::write(page, &report.profiles);
        write_run(page, report);
    })
}

/// Sections that are shown together: a single section, or several of one part of the report.
struct Part<'a> {
    id: String,
    name: &'a str,
    sections: &'a [ChartSection],
}

impl<'a> Part<'a> {
    fn of(sections: &'a [ChartSection]) -> Vec<Part<'a>> {
        let same =
            |one: &ChartSection, other: &ChartSection| one.part.is_some() && one.part == other.part;
        let parts = sections.chunk_by(same).enumerate();
        parts
            .map(|(index, sections)| {
                let name = sections[0].part.as_deref().unwrap_or(&sections[0].name);
                Part { id: format!("section-{index}"), name, sections }
            })
            .collect()
    }

    fn write(&self, page: &mut Markup) {
        if self.sections[0].part.is_none() {
            let section = &self.sections[0];
            folded(page, (&self.id, self.name), &section.description, |page| {
                write_charts(page, section);
            });
            return;
        }
        let told = format!("{} sections.", self.sections.len());
        folded(page, (&self.id, self.name), &told, |page| {
            for (index, section) in self.sections.iter().enumerate() {
                let id = format!("{}-{index}", self.id);
                folded(page, (&id, &section.name), &section.description, |page| {
                    write_charts(page, section);
                });
            }
        });
    }
}

fn write_charts(page: &mut Markup, section: &ChartSection) {
    page.element("div", &[("class", "charts")], |page| {
        section.charts.iter().for_each(|chart| chart::write(page, chart));
    });
    section.groups.iter().for_each(|group| write_group(page, group));
}

/// Writes a group of charts that stays closed until the reader opens it.
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

fn write_answer(page: &mut Markup, report: &StudyReport) {
    page.element("section", &[("class", "card findings"), ("aria-label", "Answer")], |page| {
        page.leaf("p", &[("class", "question")], &report.question);
        page.element("ul", &[("class", "answer")], |page| {
            for line in &report.answer {
                page.leaf("li", &[], &head::unbroken(line));
            }
        });
        let mut told = findings::summary(&report.findings);
        if !report.loads.is_empty() {
            told = format!("Findings: {told}. {}", loads::summary(report));
        }
        page.leaf("p", &[("class", "muted")], &told);
    });
    if let Some(picture) = &report.picture {
        page.element("div", &[("class", "charts picture")], |page| chart::write(page, picture));
    }
}

fn write_contents(page: &mut Markup, report: &StudyReport) {
    let mut entries = vec![("findings".to_owned(), "Findings")];
    if !report.loads.is_empty() {
        entries.push(("loads".to_owned(), "Loads and their verdicts"));
    }
    entries.extend(Part::of(&report.sections).into_iter().map(|part| (part.id, part.name)));
    if !report.profiles.is_empty() {
        entries.push(("profiles".to_owned(), "Profiles"));
    }
    entries.push(("run".to_owned(), "The run"));
    let attributes = [("class", "card contents"), ("aria-label", "Contents")];
    page.element("nav", &attributes, |page| {
        page.leaf("h2", &[], "Contents");
        page.element("ul", &[], |page| {
            for (id, name) in &entries {
                page.element("li", &[], |page| {
                    page.leaf("a", &[("href", &format!("#{id}"))], name);
                });
            }
        });
    });
}

/// Writes how it was run: the notes, the command, the settings, the machine, and the steps.
fn write_run(page: &mut Markup, report: &StudyReport) {
    let seconds: f64 = report.steps.iter().map(|step| step.seconds).sum();
    let told = format!("The size {}, done in {}.", report.scale, duration(seconds * 1e9));
    folded(page, ("run", "The run"), &told, |page| {
        page.element("div", &[("class", "card findings")], |page| {
            for note in &report.notes {
                page.leaf("p", &[("class", "note")], &head::unbroken(note));
            }
        });
        let settings = report.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
        head::write_run(page, &report.command, settings.collect(), &report.machine);
        let mut table = Table::with_header(["step", "took"]);
        let steps = report.steps.iter();
        table.rows.extend(steps.map(|step| vec![step.name.clone(), duration(step.seconds * 1e9)]));
        page.element("div", &[("class", "card quantiles")], |page| {
            table.write(page, "Steps");
        });
    });
}
