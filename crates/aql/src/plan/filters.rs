//! Filters as near to their data as they can be.

use pellucid_value::Value;

use super::NodeKind;
use super::build::Builder;
use crate::QueryError;
use crate::evaluate::Code;
use crate::parse::ast::Binary;

impl Builder<'_> {
    /// Adds a filter: each of the conditions that it is made of where its variables are known.
    pub(super) fn filter(&mut self, condition: Code) -> Result<(), QueryError> {
        match condition {
            Code::Binary(Binary::And, operands) => {
                let (left, right) = *operands;
                self.filter(left)?;
                self.filter(right)
            }
            Code::Constant(value) if value.is_true() => Ok(()),
            Code::Constant(_) => self.push(NodeKind::NoResults),
            code => self.place_filter(code),
        }
    }

    fn place_filter(&mut self, code: Code) -> Result<(), QueryError> {
        let mut place = self.nodes.len();
        if code.is_pure() {
            let slots = code.slots();
            let stays_behind = |kind: &NodeKind| {
                let is_barrier = !matches!(
                    kind,
                    NodeKind::EnumerateCollection { .. }
                        | NodeKind::EnumerateList { .. }
                        | NodeKind::Calculation { .. }
                        | NodeKind::Filter { .. }
                        | NodeKind::Sort { .. }
                );
                is_barrier || kind.slots_set().iter().any(|slot| slots.contains(slot))
            };
            while place > 0 && !stays_behind(&self.nodes[place - 1].kind) {
                place -= 1;
            }
            // Filters keep their order among themselves.
            while place < self.nodes.len()
                && matches!(self.nodes[place].kind, NodeKind::Filter { .. })
            {
                place += 1;
            }
            if place < self.nodes.len() {
                self.rules.push("move-filters-up");
            }
            let before = place.checked_sub(1).map(|before| &mut self.nodes[before].kind);
            if let Some(NodeKind::EnumerateCollection { filter, slot, .. }) = before
                && slots.contains(slot)
            {
                filter.push(code);
                return Ok(());
            }
        }
        self.push(NodeKind::Filter { code })?;
        let added = self.nodes.pop();
        self.nodes.splice(place..place, added);
        Ok(())
    }

    /// Computes at once what does not depend on rows. The memory of its operands, which are folded,
    /// was taken since there were `before_bytes` of it.
    pub(super) fn fold(&mut self, code: Code, before_bytes: usize) -> Result<Code, QueryError> {
        let mut is_constant = true;
        code.for_each_operand(&mut |operand| is_constant &= matches!(operand, Code::Constant(_)));
        if !is_constant || matches!(code, Code::Constant(_)) || !folds(&code) {
            return Ok(code);
        }
        let row: [Value; 0] = [];
        let value = code.compute(&row, &mut self.run)?;
        drop(code);
        self.run.memory.free_down_to(before_bytes);
        // The plan keeps it.
        self.run.memory.take(size_of::<Code>() + value.own_bytes())?;
        Ok(Code::Constant(value))
    }
}

/// True if the expression itself needs no row, once its operands do not.
fn folds(code: &Code) -> bool {
    match code {
        Code::Call(function, _) => function.is_pure,
        Code::Unary(..)
        | Code::Array(_)
        | Code::Object(_)
        | Code::Attribute(..)
        | Code::Element(..)
        | Code::Ternary(_)
        | Code::Quantified { .. } => true,
        // A long range is cheaper to count than to keep.
        Code::Binary(operator, _) => *operator != Binary::Range,
        _ => false,
    }
}
