//! The heat map of a flame graph: a column for each second, or for several of a long profile, and a
//! row for each twentieth of that; the darker the cell, the greater the amount. It shows pauses and
//! bursts of a few milliseconds, which no sum shows.

use super::flame_graph::{FlameGraph, Leaf};
use super::markup::Markup;

const SECOND_NS: u64 = 1_000_000_000;
/// The number of cells in a column.
const ROWS: u64 = 20;
/// The largest number of columns.
const COLUMNS_MAX: u64 = 900;
const SHADES: usize = 8;

/// The length of a column: one second, or as many as [`COLUMNS_MAX`] columns need for the profile.
pub(super) fn column_seconds(graph: &FlameGraph) -> u64 {
    graph.duration_ns.div_ceil(COLUMNS_MAX * SECOND_NS).max(1)
}

/// The length of a cell in nanoseconds.
pub(super) fn cell_ns(graph: &FlameGraph) -> u64 {
    column_seconds(graph) * SECOND_NS / ROWS
}

/// The number of the cell in which a sample lies. Samples behind the end are in the last one.
pub(super) fn cell_of(graph: &FlameGraph, leaf: &Leaf) -> u64 {
    let last = columns(graph) * ROWS - 1;
    (leaf.at_ns.saturating_sub(graph.began_ns) / cell_ns(graph)).min(last)
}

/// True if the samples have times.
pub(super) fn has_times(graph: &FlameGraph) -> bool {
    graph.duration_ns > 0 && graph.leaves.iter().any(|leaf| leaf.at_ns > 0)
}

/// The number of columns of the map.
pub(super) fn columns(graph: &FlameGraph) -> u64 {
    graph.duration_ns.div_ceil(column_seconds(graph) * SECOND_NS).max(1)
}

/// Writes the map. All cells of a shade are one path.
pub(super) fn write(markup: &mut Markup, graph: &FlameGraph) {
    let columns = columns(graph);
    let mut amounts = vec![0.0; (columns * ROWS) as usize];
    for leaf in &graph.leaves {
        amounts[cell_of(graph, leaf) as usize] += leaf.amount;
    }
    let most = amounts.iter().copied().fold(0.0, f64::max);
    let mut paths = vec![String::new(); SHADES];
    for (cell, amount) in (0_u64..).zip(&amounts).filter(|(_, amount)| **amount > 0.0) {
        let shade = ((amount / most * SHADES as f64) as usize).min(SHADES - 1);
        let (x, y) = (cell / ROWS, ROWS - 1 - cell % ROWS);
        paths[shade].push_str(&format!("M{x} {y}h1v1h-1z"));
    }
    let label = format!(
        "Heat map: {columns} columns of {} s, each of {ROWS} cells of {} ms, the first at the \
         bottom",
        column_seconds(graph),
        cell_ns(graph) / 1_000_000,
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

#[cfg(test)]
mod tests {
    use super::super::flame_graph::{FlameSample, FlameUnit};
    use super::*;

    /// The map of a profile of this length, with samples at these seconds.
    fn map_of(duration_seconds: u64, sampled_seconds: &[u64]) -> String {
        let names = vec!["f".to_owned()];
        let mut graph = FlameGraph::new("t".to_owned(), FlameUnit::Nanoseconds, names);
        graph.duration_ns = duration_seconds * SECOND_NS;
        for seconds in sampled_seconds {
            let at_ns = seconds * SECOND_NS;
            graph.add(&FlameSample { root: "get", stack: &[0], amount: 1.0, at_ns }, false);
        }
        let mut markup = Markup::default();
        write(&mut markup, &graph);
        markup.finish()
    }

    /// Regression: all that came after the first 15 minutes was one cell, beside which the others
    /// had no shade.
    #[test]
    fn a_long_profile_has_all_its_time_on_the_map() {
        let map = map_of(1_800, &[100, 1_000, 1_700]);
        assert!(map.contains("900 columns of 2 s, each of 20 cells of 100 ms"), "{map}");
        let path = "d=\"M50 19h1v1h-1zM500 19h1v1h-1zM850 19h1v1h-1z\"";
        assert!(map.contains(&format!("heat-{}\" {path}", SHADES - 1)), "{map}");
    }

    /// Regression: samples behind the end were not on the map.
    #[test]
    fn samples_behind_the_end_are_in_the_last_cell() {
        let map = map_of(2, &[1, 2, 3]);
        assert!(map.contains("d=\"M1 0h1v1h-1z\""), "{map}");
    }
}
