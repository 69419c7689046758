//! Estimates of the rows and the costs of nodes.

use pellucid_value::Value;

use crate::tree::{IndexAccess, Node, NodeKind};
use crate::{IndexKind, Source};

/// The assumed number of elements of a list that is not constant.
const LIST_ITEMS: f64 = 100.0;

/// Sets the estimated number of rows of each node, and the estimated cost of all nodes up to it.
pub(super) fn estimate(nodes: &mut [Node], source: &dyn Source) {
    let (mut cost, mut items) = (0.0_f64, 1.0_f64);
    for node in nodes {
        let before = items;
        items = items_of(&node.kind, before, source);
        cost += match &node.kind {
            NodeKind::Singleton | NodeKind::Limit { .. } => 1.0,
            NodeKind::Sort { .. } => before * before.max(2.0).log2(),
            NodeKind::EnumerateCollection { collection, .. } => {
                before * source.count(collection.id).unwrap_or(0) as f64
            }
            _ => before.max(items),
        };
        (node.cost, node.items) = (cost, items);
    }
}

fn items_of(kind: &NodeKind, before: f64, source: &dyn Source) -> f64 {
    let documents = |id| source.count(id).unwrap_or(0) as f64;
    match kind {
        NodeKind::EnumerateCollection { collection, filter, .. } => {
            let share = 0.5_f64.powi(i32::try_from(filter.len()).unwrap_or(8));
            before * documents(collection.id) * share
        }
        NodeKind::Index(access) => before * index_items(access, documents(access.collection.id)),
        NodeKind::EnumerateList { list, .. } => {
            let length = |value: &Value| value.view().as_array().map(|list| list.len() as f64);
            before * list.constant().and_then(length).unwrap_or(LIST_ITEMS)
        }
        NodeKind::Filter { .. } => before * 0.5,
        NodeKind::Limit { offset, count, .. } => {
            let left = (before - *offset as f64).max(0.0);
            count.map_or(left, |count| left.min(count as f64))
        }
        NodeKind::Collect(collect) if collect.groups.is_empty() => 1.0,
        NodeKind::Collect(_) => before * 0.8,
        NodeKind::NoResults => 0.0,
        _ => before,
    }
}

fn index_items(access: &IndexAccess, documents: f64) -> f64 {
    let all = access.index.fields.len().max(1) as f64;
    let matched = access.matches.len() as f64;
    if access.index.kind == IndexKind::Primary || (access.index.unique && matched == all) {
        return 1.0_f64.min(documents);
    }
    let different = (documents * access.index.selectivity).max(1.0);
    let share = 0.5_f64.powi(i32::try_from(access.bounds()).unwrap_or(2));
    (documents / different.powf(matched / all) * share).max(1.0_f64.min(documents))
}
