//! Values that are computed while a query is planned.

use pellucid_value::Value;

use crate::Result;
use crate::parse::ast::Binary;
use crate::run::Run;
use crate::tree::Code;

/// Computes at once what does not depend on rows. The memory of its operands, which are folded,
/// was taken since there were `before_bytes` of it.
pub(super) fn fold(code: Code, before_bytes: usize, run: &mut Run) -> Result<Code> {
    let mut is_constant = true;
    code.for_each_operand(&mut |operand| is_constant &= matches!(operand, Code::Constant(_)));
    if !is_constant || matches!(code, Code::Constant(_)) || !folds(&code) {
        return Ok(code);
    }
    let row: [Value; 0] = [];
    let value = code.compute(&row, run)?;
    drop(code);
    run.memory.free_down_to(before_bytes);
    // The plan keeps it.
    run.memory.take(size_of::<Code>() + value.own_bytes())?;
    Ok(Code::Constant(value))
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
