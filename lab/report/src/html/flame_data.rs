//! The data of a flame graph for the script of its page.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::flame_graph::{FlameGraph, FlameUnit, Leaf};
use super::flame_heat::{cell_ns, cell_of};

/// The graph as JSON: nodes as two lists (caller, name), samples as cell of the heat map, node and
/// amount.
pub(super) fn data_of(graph: &FlameGraph) -> String {
    let totals = graph.totals(&graph.leaves);
    let kept = graph.kept(&totals, &graph.totals(&graph.base));
    // Nodes are renumbered, so that those that are left out leave no gaps.
    let mut numbers = vec![0_usize; graph.nodes.len()];
    let (mut parents, mut names) = (Vec::new(), Vec::new());
    let mut used: BTreeMap<u32, usize> = BTreeMap::new();
    for (node, facts) in graph.nodes.iter().enumerate() {
        let stands_for = kept[node] as usize;
        if stands_for != node {
            numbers[node] = numbers[stands_for];
            continue;
        }
        numbers[node] = parents.len();
        parents.push(numbers[facts.parent as usize]);
        let next = used.len();
        names.push(*used.entry(facts.name).or_insert(next));
    }
    let mut texts = vec![""; used.len()];
    for (name, place) in &used {
        texts[*place] = &graph.names[*name as usize];
    }
    let unit = match graph.unit {
        FlameUnit::Nanoseconds => "ns",
        FlameUnit::Bytes => "bytes",
    };
    json!({
        "unit": unit,
        "cellNs": cell_ns(graph),
        "names": texts,
        "parents": parents,
        "nameOf": names,
        "samples": samples_of(graph, &graph.leaves, &numbers),
        "base": samples_of(graph, &graph.base, &numbers),
    })
    .to_string()
}

fn samples_of(graph: &FlameGraph, leaves: &[Leaf], numbers: &[usize]) -> Vec<Value> {
    let mut sums: BTreeMap<(u64, usize), f64> = BTreeMap::new();
    for leaf in leaves {
        let cell = cell_of(graph, leaf);
        *sums.entry((cell, numbers[leaf.node as usize])).or_default() += leaf.amount;
    }
    sums.into_iter().map(|((cell, node), amount)| json!([cell, node, amount.round()])).collect()
}
