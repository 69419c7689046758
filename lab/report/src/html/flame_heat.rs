//! The heat map of a flame graph: a column for each second, a row for each twentieth of a second;
//! the darker the cell, the greater the amount. It shows pauses and bursts of a few milliseconds,
//! which no sum shows.

use super::flame_graph::{FlameGraph, Leaf};
use super::markup::Markup;

/// The length of a cell in nanoseconds.
pub(super) const CELL_NS: u64 = 50_000_000;
/// The number of cells in a column.
pub(super) const ROWS: u64 = 20;
/// The largest number of columns.
const COLUMNS_MAX: u64 = 900;
const SHADES: usize = 8;

/// The number of the cell in which a sample lies.
pub(super) fn cell_of(graph: &FlameGraph, leaf: &Leaf) -> u64 {
    let last = COLUMNS_MAX * ROWS - 1;
    (leaf.at_ns.saturating_sub(graph.began_ns) / CELL_NS).min(last)
}

/// True if the samples have times.
pub(super) fn has_times(graph: &FlameGraph) -> bool {
    graph.duration_ns > 0 && graph.leaves.iter().any(|leaf| leaf.at_ns > 0)
}

/// The number of columns of the map.
pub(super) fn columns(graph: &FlameGraph) -> u64 {
    graph.duration_ns.div_ceil(CELL_NS * ROWS).clamp(1, COLUMNS_MAX)
}

/// Writes the map. All cells of a shade are one path.
pub(super) fn write(markup: &mut Markup, graph: &FlameGraph) {
    let columns = columns(graph);
    let mut amounts = vec![0.0; (columns * ROWS) as usize];
    for leaf in &graph.leaves {
        if let Some(amount) = amounts.get_mut(cell_of(graph, leaf) as usize) {
            *amount += leaf.amount;
        }
    }
    let most = amounts.iter().copied().fold(0.0, f64::max);
    let mut paths = vec![String::new(); SHADES];
    for (cell, amount) in (0_u64..).zip(&amounts).filter(|(_, amount)| **amount > 0.0) {
        let shade = ((amount / most * SHADES as f64) as usize).min(SHADES - 1);
        let (x, y) = (cell / ROWS, ROWS - 1 - cell % ROWS);
        paths[shade].push_str(&format!("M{x} {y}h1v1h-1z"));
    }
    let label = format!(
        "Heat map: {columns} columns of one second, each of {ROWS} cells of 50 milliseconds, the \
         first at the bottom"
    );
    let view = format!("0 0 {columns} {ROWS}");
    let width = (columns * 12).clamp(360, 1_300).to_string();
    let frame = [
        ("class", "flame-heat"),
        ("viewBox", view.as_str()),
        ("preserveAspectRatio", "none"),
        ("width", &width),
        ("height", "200"),
        ("role", "img"),
        ("aria-label", &label),
    ];
    markup.element("svg", &frame, |markup| {
        let whole = columns.to_string();
        let rows = ROWS.to_string();
        let ground = [("width", whole.as_str()), ("height", &rows), ("class", "heat-ground")];
        markup.empty("rect", &ground);
        for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let class = format!("heat heat-{shade}");
            markup.empty("path", &[("class", class.as_str()), ("d", path)]);
        }
    });
}
