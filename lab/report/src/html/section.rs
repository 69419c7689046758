//! One load: its key figures and its charts.

use pellucid_account::OperationAccount;

use super::figure::Table;
use super::markup::Markup;
use super::{chart, heat, jitter, log_histogram, percentiles, quantile_bars, throughput};
use crate::chart::{Chart, ChartForm, Series, Unit};
use crate::model::Section;
use crate::phases;
use crate::quantiles::Curve;
use crate::units::{count, duration, rate};

/// The quantiles of the table at the top.
const KEY_QUANTILES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];
/// The largest number of intervals in the chart of errors and backlog.
const TROUBLE_STRETCHES: usize = 30;
/// The largest number of kinds of errors that are listed by name.
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
        write_verdict(page, section);
        write_quantiles(page, section);
        write_errors(page, section);
        page.element("div", &[("class", "charts")], |page| {
            if let Some(account) = &section.account {
                quantile_bars::write(page, account);
            }
            percentiles::write(page, section);
            heat::write(page, section, points_max);
            jitter::write(page, section, points_max);
            if let Some(account) = &section.account {
                log_histogram::write(page, &account.total);
            }
            throughput::write(page, section);
            if let Some(troubles) = troubles_of(section) {
                chart::write(page, &troubles);
            }
            section.charts.iter().for_each(|own| chart::write(page, own));
            if let Some(account) = &section.account {
                write_phase_table(page, account);
            }
        });
    });
}

fn key_figures(section: &Section) -> Vec<(&'static str, String)> {
    let mut figures = vec![("Answered per second", rate(section.rate_per_second()))];
    let offered = section.offered_rate_per_second;
    figures.extend(offered.map(|offered| ("Offered per second", rate(offered))));
    figures.push(("Requests", count(section.requests)));
    figures.push(("Errors", count(section.error_count())));
    figures.push(("Duration", duration(section.duration.as_nanos() as f64)));
    figures
}

/// Writes the verdict and its evidence.
fn write_verdict(page: &mut Markup, section: &Section) {
    let Some(verdict) = &section.verdict else { return };
    page.element("div", &[("class", "card judged")], |page| {
        page.element("p", &[], |page| {
            page.leaf("strong", &[], &format!("Verdict: {}", verdict.name));
            page.text(&format!(": {}.", verdict.meaning));
        });
        verdict.evidence.iter().for_each(|text| page.leaf("p", &[("class", "muted")], text));
    });
}

/// The chart of errors and backlog over time, if there is a timeline.
fn troubles_of(section: &Section) -> Option<Chart> {
    let timeline = heat::joined(&section.timeline, TROUBLE_STRETCHES);
    let end = |begin_ns: u64, length_ns: u64| begin_ns.saturating_add(length_ns) as f64 / 1e9;
    let seconds: Vec<f64> = timeline.iter().map(|s| end(s.begin_ns, s.length_ns)).collect();
    let series = |name: &str, value: fn(&crate::model::TimelineInterval) -> u64| {
        Series::new(name, timeline.iter().map(|s| Some(value(s) as f64)).collect())
    };
    let how_to_read = "Errors within each stretch of the load, and requests that were due and not \
                       sent at its end. A backlog that grows to the end means saturation.";
    (!timeline.is_empty()).then(|| {
        Chart::new(
            ("errors_and_backlog", "Errors and backlog", how_to_read),
            Unit::Count,
            ChartForm::Lines { seconds, is_logarithmic: false },
            [series("errors", |s| s.errors), series("backlog", |s| s.backlog)],
        )
    })
}

/// Writes the table of the most important quantiles, of all times that were measured.
fn write_quantiles(page: &mut Markup, section: &Section) {
    let timed = [
        ("Client: response time", Some(Curve::Client(&section.response_time))),
        ("Client: service time", section.service_time.as_ref().map(Curve::Client)),
        ("Client: sent late by", section.send_lateness.as_ref().map(Curve::Client)),
        ("Server: total", section.account.as_ref().map(|a| Curve::Server(&a.total))),
    ];
    let mut table = Table::with_header(["", "p50", "p90", "p99", "p99.9", "p99.99", "greatest"]);
    for (name, curve) in timed {
        let Some(curve) = curve.filter(|curve| curve.count() > 0) else { continue };
        let values = KEY_QUANTILES.iter().map(|quantile| match curve.resolves(*quantile) {
            true => duration(curve.value_ns(*quantile) as f64),
            false => "too few".to_owned(),
        });
        table.rows.push([name.to_owned()].into_iter().chain(values).collect());
    }
    if !table.rows.is_empty() {
        page.element("div", &[("class", "card quantiles")], |page| {
            table.write(page, "Latency");
        });
    }
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
    let mut rows = phases::table(account, " *");
    let table = Table { header: rows.remove(0), rows };
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
