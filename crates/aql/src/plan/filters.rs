//! Placement of filters: as early in the plan as possible.

use super::builder::Builder;
use crate::Result;
use crate::parse::ast::BinaryOperator;
use crate::tree::{Code, Node, NodeKind, Slot};

/// Adds a filter. Each part of a conjunction is placed at the first node where all its variables
/// are known.
pub(super) fn add_filter(builder: &mut Builder<'_>, condition: Code) -> Result<()> {
    match condition {
        Code::Binary(BinaryOperator::And, operands) => {
            let (left, right) = *operands;
            add_filter(builder, left)?;
            add_filter(builder, right)
        }
        Code::Constant(value) if value.is_true() => Ok(()),
        Code::Constant(_) => builder.push(NodeKind::NoResults),
        code => place_filter(builder, code),
    }
}

fn place_filter(builder: &mut Builder<'_>, code: Code) -> Result<()> {
    let mut place = builder.nodes.len();
    if code.is_pure() {
        let slots = code.slots();
        let stays_behind = |node: &Node| {
            let is_barrier = !matches!(
                node.kind,
                NodeKind::EnumerateCollection { .. }
                    | NodeKind::EnumerateList { .. }
                    | NodeKind::Calculation { .. }
                    | NodeKind::Filter { .. }
                    | NodeKind::Sort { .. }
            );
            let sets = |slot: &Slot| slots.contains(slot);
            is_barrier || node.may_fail || node.kind.slots_set().iter().any(sets)
        };
        while place > 0 && !stays_behind(&builder.nodes[place - 1]) {
            place -= 1;
        }
        // Filters keep their order among themselves.
        while place < builder.nodes.len()
            && matches!(builder.nodes[place].kind, NodeKind::Filter { .. })
        {
            place += 1;
        }
        if place < builder.nodes.len() {
            builder.rules.push("move-filters-up");
        }
        let before = place.checked_sub(1).map(|before| &mut builder.nodes[before].kind);
        if let Some(NodeKind::EnumerateCollection { filter, slot, .. }) = before
            && slots.contains(slot)
        {
            filter.push(code);
            return Ok(());
        }
    }
    builder.push(NodeKind::Filter { code })?;
    let added = builder.nodes.pop();
    builder.nodes.splice(place..place, added);
    Ok(())
}
