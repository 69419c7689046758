//! The profiles in the page of a study: for each, a short table of its shares, a heat map over
//! time, and its flame graph, which can be zoomed, searched and restricted to a time.

use super::figure::{Table, folded};
use super::flame;
use super::flame_graph::{FlameGraph, FlameSample, FlameUnit};
use super::markup::Markup;
use crate::study::{MOMENT_NS, ProfileSection};
use crate::units::{count, duration};

/// The number of rows of the table; all others are summed in one more row.
const ROWS_MAX: usize = 12;

/// Writes a section with all profiles; nothing if there are none.
pub(super) fn write(page: &mut Markup, profiles: &[ProfileSection]) {
    if profiles.is_empty() {
        return;
    }
    let how = "Of the process that was measured: each sample has the phase of the request or the \
               background job, and the component.";
    folded(page, ("profiles", "Profiles"), how, |page| {
        for (index, profile) in profiles.iter().enumerate() {
            let graph = graph_of(profile);
            let id = format!("profile-{index}");
            folded(page, (&id, &profile.title), &told(&graph, profile), |page| {
                page.element("div", &[("class", "card quantiles")], |page| {
                    write_summary(page, &graph, profile);
                });
                if !profile.stacks.is_empty() {
                    flame::write_view(page, &graph);
                }
            });
        }
    });
}

/// The amount of a profile, and how much of it is explained.
fn told(graph: &FlameGraph, profile: &ProfileSection) -> String {
    let amount = flame::amount_text(graph, profile.amount());
    let explained = flame::percent(profile.explained);
    let mut sentence = format!("{amount} in all");
    if profile.duration_ns > 0 {
        sentence += &format!(" in {}", duration(profile.duration_ns as f64));
    }
    if profile.samples > 0 {
        sentence += &format!(", {} samples", count(profile.samples));
    }
    format!("{sentence}; {explained} of it have both a phase or job and a component.")
}

fn write_summary(page: &mut Markup, graph: &FlameGraph, profile: &ProfileSection) {
    profile.notes.iter().for_each(|note| page.leaf("p", &[("class", "muted")], note));
    if !profile.shares.is_empty() {
        table_of(graph, profile).write(page, "Shares by phase and component");
    }
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
        // A report that was written by hand may contain indexes of functions that it does not have.
        let known: Vec<u32> = stack.stack.iter().copied().filter(|at| *at < count).collect();
        let mut add = |amount, at_ns| {
            let sample = FlameSample { root: &stack.root, stack: &known, amount, at_ns };
            graph.add(&sample, false);
        };
        for (cell, amount) in &stack.moments {
            // The middle of the cell, because the begin of the first one would be 0, which means no
            // time.
            add(*amount, u64::from(*cell).saturating_mul(MOMENT_NS) + MOMENT_NS / 2);
        }
        if stack.moments.is_empty() {
            add(stack.amount, 0);
        }
    }
    graph.duration_ns = profile.duration_ns;
    graph
}
