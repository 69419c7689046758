//! The top of the page: the title, the findings, the command and the machine.

use super::markup::Markup;
use crate::machine::Machine;
use crate::model::{Report, Section};
use crate::text::sentence;
use crate::units::{count, date_time, duration, rate, size};

/// Writes the title, the findings, the command, the machine and the notes.
pub(crate) fn write(page: &mut Markup, report: &Report) {
    write_title(page, &report.title, &date_time(report.generated_unix_ms));
    write_findings(page, report);
    write_run(page, &report.command, Vec::new(), &report.machine);
}

/// Writes the title, the time, and the switch between light and dark.
pub(crate) fn write_title(page: &mut Markup, title: &str, moment: &str) {
    page.element("header", &[], |page| {
        page.element("div", &[("class", "title")], |page| {
            page.leaf("h1", &[], title);
            page.leaf("p", &[("class", "muted")], moment);
        });
        // The script shows the switch; without it, the page follows the system.
        let switch = [("id", "theme"), ("hidden", "hidden"), ("role", "group")];
        page.element("div", &[&switch[..], &[("aria-label", "Colours")]].concat(), |page| {
            for theme in ["auto", "light", "dark"] {
                let button = [("type", "button"), ("data-theme", theme)];
                page.leaf("button", &button, theme);
            }
        });
    });
}

fn write_findings(page: &mut Markup, report: &Report) {
    page.element("section", &[("class", "card findings"), ("aria-label", "Findings")], |page| {
        page.leaf("h2", &[], "Findings");
        for (index, section) in report.sections.iter().enumerate() {
            page.element("p", &[], |page| {
                page.leaf("a", &[("href", &format!("#section-{index}"))], &section.name);
                page.text(&unbroken(&format!(" {}", finding(section))));
            });
        }
        if report.sections.is_empty() {
            page.leaf("p", &[], "Nothing was measured.");
        }
        for note in &report.notes {
            page.leaf("p", &[("class", "note")], note);
        }
    });
}

/// Writes the command, the settings and the machine.
pub(crate) fn write_run(
    page: &mut Markup,
    command: &str,
    settings: Vec<(&str, String)>,
    machine: &Machine,
) {
    page.element("section", &[("class", "card run"), ("aria-label", "Run")], |page| {
        page.leaf("h2", &[], "Run");
        page.element("pre", &[("tabindex", "0"), ("aria-label", "Command line")], |page| {
            page.leaf("code", &[], command);
        });
        page.element("dl", &[], |page| {
            for (name, value) in settings.into_iter().chain(machine_facts(machine)) {
                page.element("div", &[], |page| {
                    page.leaf("dt", &[], name);
                    page.leaf("dd", &[], &value);
                });
            }
        });
    });
}

/// The finding of a section: a sentence from the server's account or, without one, from the
/// client's figures.
fn finding(section: &Section) -> String {
    match &section.account {
        Some(account) => sentence(account, &section.client_figures()),
        None if section.response_time.is_empty() => "No request was answered.".to_owned(),
        None => format!(
            "The client saw {} at p50 and {} at p99, at {} responses per second; there is no \
             account of the server's.",
            duration(section.response_time.value_at_quantile(0.5) as f64),
            duration(section.response_time.value_at_quantile(0.99) as f64),
            rate(section.rate_per_second()),
        ),
    }
}

/// Replaces the space between a figure and its unit by one that does not break.
pub(crate) fn unbroken(text: &str) -> String {
    let units = [" %", " ns", " µs", " ms"];
    let mut kept = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let after_digit = kept.ends_with(|before: char| before.is_ascii_digit());
        let before_unit = units.iter().any(|unit| text[at..].starts_with(unit));
        kept.push(if after_digit && before_unit { '\u{a0}' } else { character });
    }
    kept
}

fn machine_facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let clock = machine.clock.as_ref().map(|clock| {
        format!("{}, {} ticks per second", clock.source, count(clock.ticks_per_second))
    });
    let facts = [
        ("Processor", machine.processor.clone()),
        ("Frequency", machine.processor_mhz.map(|mhz| format!("{mhz:.0} MHz when asked"))),
        ("Cores", machine.cores.map(|cores| cores.to_string())),
        ("Memory", machine.memory_bytes.map(size)),
        ("Kernel", machine.kernel.clone()),
        ("Clock", clock),
        ("Version", machine.program_version.clone()),
    ];
    let unknown = || "unknown".to_owned();
    facts.into_iter().map(|(name, fact)| (name, fact.unwrap_or_else(unknown))).collect()
}

#[cfg(test)]
mod tests {
    use super::unbroken;

    #[test]
    fn figures_stay_with_their_units() {
        let text = "took 14.2 µs, 61 % of it, 7 minutes, p50: 3 ns";
        assert_eq!(unbroken(text), "took 14.2\u{a0}µs, 61\u{a0}% of it, 7 minutes, p50: 3\u{a0}ns");
    }
}
