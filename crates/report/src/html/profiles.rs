//! The profiles in the page of a study: for each a short table of where it went, and its flame
//! graph as a drawing. A reader who wants to zoom takes a profile of a server (docs/profiles.md).

use super::figure::Table;
use super::flame;
use super::flame_graph::{FlameGraph, FlameSample, FlameUnit};
use super::markup::Markup;
use crate::study::ProfileSection;
use crate::units::duration;

/// Rows of the table; what comes after is one row more.
const ROWS_MAX: usize = 12;

/// Writes a section with all profiles; nothing if there are none.
pub(super) fn write(page: &mut Markup, profiles: &[ProfileSection]) {
    if profiles.is_empty() {
        return;
    }
    page.element("section", &[("id", "profiles"), ("class", "load")], |page| {
        page.leaf("h2", &[], "Profiles");
        let how = "Of the process that was measured: each sample has the phase of the request or \
                   the background job, and the component. Callers stand above what they call, and \
                   a bar is as wide as its share.";
        page.leaf("p", &[("class", "muted")], how);
        for profile in profiles {
            page.element("div", &[("class", "card quantiles")], |page| {
                page.leaf("h3", &[], &profile.title);
                write_one(page, profile);
            });
        }
    });
}

fn write_one(page: &mut Markup, profile: &ProfileSection) {
    let graph = graph_of(profile);
    let amount = flame::amount_text(&graph, profile.amount());
    let explained = flame::percent(profile.explained);
    let mut sentence = format!("{amount} in all");
    if profile.duration_ns > 0 {
        sentence += &format!(" in {}", duration(profile.duration_ns as f64));
    }
    sentence += &format!("; {explained} of it have both a phase or job and a component.");
    page.leaf("p", &[], &sentence);
    if profile.shares.is_empty() {
        return;
    }
    page.element("div", &[("class", "scroll"), ("tabindex", "0")], |page| {
        table_of(&graph, profile).write(page, "Shares by phase and component");
    });
    page.element("div", &[("class", "flames")], |page| flame::write_drawing(page, &graph, false));
}

fn table_of(graph: &FlameGraph, profile: &ProfileSection) -> Table {
    let mut table = Table::with_header(["phase or job", "component", "amount", "share"]);
    for share in profile.shares.iter().take(ROWS_MAX) {
        let amount = flame::amount_text(graph, share.amount);
        let words = [share.phase.clone(), share.component.clone(), amount];
        table.rows.push(words.into_iter().chain([flame::percent(share.share)]).collect());
    }
    let rest = profile.shares.iter().skip(ROWS_MAX);
    let (amount, share) =
        rest.fold((0.0, 0.0), |sums, share| (sums.0 + share.amount, sums.1 + share.share));
    if amount > 0.0 {
        let words = ["all others".to_owned(), String::new(), flame::amount_text(graph, amount)];
        table.rows.push(words.into_iter().chain([flame::percent(share)]).collect());
    }
    table
}

fn graph_of(profile: &ProfileSection) -> FlameGraph {
    let unit = if profile.is_bytes { FlameUnit::Bytes } else { FlameUnit::Nanoseconds };
    let mut graph = FlameGraph::new(profile.title.clone(), unit, profile.functions.clone());
    let count = profile.functions.len() as u32;
    for stack in &profile.stacks {
        // A report that was written by hand may name functions that it does not have.
        let known: Vec<u32> = stack.stack.iter().copied().filter(|at| *at < count).collect();
        let sample =
            FlameSample { root: &stack.root, stack: &known, amount: stack.amount, at_ns: 0 };
        graph.add(&sample, false);
    }
    graph
}
