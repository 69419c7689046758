//! The check for light queries, which certainly take a short time.

use crate::parse::ast::BinaryOperator;
use crate::tree::{Code, Match, NodeKind, Pipeline};

/// True if the query looks up one place of one index and does nothing with the documents that could
/// take long.
pub(super) fn is_light(pipeline: &Pipeline) -> bool {
    let mut loops = 0;
    let is_light = |kind: &NodeKind| match kind {
        NodeKind::Singleton
        | NodeKind::Return { is_distinct: false, .. }
        | NodeKind::Limit { .. }
        | NodeKind::Filter { .. }
        | NodeKind::Calculation { .. } => true,
        NodeKind::Index(access) => {
            loops += 1;
            let is_equal = |found: &Match| matches!(found, Match::Equal(_));
            let bounds = access.low.is_some() || access.high.is_some();
            !access.matches.is_empty() && access.matches.iter().all(is_equal) && !bounds
        }
        _ => false,
    };
    let mut is_quick = pipeline.nodes.iter().map(|node| &node.kind).all(is_light);
    pipeline.nodes.iter().for_each(|node| {
        node.kind.for_each_code(&mut |code| code.walk(&mut |part| is_quick &= is_short(part)));
    });
    is_quick && loops == 1
}

/// True if the time to compute an expression is at most linear in the size of its operands.
fn is_short(code: &Code) -> bool {
    match code {
        Code::Constant(_) | Code::Path(..) | Code::Attribute(..) | Code::Array(_) => true,
        Code::Object(_) | Code::Ternary(_) | Code::Element(..) | Code::Unary(..) => true,
        Code::Binary(operator, _) => !matches!(
            operator,
            BinaryOperator::Like
                | BinaryOperator::NotLike
                | BinaryOperator::Regex
                | BinaryOperator::NotRegex
                | BinaryOperator::Range
        ),
        _ => false,
    }
}
