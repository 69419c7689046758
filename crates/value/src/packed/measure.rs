//! The length of a document as JSON, computed from its packed bytes. It does not make the text or
//! open the values one by one, because each document is measured when it is written.

use super::node::{
    CONTAINER_HEADER_BYTES, Container, DEPTH_MAX, extent, is_container, node_of, string_at, tag,
};
use crate::Ref;
use crate::json::{number_length, string_length};

/// The number of bytes that [`crate::json::write`] writes for a packed document; `None` if it is
/// damaged or too deep.
#[must_use]
pub fn json_length(document: &[u8]) -> Option<usize> {
    measure(node_of(document).ok()?, 0).map(|(length, _)| length)
}

/// As [`json_length`], for a node.
pub(crate) fn node_length(node: &[u8]) -> Option<usize> {
    measure(node, 0).map(|(length, _)| length)
}

/// The length as JSON of the node at the front of `node`, and its length in packed form.
fn measure(node: &[u8], depth: usize) -> Option<(usize, usize)> {
    let first = *node.first()?;
    match first {
        tag::SHORT_STRING..=tag::SHORT_STRING_END | tag::STRING => {
            let (text, end) = string_at(node)?;
            Some((string_length(text), end))
        }
        tag::NULL | tag::TRUE => Some((4, 1)),
        tag::FALSE => Some((5, 1)),
        _ if is_container(first) => contents(node, depth),
        _ => match Ref::of_node(node) {
            Ref::Number(number) => Some((number_length(number), extent(node)?)),
            _ => None,
        },
    }
}

fn contents(node: &[u8], depth: usize) -> Option<(usize, usize)> {
    let table = Container::open(node)?;
    if depth >= DEPTH_MAX {
        return None;
    }
    let (mut at, mut length) = (CONTAINER_HEADER_BYTES, 2);
    for place in 0..table.count {
        if table.is_object {
            let (name, end) = string_at(table.node.get(at..table.begin)?)?;
            // The name with its colon.
            length += string_length(name) + 1;
            at += end;
        }
        let (value, end) = measure(table.node.get(at..table.begin)?, depth + 1)?;
        // The value, with a comma before all but the first.
        length += value + usize::from(place > 0);
        at += end;
    }
    Some((length, table.node.len()))
}
