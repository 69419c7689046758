//! Planning of expressions: from the syntax tree to executable code.

use std::sync::Arc;

use pellucid_value::{Ref, Value};

use super::bind_variables::wrong_type;
use super::builder::{Access, Builder};
use super::constant_folding::fold;
use crate::functions;
use crate::parse::ast::{
    self, ArrayPredicate, BinaryOperator, CURRENT, Expansion, Expression, MemberName, Quantifier,
};
use crate::parse::{DEPTH_MAX, too_deep};
use crate::tree::{Code, Name, Pipeline};
use crate::{Collection, QueryError, Result, number};

/// The bytes of a name besides its text: its place in a list with spare capacity, and its counts.
const NAME_BYTES: usize = 2 * size_of::<Arc<str>>() + 2 * size_of::<usize>();

/// Plans an expression.
pub(super) fn plan_expression(builder: &mut Builder<'_>, expression: &Expression) -> Result<Code> {
    let before_bytes = builder.run.memory.passing_bytes();
    let code = plan_unfolded(builder, expression)?;
    fold(code, before_bytes, &mut builder.run)
}

/// Plans an expression whose elements are counted instead of kept, if it is a range.
pub(super) fn plan_counted(builder: &mut Builder<'_>, expression: &Expression) -> Result<Code> {
    let before_bytes = builder.run.memory.passing_bytes();
    let code = plan_unfolded(builder, expression)?;
    if code.range().is_some() { Ok(code) } else { fold(code, before_bytes, &mut builder.run) }
}

/// Plans an expression, whose operands are folded, but not the expression itself.
fn plan_unfolded(builder: &mut Builder<'_>, expression: &Expression) -> Result<Code> {
    builder.run.tick()?;
    builder.run.memory.take(size_of::<Code>())?;
    Ok(match expression {
        Expression::Constant(value) => Code::Constant(value.clone()),
        Expression::OutOfRange => Code::Constant(
            builder.run.warn_null(number::NUMBER_OUT_OF_RANGE, "number out of range")?,
        ),
        Expression::Bind(name) => Code::Constant(builder.binds.fix(name)),
        Expression::CollectionBind(name) => {
            let name = builder.binds.fix_collection(name)?;
            return Err(collection_as_operand(&name));
        }
        Expression::Name(name) => plan_name(builder, name)?,
        Expression::Current => builder.scope.current().unwrap_or(Code::Constant(Value::Null)),
        Expression::Attribute(value, name) => {
            let value = plan_expression(builder, value)?;
            attribute(value, Arc::clone(name))?
        }
        Expression::AttributeBind(value, name) => {
            let value = plan_expression(builder, value)?;
            plan_bound_attribute(builder, value, name)?
        }
        Expression::Element(value, place) => {
            let value = plan_expression(builder, value)?;
            let place = plan_expression(builder, place)?;
            match place.constant().and_then(Value::as_str) {
                // `a["b"]` is `a.b`, except for a string of digits, which may index an array.
                Some(name) if name.parse::<i64>().is_err() => {
                    bound_attribute(builder, value, name)?
                }
                _ => Code::Element(Box::new(value), Box::new(place)),
            }
        }
        Expression::Expansion(expansion) => plan_expansion(builder, expansion)?,
        Expression::Question(question) => plan_question(builder, question)?,
        Expression::Call { name, arguments } => plan_call(builder, name, arguments)?,
        Expression::Unary(operator, operand) => {
            Code::Unary(*operator, Box::new(plan_expression(builder, operand)?))
        }
        Expression::Binary(operator, left, right) => {
            let operands =
                (plan_operand(builder, *operator, left)?, plan_operand(builder, *operator, right)?);
            Code::Binary(*operator, Box::new(operands))
        }
        Expression::Quantified { quantifier, operator, operands } => {
            let quantifier = plan_quantifier(builder, quantifier)?;
            let operands =
                (plan_expression(builder, &operands.0)?, plan_expression(builder, &operands.1)?);
            Code::Quantified { quantifier, operator: *operator, operands: Box::new(operands) }
        }
        Expression::Ternary(parts) => {
            let condition = plan_expression(builder, &parts.0)?;
            let middle = parts.1.as_ref().map(|part| plan_expression(builder, part)).transpose()?;
            Code::Ternary(Box::new((condition, middle, plan_expression(builder, &parts.2)?)))
        }
        Expression::Array(elements) => Code::Array(plan_all(builder, elements)?),
        Expression::Object(members) => plan_object(builder, members)?,
        Expression::Subquery(query) => plan_subquery(builder, query)?,
    })
}

fn plan_all(builder: &mut Builder<'_>, expressions: &[Expression]) -> Result<Vec<Code>> {
    expressions.iter().map(|expression| plan_expression(builder, expression)).collect()
}

fn plan_name(builder: &mut Builder<'_>, name: &str) -> Result<Code> {
    if let Some(code) = builder.scope.find(name) {
        builder.run.memory.take(code.names_bytes())?;
        return Ok(code.clone());
    }
    if let Some(current) = builder.scope.current().filter(|_| name == CURRENT) {
        return Ok(current);
    }
    builder.collection(name)?;
    Err(collection_as_operand(name))
}

fn collection_as_operand(name: &str) -> QueryError {
    let message = format!("collection '{name}' used as expression operand");
    QueryError::new(number::COLLECTION_USED_IN_EXPRESSION, message)
}

/// Plans `value.@name`. The bind variable is a name, or an array of names that form a path.
fn plan_bound_attribute(builder: &mut Builder<'_>, value: Code, name: &str) -> Result<Code> {
    let bound = builder.binds.fix(name);
    let wrong = || wrong_type(name);
    match bound.view() {
        Ref::String(text) if !text.is_empty() => bound_attribute(builder, value, text),
        Ref::Array(names) if names.len() > DEPTH_MAX => Err(too_deep()),
        Ref::Array(names) if !names.is_empty() => {
            names.iter().try_fold(value, |value, name| match name {
                Ref::String(text) => bound_attribute(builder, value, text),
                _ => Err(wrong()),
            })
        }
        _ => Err(wrong()),
    }
}

fn plan_expansion(builder: &mut Builder<'_>, expansion: &Expansion) -> Result<Code> {
    let list = plan_expression(builder, &expansion.list)?;
    let limit = match &expansion.limit {
        Some((offset, count)) => {
            Some((plan_expression(builder, offset)?, plan_expression(builder, count)?))
        }
        None => None,
    };
    let filter = plan_within_brackets(builder, expansion.filter.as_ref())?;
    let projection = plan_within_brackets(builder, expansion.projection.as_ref())?;
    let levels = expansion.levels;
    Ok(Code::Expansion(Box::new(Expansion { list, levels, filter, limit, projection })))
}

fn plan_within_brackets(
    builder: &mut Builder<'_>,
    part: Option<&Expression>,
) -> Result<Option<Code>> {
    let Some(part) = part else { return Ok(None) };
    builder.scope.open_brackets();
    let code = plan_expression(builder, part);
    builder.scope.close_brackets();
    code.map(Some)
}

fn plan_question(builder: &mut Builder<'_>, question: &ArrayPredicate) -> Result<Code> {
    let list = plan_expression(builder, &question.list)?;
    let quantifier = match &question.quantifier {
        Some(quantifier) => Some(plan_quantifier(builder, quantifier)?),
        None => None,
    };
    let count = question.count.as_ref().map(|count| plan_counted(builder, count)).transpose()?;
    let filter = plan_within_brackets(builder, question.filter.as_ref())?;
    let levels = question.levels;
    Ok(Code::Question(Box::new(ArrayPredicate { list, levels, quantifier, count, filter })))
}

fn plan_quantifier(builder: &mut Builder<'_>, quantifier: &Quantifier) -> Result<Quantifier<Code>> {
    Ok(match quantifier {
        Quantifier::All => Quantifier::All,
        Quantifier::Any => Quantifier::Any,
        Quantifier::None => Quantifier::None,
        Quantifier::AtLeast(count) => {
            Quantifier::AtLeast(Box::new(plan_expression(builder, count)?))
        }
    })
}

fn plan_object(builder: &mut Builder<'_>, members: &[ast::Member]) -> Result<Code> {
    let mut codes = Vec::new();
    for member in members {
        let name = match &member.name {
            MemberName::Fixed(name) => Name::Fixed(name.as_str().into()),
            MemberName::Computed(name) => Name::Computed(plan_expression(builder, name)?),
        };
        codes.push((name, plan_expression(builder, &member.value)?));
    }
    Ok(Code::Object(codes))
}

fn plan_subquery(builder: &mut Builder<'_>, query: &ast::Query) -> Result<Code> {
    builder.binds.serve_once();
    let writes = |statement: &ast::Statement| {
        matches!(statement, ast::Statement::Write(_) | ast::Statement::Upsert(_))
    };
    if query.statements.iter().any(writes) {
        return Err(QueryError::unsupported("a subquery that writes"));
    }
    let nodes = builder.subquery(query)?;
    Ok(Code::Subquery(Arc::new(Pipeline { nodes, width: builder.variables.len() })))
}

fn plan_call(builder: &mut Builder<'_>, name: &str, arguments: &[Expression]) -> Result<Code> {
    builder.binds.serve_once();
    let upper = name.to_ascii_uppercase();
    let Some(function) = functions::find(&upper) else {
        let message = format!("usage of unknown function '{upper}()'");
        return Err(QueryError::new(number::FUNCTION_NAME_UNKNOWN, message));
    };
    if !(function.arguments_min..=function.arguments_max).contains(&arguments.len()) {
        let message = format!(
            "invalid number of arguments for function '{upper}()', expected number of \
             arguments: minimum: {}, maximum: {}",
            function.arguments_min, function.arguments_max
        );
        return Err(QueryError::new(number::FUNCTION_ARGUMENT_NUMBER, message));
    }
    if matches!(function.name, "DOCUMENT" | "COLLECTION_COUNT") && builder.has_written(|_| true) {
        return Err(access_after_write(&format!("function '{upper}()'")));
    }
    let mut codes = Vec::new();
    for argument in arguments {
        codes.push(match named_collection(builder, argument)? {
            Some(collection) => match upper.as_str() {
                "LENGTH" | "COUNT" if arguments.len() == 1 => {
                    let name = collection.name.into();
                    return Ok(Code::CollectionCount(collection.id, name));
                }
                "DOCUMENT" | "COLLECTION_COUNT" | "IS_SAME_COLLECTION" => {
                    Code::Constant(collection.name.into())
                }
                _ => Code::CollectionContents(collection.id, collection.name.into()),
            },
            None => plan_expression(builder, argument)?,
        });
    }
    Ok(Code::Call(function, codes))
}

/// The collection that an expression names, which the query thus reads; `None` if it names none.
pub(super) fn named_collection(
    builder: &mut Builder<'_>,
    expression: &Expression,
) -> Result<Option<Collection>> {
    let name = match expression {
        Expression::Name(name)
            if builder.scope.find(name).is_none()
                && (name != CURRENT || builder.scope.current().is_none()) =>
        {
            name.clone()
        }
        Expression::CollectionBind(name) => builder.binds.fix_collection(name)?,
        _ => return Ok(None),
    };
    let collection = builder.collection(&name)?;
    if builder.has_written(|written| written.id == collection.id) {
        return Err(access_after_write(&format!("collection '{}'", collection.name)));
    }
    builder.note(&collection, Access::Read);
    Ok(Some(collection))
}

/// Makes the error for a read after a write, which the read would not see.
fn access_after_write(reader: &str) -> QueryError {
    let message = format!("access after data-modification by {reader}");
    QueryError::new(number::ACCESS_AFTER_MODIFICATION, message)
}

/// Plans an operand of an operator. A bind variable that is compared becomes a variable of the
/// plan, if the plan is to be reused for other values.
fn plan_operand(
    builder: &mut Builder<'_>,
    operator: BinaryOperator,
    operand: &Expression,
) -> Result<Code> {
    use BinaryOperator::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    let compares = matches!(operator, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual);
    if let Expression::Bind(name) = operand
        && compares
    {
        let variables = &mut builder.variables;
        if let Some(slot) = builder.binds.parameter(name, || variables.add(None)) {
            return Ok(Code::Path(slot, Vec::new()));
        }
    }
    plan_expression(builder, operand)
}

/// The attribute of a value, whose name is not part of the query's text.
fn bound_attribute(builder: &mut Builder<'_>, value: Code, name: &str) -> Result<Code> {
    builder.run.memory.take(NAME_BYTES + name.len())?;
    attribute(value, name.into())
}

/// The attribute of a value. A path or a chain of attributes becomes longer, but not deeper: a bind
/// variable adds many names at once, and expressions are computed and dropped by recursion.
fn attribute(value: Code, name: Arc<str>) -> Result<Code> {
    match value {
        Code::Path(slot, mut names) if names.len() < DEPTH_MAX => {
            names.push(name);
            Ok(Code::Path(slot, names))
        }
        Code::Attribute(_, names) if names.len() >= DEPTH_MAX => Err(too_deep()),
        Code::Attribute(value, mut names) => {
            names.push(name);
            Ok(Code::Attribute(value, names))
        }
        value => Ok(Code::Attribute(Box::new(value), vec![name])),
    }
}
