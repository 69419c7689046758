//! One load: its key figures and its charts.

use pellucid_account::OperationAccount;

use super::figure::Table;
use super::markup::Markup;
use super::{jitter, log_histogram, percentiles, shapes, throughput};
use crate::model::Section;
use crate::phases::{self, COLUMNS};
use crate::units::{count, duration, microseconds, percent_column, rate};

/// Kinds of errors that are listed by name.
const ERROR_KINDS_MAX: usize = 20;

/// Writes a section with at most `points_max` points in its jitter plots.
pub(crate) fn write(page: &mut Markup, index: usize, section: &Section, points_max: usize) {
    let id = format!("section-{index}");
    page.element("section", &[("id", &id), ("class", "load")], |page| {
        page.leaf("h2", &[], &section.name);
        page.leaf("p", &[("class", "muted")], &section.description);
        page.element("dl", &[("class", "key-figures")], |page| {
            for (name, value) in key_figures(section) {
                page.element("div", &[], |page| {
                    page.leaf("dt", &[], name);
                    page.leaf("dd", &[], &value);
                });
            }
        });
        write_errors(page, section);
        page.element("div", &[("class", "charts")], |page| {
            if let Some(account) = &section.account {
                shapes::write(page, account);
            }
            percentiles::write(page, section);
            if let Some(account) = &section.account {
                log_histogram::write(page, &account.total);
            }
            throughput::write(page, section);
            jitter::write(page, section, points_max);
            if let Some(account) = &section.account {
                write_phase_table(page, account);
            }
        });
    });
}

fn key_figures(section: &Section) -> Vec<(&'static str, String)> {
    let mut figures = vec![("Answered per second", rate(section.rate_per_second()))];
    let offered =
        section.offered_rate_per_second.map(|offered| ("Offered per second", rate(offered)));
    figures.extend(offered);
    figures.push(("Requests", count(section.requests)));
    figures.push(("Errors", count(section.error_count())));
    figures.push(("Duration", duration(section.duration.as_nanos() as f64)));
    let histograms = [
        (["Response p50", "Response p99", "Response p99.9"], Some(&section.response_time)),
        (["Service p50", "Service p99", "Service p99.9"], section.service_time.as_ref()),
    ];
    for (names, histogram) in histograms {
        let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) else { continue };
        for (name, quantile) in names.into_iter().zip([0.5, 0.99, 0.999]) {
            figures.push((name, duration(histogram.value_at_quantile(quantile) as f64)));
        }
    }
    if let Some(account) = section.account.as_ref().filter(|account| account.count > 0) {
        figures.push(("Server p50", duration(account.total.p50_ns as f64)));
        figures.push(("Server p99", duration(account.total.p99_ns as f64)));
        figures.push(("Server p99.9", duration(account.total.p99_9_ns as f64)));
    }
    let lateness = section.send_lateness.as_ref().filter(|lateness| !lateness.is_empty());
    let lateness = lateness.map(|lateness| lateness.value_at_quantile(0.99) as f64);
    figures.extend(lateness.map(|late_ns| ("Sent late, p99", duration(late_ns))));
    figures
}

fn write_errors(page: &mut Markup, section: &Section) {
    if section.error_count() == 0 {
        return;
    }
    page.element("div", &[("class", "card errors")], |page| {
        page.leaf("h3", &[], "Errors");
        page.element("ul", &[], |page| {
            for (kind, number) in section.errors.iter().take(ERROR_KINDS_MAX) {
                page.leaf("li", &[], &format!("{}: {kind}", count(*number)));
            }
            if let Some(more) = section.errors.len().checked_sub(ERROR_KINDS_MAX + 1) {
                page.leaf("li", &[], &format!("and {} kinds more", count(more as u64 + 1)));
            }
        });
    });
}

/// The table of the phases with all their quartiles and quantiles.
fn write_phase_table(page: &mut Markup, account: &OperationAccount) {
    let mut table = Table::with_header(["phase"]);
    table.header.extend(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
    table.header.push("% of mean".to_owned());
    for row in phases::rows(account) {
        let indent = if row.is_part { "  " } else { "" };
        let mark = if row.is_before_total && !row.is_part { " *" } else { "" };
        let mut words = vec![format!("{indent}{}{mark}", row.name)];
        words.extend(COLUMNS.iter().map(|(_, value)| microseconds(value(row.distribution))));
        words.push(row.share_of_mean.map_or_else(|| "-".to_owned(), percent_column));
        table.rows.push(words);
    }
    page.element("div", &[("class", "card wide")], |page| {
        page.leaf("h3", &[], "Phases in figures");
        let facts = format!(
            "{} {}, {} requests, times in µs. * before the total, which runs from received to \
             written. A part counts only the requests in which it occurred; its share is of all.",
            account.operation,
            account.outcome,
            count(account.count),
        );
        page.leaf("p", &[("class", "muted")], &facts);
        table.write(page, "Phases in figures");
    });
}
