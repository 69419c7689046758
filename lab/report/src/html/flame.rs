//! Flame graphs: as an SVG file, and as a page in which they can be searched, zoomed, and
//! restricted to a time.
//!
//! The outermost call is at the top, and the width of a bar is its share. The drawing in the page
//! is complete without its script.

use super::figure::Table;
use super::flame_data::data_of;
use super::flame_graph::{ALL, FlameGraph, FlameUnit};
use super::markup::Markup;
use super::{SCRIPT, STYLE, flame_heat, head, page_with};
use crate::units::{date_time, duration, size};

pub(super) const FLAME_STYLE: &str = include_str!("flame.css");
pub(super) const FLAME_SCRIPT: &str = include_str!("flame.js");
/// The size of the SVG file, in its own units.
const WIDTH: f64 = 1_200.0;
const ROW: f64 = 18.0;
/// The width of the narrowest bar that is drawn.
const BAR_WIDTH_MIN: f64 = 0.3;
/// The approximate width of a letter.
const LETTER_WIDTH: f64 = 6.6;
/// The number of functions in the table.
const TABLE_ROWS: usize = 40;

/// A bar of the drawing.
struct Bar {
    node: usize,
    x: f64,
    width: f64,
    depth: usize,
}

/// The flame graph as an SVG file.
#[must_use]
pub fn flame_svg(graph: &FlameGraph) -> String {
    let mut markup = Markup::default();
    write_drawing(&mut markup, graph, true);
    markup.finish()
}

/// The flame graph as an HTML page that needs no other file.
#[must_use]
pub fn flame_html(graph: &FlameGraph) -> String {
    let scripts = [SCRIPT, FLAME_SCRIPT];
    page_with(&graph.title, &[STYLE, FLAME_STYLE], &scripts, |page| {
        head::write_title(page, &graph.title, &date_time(graph.began_unix_ms));
        write_summary(page, graph);
        write_view(page, graph);
    })
}

/// Writes the view that the script makes searchable and zoomable: heat map, flames and data. A page
/// may have several views, beside one script.
pub(super) fn write_view(page: &mut Markup, graph: &FlameGraph) {
    page.element("div", &[("class", "flame-view")], |page| {
        if flame_heat::has_times(graph) {
            write_heat(page, graph);
        }
        write_flames(page, graph);
        let data = [("type", "application/json"), ("class", "flame-data")];
        page.element("script", &data, |page| page.data(&data_of(graph)));
    });
}

pub(super) fn amount_text(graph: &FlameGraph, amount: f64) -> String {
    match graph.unit {
        FlameUnit::Nanoseconds => duration(amount),
        FlameUnit::Bytes => size(amount.max(0.0) as u64),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn write_summary(page: &mut Markup, graph: &FlameGraph) {
    let total: f64 = graph.leaves.iter().map(|leaf| leaf.amount).sum();
    page.element("section", &[("class", "card findings"), ("aria-label", "Summary")], |page| {
        let mut sentence = format!("{} in all", amount_text(graph, total));
        if graph.duration_ns > 0 {
            sentence += &format!(" in {}", duration(graph.duration_ns as f64));
        }
        page.leaf("p", &[], &format!("{sentence}."));
        if !graph.base.is_empty() {
            let base: f64 = graph.base.iter().map(|leaf| leaf.amount).sum();
            let what = "It is compared with another profile of";
            let how = "What has a larger share here is marked +, what has a smaller one −.";
            page.leaf("p", &[], &format!("{what} {}. {how}", amount_text(graph, base)));
        }
        for note in &graph.notes {
            page.leaf("p", &[("class", "note")], note);
        }
        let mut table = Table::with_header(["phase or job", "component", "amount", "share"]);
        for (phase, component, amount) in &graph.shares {
            let words = [phase.clone(), component.clone(), amount_text(graph, *amount)];
            let share = percent(amount / total.max(f64::MIN_POSITIVE));
            table.rows.push(words.into_iter().chain([share]).collect());
        }
        table.write(page, "Shares by phase and component");
    });
}

fn write_heat(page: &mut Markup, graph: &FlameGraph) {
    let label = format!("Heat map: {}", graph.title);
    page.element("section", &[("class", "card"), ("aria-label", &label)], |page| {
        page.leaf("h2", &[], "When");
        let seconds = flame_heat::column_seconds(graph);
        let how = format!(
            "A column is {seconds} s, a cell a twentieth of it, the first at the bottom; the \
             stronger the shade, the more. Drag over columns, or give two times, to see that \
             stretch alone below."
        );
        page.leaf("p", &[("class", "muted")], &how);
        flame_heat::write(page, graph);
        let form = [("hidden", "hidden"), ("class", "tools flame-span")];
        page.element("p", &form, |page| {
            let last = (flame_heat::columns(graph) * seconds).to_string();
            let fields = [("flame-from", "from second", "0"), ("flame-to", "to second", &last)];
            for (class, label, value) in fields {
                page.element("label", &[], |page| {
                    page.text(label);
                    let number = [("type", "number"), ("min", "0"), ("step", "0.05")];
                    let more = [("class", class), ("value", value), ("max", &last)];
                    page.empty("input", &[&number[..], &more].concat());
                });
            }
            page.leaf("button", &[("type", "button"), ("class", "flame-whole")], "All of it");
        });
    });
}

fn write_flames(page: &mut Markup, graph: &FlameGraph) {
    let label = format!("Flame graph: {}", graph.title);
    page.element("section", &[("class", "card"), ("aria-label", &label)], |page| {
        page.leaf("h2", &[], "Where");
        let how = "Callers stand above what they call, and a bar is as wide as its share. Choose \
                   one to see it alone; with the keyboard: Tab, Enter, and Escape for all again.";
        page.leaf("p", &[("class", "muted")], how);
        let tools = [("hidden", "hidden"), ("class", "tools flame-tools")];
        page.element("p", &tools, |page| {
            page.element("label", &[], |page| {
                page.text("search");
                page.empty("input", &[("type", "search"), ("class", "flame-search")]);
            });
            page.leaf("button", &[("type", "button"), ("class", "flame-reset")], "Zoom out");
            page.leaf("output", &[("class", "flame-found"), ("aria-live", "polite")], "");
        });
        page.leaf("p", &[("aria-live", "polite"), ("class", "flame-told")], "");
        page.element("div", &[("class", "flame-place")], |page| write_drawing(page, graph, false));
        page.element("details", &[("class", "flame-functions")], |page| {
            page.leaf("summary", &[], "Functions by their own share");
            table_of(graph).write(page, "Functions by their own share");
        });
    });
}

/// The table of functions by their own amount, without that of the functions they call.
fn table_of(graph: &FlameGraph) -> Table {
    let selves = graph.selves(&graph.leaves);
    let total: f64 = selves.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut by_name = vec![0.0; graph.names.len()];
    for (node, amount) in graph.nodes.iter().zip(&selves) {
        by_name[node.name as usize] += amount;
    }
    let mut order: Vec<usize> = (0..by_name.len()).filter(|name| by_name[*name] > 0.0).collect();
    order.sort_by(|a, b| by_name[*b].total_cmp(&by_name[*a]));
    let mut table = Table::with_header(["function", "own share", "own amount"]);
    for name in order.into_iter().take(TABLE_ROWS) {
        let amount = by_name[name];
        let words =
            [graph.names[name].clone(), percent(amount / total), amount_text(graph, amount)];
        table.rows.push(words.to_vec());
    }
    table
}

/// The bars to draw. The functions that one function calls are ordered by name.
fn bars_of(graph: &FlameGraph, totals: &[f64]) -> Vec<Bar> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    for node in 1..graph.nodes.len() {
        children[graph.nodes[node].parent as usize].push(node);
    }
    let scale = WIDTH / totals[ALL as usize].max(f64::MIN_POSITIVE);
    let mut bars = Vec::new();
    let mut open = vec![Bar { node: ALL as usize, x: 0.0, width: WIDTH, depth: 0 }];
    while let Some(bar) = open.pop() {
        let below = &mut children[bar.node];
        below.sort_by_key(|node| &graph.names[graph.nodes[*node].name as usize]);
        let mut x = bar.x;
        for node in below {
            let width = totals[*node] * scale;
            if width >= BAR_WIDTH_MIN {
                open.push(Bar { node: *node, x, width, depth: bar.depth + 1 });
            }
            x += width;
        }
        bars.push(bar);
    }
    bars
}

/// The CSS class of a function: this program's, Rust's library, or another's.
fn class_of(name: &str, depth: usize) -> &'static str {
    let path = name.trim_start_matches(['<', '&', '(']);
    let is_of = |crates: &[&str]| crates.iter().any(|each| path.starts_with(each));
    match depth {
        0 | 1 => "f-root",
        _ if path.starts_with("pellucid") => "f-own",
        _ if is_of(&["std::", "core::", "alloc::", "__rust"]) => "f-std",
        _ => "f-other",
    }
}

/// The CSS class and the sign of a change of share.
fn change_class(change: f64) -> (&'static str, &'static str) {
    match change {
        change if change > 0.02 => ("d-up2", "+ "),
        change if change > 0.002 => ("d-up1", "+ "),
        change if change < -0.02 => ("d-down2", "− "),
        change if change < -0.002 => ("d-down1", "− "),
        _ => ("d-same", ""),
    }
}

pub(super) fn write_drawing(markup: &mut Markup, graph: &FlameGraph, stands_alone: bool) {
    let totals = graph.totals(&graph.leaves);
    let base_totals = graph.totals(&graph.base);
    let bars = bars_of(graph, &totals);
    let depth = bars.iter().map(|bar| bar.depth).max().unwrap_or(0) + 1;
    let height = depth as f64 * ROW;
    let view = format!("0 0 {WIDTH} {height}");
    let label = format!("Flame graph: {}", graph.title);
    let mut frame = vec![
        ("viewBox", view.as_str()),
        ("class", "flame"),
        ("role", "img"),
        ("aria-label", &label),
    ];
    if stands_alone {
        frame.push(("xmlns", "http://www.w3.org/2000/svg"));
    }
    markup.element("svg", &frame, |markup| {
        if stands_alone {
            markup.element("style", &[], |markup| markup.verbatim(FLAME_STYLE));
        }
        let whole = totals[ALL as usize].max(f64::MIN_POSITIVE);
        let base_whole = base_totals[ALL as usize];
        for bar in &bars {
            let name = &graph.names[graph.nodes[bar.node].name as usize];
            let share = totals[bar.node] / whole;
            let (class, sign) = if base_whole > 0.0 {
                change_class(share - base_totals[bar.node] / base_whole)
            } else {
                (class_of(name, bar.depth), "")
            };
            let told =
                format!("{name}: {}, {}", percent(share), amount_text(graph, totals[bar.node]));
            write_bar(markup, bar, class, &format!("{sign}{name}"), &told);
        }
    });
}

fn write_bar(markup: &mut Markup, bar: &Bar, class: &str, name: &str, told: &str) {
    let number = |value: f64| format!("{value:.2}");
    let (x, y) = (number(bar.x), number(bar.depth as f64 * ROW));
    let (width, height) = (number((bar.width - 0.4).max(0.1)), number(ROW - 1.0));
    markup.element("g", &[], |markup| {
        markup.leaf("title", &[], told);
        let place = [("x", x.as_str()), ("y", &y), ("width", &width), ("height", &height)];
        markup.empty("rect", &[&place[..], &[("class", class)]].concat());
        let letters = ((bar.width - 6.0) / LETTER_WIDTH) as usize;
        if letters >= 3 {
            let (x, y) = (number(bar.x + 3.0), number(bar.depth as f64 * ROW + 12.5));
            markup.leaf("text", &[("x", &x), ("y", &y)], &fitting(name, letters));
        }
    });
}

/// The name, cut to this number of letters.
fn fitting(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}
