//! Constant folding: expressions that are computed during planning.

use pellucid_value::Value;

use crate::Result;
use crate::parse::ast::BinaryOperator;
use crate::query_run::QueryRun;
use crate::tree::Code;

/// Computes an expression that does not depend on rows, whose operands are folded already. The
/// memory of the operands was taken since the passing bytes were `before_bytes`; it is freed.
pub(super) fn fold(code: Code, before_bytes: usize, run: &mut QueryRun) -> Result<Code> {
    let mut is_constant = true;
    code.for_each_operand(&mut |operand| is_constant &= matches!(operand, Code::Constant(_)));
    if !is_constant || matches!(code, Code::Constant(_)) || !folds(&code) {
        return Ok(code);
    }
    let row: [Value; 0] = [];
    let value = code.compute(&row, run)?;
    drop(code);
    run.memory.free_down_to(before_bytes);
    // The plan keeps the value.
    run.memory.take(size_of::<Code>() + value.own_bytes())?;
    Ok(Code::Constant(value))
}

/// True if an expression with constant operands is constant itself.
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
        // A range is not folded, because counting it is cheaper than keeping its elements.
        Code::Binary(operator, _) => *operator != BinaryOperator::Range,
        _ => false,
    }
}
