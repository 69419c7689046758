//! A complete check of packed documents.

use super::node::{
    CONTAINER_HEADER_BYTES, Container, DEPTH_MAX, extent, fixed, is_container, node_of, string_at,
    tag, text_of,
};

/// Checks every byte of a packed document. Returns true if it is intact.
#[must_use]
pub fn check(document: &[u8]) -> bool {
    node_of(document).is_ok_and(|node| check_node(node, 0) == Some(node.len()))
}

/// Checks the node at the front of `node` and returns its length; `None` if it is damaged.
fn check_node(node: &[u8], depth: usize) -> Option<usize> {
    let length = extent(node)?;
    let first = node[0];
    match first {
        tag::STRING | tag::SHORT_STRING..=tag::SHORT_STRING_END => {
            text_of(string_at(node)?.0)?;
        }
        tag::DOUBLE if !f64::from_le_bytes(fixed(node)?).is_finite() => return None,
        _ if is_container(first) => check_entries(node, depth)?,
        _ => {}
    }
    Some(length)
}

fn check_entries(node: &[u8], depth: usize) -> Option<()> {
    if depth >= DEPTH_MAX {
        return None;
    }
    let table = Container::open(node)?;
    let is_object = table.is_object;
    let mut places = Vec::new();
    let mut at = CONTAINER_HEADER_BYTES;
    while at < table.begin {
        places.push(at);
        if is_object {
            let (name, end) = string_at(&table.node[at..table.begin])?;
            text_of(name)?;
            at += end;
        }
        at += check_node(&table.node[at..table.begin], depth + 1)?;
    }
    let mut named = Vec::new();
    let mut last: Option<&[u8]> = None;
    for place in 0..table.count {
        let entry = table.entry(place)?;
        named.push(table.begin - entry.len());
        let name = is_object.then(|| string_at(entry)).flatten().map(|(name, _)| name);
        if is_object && last.is_some_and(|last| name.is_none_or(|name| name <= last)) {
            return None;
        }
        last = name;
    }
    if is_object {
        named.sort_unstable();
    }
    (named == places).then_some(())
}
