//! A complete check of packed documents.

use super::node::{
    CONTAINER_HEADER_BYTES, Container, DEPTH_MAX, Damage, extent, is_container, node_of, string_at,
    tag,
};

/// Checks every byte of a packed document.
///
/// # Errors
/// The first damage that is found.
pub fn check(document: &[u8]) -> Result<(), Damage> {
    let node = node_of(document)?;
    let end = check_node(node, 1, 0)?;
    if end == node.len() { Ok(()) } else { Err(Damage::Truncated { offset: 1 + end }) }
}

/// Checks the node at the front of `node` and returns its length. `offset` is the offset of the
/// node in the document.
fn check_node(node: &[u8], offset: usize, depth: usize) -> Result<usize, Damage> {
    let length = extent(node).ok_or(Damage::Truncated { offset })?;
    let first = node[0];
    match first {
        tag::STRING | tag::SHORT_STRING..=tag::SHORT_STRING_END => check_string(node, offset)?,
        tag::DOUBLE => {
            let bytes = node[1..].first_chunk().ok_or(Damage::Truncated { offset })?;
            if !f64::from_le_bytes(*bytes).is_finite() {
                return Err(Damage::Truncated { offset });
            }
        }
        _ if is_container(first) => check_entries(node, offset, depth)?,
        _ => {}
    }
    Ok(length)
}

fn check_string(node: &[u8], offset: usize) -> Result<(), Damage> {
    let (text, _) = string_at(node).ok_or(Damage::Truncated { offset })?;
    std::str::from_utf8(text).map(|_| ()).map_err(|_| Damage::Text { offset })
}

fn check_entries(node: &[u8], offset: usize, depth: usize) -> Result<(), Damage> {
    if depth >= DEPTH_MAX {
        return Err(Damage::Depth { offset });
    }
    let table = Container::open(node).ok_or(Damage::Table { offset })?;
    let is_object = table.is_object;
    let mut places = Vec::new();
    let mut at = CONTAINER_HEADER_BYTES;
    while at < table.begin {
        places.push(at);
        if is_object {
            let entry = &table.node[at..table.begin];
            check_string(entry, offset + at)?;
            at += extent(entry).ok_or(Damage::Truncated { offset: offset + at })?;
        }
        at += check_node(&table.node[at..table.begin], offset + at, depth + 1)?;
    }
    let mut named = Vec::new();
    let mut last: Option<&[u8]> = None;
    for place in 0..table.count {
        let entry = table.entry(place).ok_or(Damage::Table { offset })?;
        named.push(table.begin - entry.len());
        let name = is_object.then(|| string_at(entry)).flatten().map(|(name, _)| name);
        if is_object && last.is_some_and(|last| name.is_none_or(|name| name <= last)) {
            return Err(Damage::Table { offset });
        }
        last = name;
    }
    if is_object {
        named.sort_unstable();
    }
    if named == places { Ok(()) } else { Err(Damage::Table { offset }) }
}
