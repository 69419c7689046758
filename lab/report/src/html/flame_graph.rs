//! The data of a flame graph: a tree of calls with amounts, and their times.

use std::collections::HashMap;

/// The largest number of nodes of a drawing; beyond it, the smallest are left out.
pub(super) const NODES_DRAWN_MAX: usize = 12_000;
/// The root node, which includes everything.
pub(super) const ALL: u32 = 0;

/// The unit of amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlameUnit {
    /// Time.
    Nanoseconds,
    /// Memory.
    Bytes,
}

/// One sample, or several equal ones, to be added to a graph.
#[derive(Clone, Copy, Debug)]
pub struct FlameSample<'a> {
    /// The activity: the operation and phase of a request, or a job.
    pub root: &'a str,
    /// The indexes of the functions, the outermost first.
    pub stack: &'a [u32],
    /// The amount.
    pub amount: f64,
    /// The time by the clock of [`FlameGraph::began_ns`]; zero if it is unknown.
    pub at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The caller; the root is its own.
    pub(super) parent: u32,
    pub(super) name: u32,
}

/// A sample, attached to its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub(super) node: u32,
    pub(super) amount: f64,
    pub(super) at_ns: u64,
}

/// A flame graph, optionally with another profile that it is compared with.
#[derive(Clone, Debug)]
pub struct FlameGraph {
    /// The heading.
    pub title: String,
    /// The unit of amounts.
    pub unit: FlameUnit,
    /// The begin of the profile, in milliseconds since 1970 (UTC).
    pub began_unix_ms: u64,
    /// The begin of the profile, by the clock of the samples.
    pub began_ns: u64,
    /// The length of the profile; zero if it has none.
    pub duration_ns: u64,
    /// Amounts by phase or job, and component, the largest first.
    pub shares: Vec<(String, String, f64)>,
    /// Remarks on the profile, in sentences.
    pub notes: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) nodes: Vec<Node>,
    pub(super) leaves: Vec<Leaf>,
    pub(super) base: Vec<Leaf>,
    roots: HashMap<String, u32>,
    children: HashMap<(u32, u32), u32>,
}

impl FlameGraph {
    /// An empty graph over functions with these names.
    #[must_use]
    pub fn new(title: String, unit: FlameUnit, functions: Vec<String>) -> FlameGraph {
        let mut names = functions;
        names.push("all".to_owned());
        let name = names.len() as u32 - 1;
        FlameGraph {
            title,
            unit,
            began_unix_ms: 0,
            began_ns: 0,
            duration_ns: 0,
            shares: Vec::new(),
            notes: Vec::new(),
            names,
            nodes: vec![Node { parent: ALL, name }],
            leaves: Vec::new(),
            base: Vec::new(),
            roots: HashMap::new(),
            children: HashMap::new(),
        }
    }

    /// Adds a sample to the graph or, with `is_base`, to the profile that it is compared with.
    ///
    /// # Panics
    /// If the index of a function has no name.
    pub fn add(&mut self, sample: &FlameSample<'_>, is_base: bool) {
        let known = self.roots.get(sample.root).copied();
        let root = known.unwrap_or_else(|| {
            self.names.push(sample.root.to_owned());
            let name = self.names.len() as u32 - 1;
            self.roots.insert(sample.root.to_owned(), name);
            name
        });
        let mut node = self.child(ALL, root);
        for function in sample.stack {
            assert!((*function as usize) < self.names.len(), "a function without a name");
            node = self.child(node, *function);
        }
        let leaf = Leaf { node, amount: sample.amount, at_ns: sample.at_ns };
        if is_base { self.base.push(leaf) } else { self.leaves.push(leaf) }
    }

    fn child(&mut self, parent: u32, name: u32) -> u32 {
        *self.children.entry((parent, name)).or_insert_with(|| {
            self.nodes.push(Node { parent, name });
            self.nodes.len() as u32 - 1
        })
    }

    /// The amount of each node, including the nodes below it. Children come after their parents, so
    /// one pass from the end is enough.
    pub(super) fn totals(&self, leaves: &[Leaf]) -> Vec<f64> {
        let mut totals = self.selves(leaves);
        for node in (1..totals.len()).rev() {
            let total = totals[node];
            totals[self.nodes[node].parent as usize] += total;
        }
        totals
    }

    /// The amount of each node, without the nodes below it.
    pub(super) fn selves(&self, leaves: &[Leaf]) -> Vec<f64> {
        let mut amounts = vec![0.0; self.nodes.len()];
        leaves.iter().for_each(|leaf| amounts[leaf.node as usize] += leaf.amount);
        amounts
    }

    /// Maps each node to the node that is drawn for it: a node that is left out is counted for its
    /// caller.
    pub(super) fn kept(&self, totals: &[f64], base_totals: &[f64]) -> Vec<u32> {
        let weight = |node: usize| {
            let share = |totals: &[f64]| {
                if totals[0] > 0.0 { totals[node] / totals[0] } else { 0.0 }
            };
            share(totals).max(share(base_totals))
        };
        let mut weights: Vec<f64> = (0..self.nodes.len()).map(weight).collect();
        weights.sort_by(|a, b| b.total_cmp(a));
        let least = weights.get(NODES_DRAWN_MAX).copied().unwrap_or(0.0);
        let mut kept: Vec<u32> = Vec::with_capacity(self.nodes.len());
        for (node, Node { parent, .. }) in self.nodes.iter().enumerate() {
            let stays = node == ALL as usize || weight(node) > least;
            kept.push(if stays { node as u32 } else { kept[*parent as usize] });
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_add_up_and_small_nodes_are_counted_for_their_caller() {
        let functions = (0..20_000).map(|number| format!("f{number}")).collect();
        let mut graph = FlameGraph::new("t".to_owned(), FlameUnit::Bytes, functions);
        let mut add = |stack: &[u32], amount| {
            graph.add(&FlameSample { root: "get", stack, amount, at_ns: 0 }, false);
        };
        add(&[1, 2], 1_000.0);
        add(&[1], 500.0);
        (3..20_000).for_each(|number| add(&[1, number], 0.01));
        let totals = graph.totals(&graph.leaves);
        let expected = 1_500.0 + 19_997.0 * 0.01;
        assert!((totals[0] - expected).abs() < 1e-6 && (totals[2] - expected).abs() < 1e-6);
        let kept = graph.kept(&totals, &graph.totals(&[]));
        assert_eq!(&kept[..4], [0, 1, 2, 3], "all, get, f1, f2");
        assert!(kept[4..].iter().all(|node| *node == 2));
    }
}
