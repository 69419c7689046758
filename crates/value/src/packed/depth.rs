//! The depth of a packed value.

use super::node::{CONTAINER_HEADER_BYTES, Container, DEPTH_MAX, extent, string_at};

/// The levels of nested arrays and objects in the node at the front of `node`, counted up to one
/// more than [`DEPTH_MAX`].
pub(crate) fn depth(node: &[u8]) -> usize {
    levels(node, DEPTH_MAX + 1)
}

/// As [`depth`], counted up to `most`.
fn levels(node: &[u8], most: usize) -> usize {
    let Some(table) = Container::open(node).filter(|_| most > 0) else { return 0 };
    let most = most - 1;
    let (mut at, mut deepest) = (CONTAINER_HEADER_BYTES, 0);
    for _ in 0..table.count {
        if table.is_object {
            let name = table.node.get(at..table.begin).and_then(string_at);
            let Some((_, end)) = name else { break };
            at += end;
        }
        let Some(entry) = table.node.get(at..table.begin) else { break };
        deepest = deepest.max(levels(entry, most));
        let Some(length) = extent(entry) else { break };
        if deepest == most {
            break;
        }
        at += length;
    }
    1 + deepest
}
