//! The report as one HTML file that needs nothing else: no network and no fonts, and it is complete
//! without its script.
//!
//! The page contains its style and a small script (tooltips, zoom, the switch between light and
//! dark). Its content security policy names their hashes, so that a browser loads and runs nothing
//! else. The colours of phases are those of Okabe and Ito, which people with any kind of colour
//! vision can distinguish. Every mark has a second cue, and every chart has its numbers as a table.

mod chart;
mod curves;
mod figure;
mod findings;
mod flame;
mod flame_data;
mod flame_graph;
mod flame_heat;
mod groups;
mod head;
mod heat;
mod jitter;
mod loads;
mod log_histogram;
mod markup;
mod percentiles;
mod plot;
mod points;
mod profiles;
mod quantile_bars;
mod rows;
mod scale;
mod section;
mod series;
mod spans;
mod study;
mod throughput;
mod time_axis;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use markup::Markup;
use sha2::{Digest, Sha256};

use crate::model::Report;

pub use flame::{flame_html, flame_svg};
pub use flame_graph::{FlameGraph, FlameSample, FlameUnit};
pub use study::study_html;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// The largest number of points in all jitter plots of a report together, which bounds its size.
const REPORT_POINTS_MAX: usize = 16_000;

/// The whole page. It stays below 1 MiB if the report has at most 8 sections and texts of usual
/// length.
#[must_use]
pub fn html(report: &Report) -> String {
    let points_max = REPORT_POINTS_MAX / report.sections.len().max(1);
    page(&report.title, |page| {
        head::write(page, report);
        for (index, section) in report.sections.iter().enumerate() {
            section::write(page, index, section, points_max);
        }
    })
}

/// A page with what `content` writes.
fn page(title: &str, content: impl FnOnce(&mut Markup)) -> String {
    page_with(title, &[STYLE], &[SCRIPT], content)
}

/// A page of these styles and scripts, and no others.
fn page_with(
    title: &str,
    styles: &[&'static str],
    scripts: &[&'static str],
    content: impl FnOnce(&mut Markup),
) -> String {
    let mut page = Markup::default();
    page.verbatim("<!DOCTYPE html>\n");
    page.element("html", &[("lang", "en")], |page| {
        page.element("head", &[], |page| write_head(page, title, styles, scripts));
        page.element("body", &[], |page| {
            page.element("main", &[], content);
            for script in scripts {
                page.element("script", &[], |page| page.verbatim(script));
            }
        });
    });
    page.finish()
}

fn write_head(page: &mut Markup, title: &str, styles: &[&'static str], scripts: &[&str]) {
    let hash =
        |text: &&str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())));
    let hashes = |texts: &[&str]| texts.iter().map(hash).collect::<Vec<_>>().join(" ");
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hashes(styles),
        hashes(scripts)
    );
    page.empty("meta", &[("charset", "utf-8")]);
    page.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]);
    let viewport = [("name", "viewport"), ("content", "width=device-width, initial-scale=1")];
    page.empty("meta", &viewport);
    page.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    page.leaf("title", &[], title);
    for style in styles {
        page.element("style", &[], |page| page.verbatim(style));
    }
}
