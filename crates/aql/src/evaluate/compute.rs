//! Computation of expressions.

use std::borrow::Cow;
use std::sync::Arc;

use pellucid_value::packed::DEPTH_MAX;
use pellucid_value::{ArrayRef, DuplicateRule, ObjectBuilder, Ref, Text, Value, to_number};

use super::operators::{arithmetic, compare_by, holding, range, range_bounds};
use crate::Result;
use crate::functions::text;
use crate::parse::ast::{ArrayPredicate, BinaryOperator, Expansion, Quantifier, UnaryOperator};
use crate::query_run::QueryRun;
use crate::tree::{Code, Name};

/// The bytes of a member of an object that is being built, besides its name and its value.
const MEMBER_BYTES: usize = 2 * size_of::<(Text, Value)>();

impl Code {
    pub(crate) fn compute(&self, row: &[Value], run: &mut QueryRun) -> Result<Value> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Path(slot, names) => Ok(path(&row[*slot], names)),
            Self::Local(depth) => Ok(run.locals.get(*depth).cloned().unwrap_or_default()),
            Self::Attribute(value, names) => Ok(path(&value.compute(row, run)?, names)),
            Self::Element(value, place) => {
                let value = value.compute(row, run)?;
                Ok(element(&value, &place.compute(row, run)?))
            }
            Self::Expansion(expansion) => expansion.compute(row, run),
            Self::Question(question) => question.compute(row, run),
            Self::Call(function, arguments) => {
                let before_bytes = run.memory.passing_bytes();
                let arguments = compute_all(arguments, row, run)?;
                let value = (function.body)(run, &arguments)?;
                run.memory.free_down_to(before_bytes);
                Ok(value)
            }
            Self::Unary(operator, operand) => unary(*operator, &operand.compute(row, run)?, run),
            Self::Binary(operator, operands) => binary(*operator, operands, row, run),
            Self::Quantified { quantifier, operator, operands } => {
                let left = operands.0.compute(row, run)?;
                let right = operands.1.compute(row, run)?;
                let Some(elements) = left.view().as_array() else { return Ok(Value::Bool(false)) };
                quantifier.is_met(*operator, elements, &right, row, run).map(Value::Bool)
            }
            Self::Ternary(parts) => {
                let condition = parts.0.compute(row, run)?;
                match (condition.is_true(), &parts.1) {
                    (true, Some(middle)) => middle.compute(row, run),
                    (true, None) => Ok(condition),
                    (false, _) => parts.2.compute(row, run),
                }
            }
            Self::Array(elements) => {
                let before_bytes = run.memory.passing_bytes();
                let elements = compute_all(elements, row, run)?;
                run.memory.free_down_to(before_bytes);
                Ok(Value::array(elements)?)
            }
            Self::Object(members) => object(members, row, run),
            Self::Subquery(pipeline) => crate::execute::subquery(pipeline, row, run),
            Self::CollectionCount(collection, _) => {
                let count = run.source.count(*collection)?;
                Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
            }
            Self::CollectionContents(collection, _) => {
                Ok(Value::array(crate::execute::contents(*collection, run)?)?)
            }
        }
    }

    /// True if its value for a row counts as true.
    pub(crate) fn holds(&self, row: &[Value], run: &mut QueryRun) -> Result<bool> {
        match self {
            Self::Binary(BinaryOperator::And, operands) => {
                Ok(operands.0.holds(row, run)? && operands.1.holds(row, run)?)
            }
            Self::Binary(BinaryOperator::Or, operands) => {
                Ok(operands.0.holds(row, run)? || operands.1.holds(row, run)?)
            }
            Self::Binary(operator, operands) if operator.compares() => {
                match (operands.0.peek(row), operands.1.peek(row)) {
                    (Some(left), Some(right)) => compare_by(*operator, left, right, run),
                    _ => Ok(self.compute(row, run)?.is_true()),
                }
            }
            _ => Ok(self.compute(row, run)?.is_true()),
        }
    }
}

fn path(value: &Value, names: &[Arc<str>]) -> Value {
    let mut value = Cow::Borrowed(value);
    for (place, name) in names.iter().enumerate() {
        if let Value::Packed(shared) = &*value {
            let rest = names[place..].iter();
            let part = rest.fold(value.view(), |value, name| value.attribute(name));
            return Value::of_reference(shared, part);
        }
        value = Cow::Owned(value.attribute(name));
    }
    value.into_owned()
}

/// Computes `value[place]`: an attribute by its name, or an element by its index.
fn element(value: &Value, place: &Value) -> Value {
    match (value.view(), place.view()) {
        (Ref::Object(_), Ref::String(name)) => value.attribute(name),
        (Ref::Object(_), Ref::Number(place)) => value.attribute(&place.to_int().to_string()),
        (Ref::Array(_), Ref::Number(place)) => value.element(place.to_int()),
        (Ref::Array(_), Ref::String(text)) => match text.parse::<i64>() {
            Ok(place) => value.element(place),
            Err(_) => Value::Null,
        },
        _ => Value::Null,
    }
}

/// Computes all expressions. The values count as memory until the caller frees it.
fn compute_all(codes: &[Code], row: &[Value], run: &mut QueryRun) -> Result<Vec<Value>> {
    run.memory.take(codes.len() * size_of::<Value>())?;
    let mut values = Vec::with_capacity(codes.len());
    for code in codes {
        let value = code.compute(row, run)?;
        run.memory.take(value.own_bytes())?;
        values.push(value);
    }
    Ok(values)
}

fn object(members: &[(Name, Code)], row: &[Value], run: &mut QueryRun) -> Result<Value> {
    let before_bytes = run.memory.passing_bytes();
    let mut object = ObjectBuilder::with(DuplicateRule::First);
    for (name, value) in members {
        let name = match name {
            Name::Fixed(name) => Text::from(Arc::clone(name)),
            Name::Computed(name) => {
                let name = name.compute(row, run)?;
                match name {
                    Value::String(name) => name,
                    name => {
                        let name = text(run, &name)?;
                        run.memory.take(name.len())?;
                        Text::from(&*name)
                    }
                }
            }
        };
        let value = value.compute(row, run)?;
        run.memory.take(MEMBER_BYTES + value.own_bytes())?;
        object.insert(name, value);
    }
    run.memory.free_down_to(before_bytes);
    Ok(object.finish()?)
}

fn unary(operator: UnaryOperator, operand: &Value, run: &mut QueryRun) -> Result<Value> {
    match operator {
        UnaryOperator::Not => Ok(Value::Bool(!operand.is_true())),
        UnaryOperator::Plus => Ok(Value::number(to_number(operand.view()))),
        UnaryOperator::Minus => {
            arithmetic(BinaryOperator::Minus, Value::Int(0).view(), operand.view(), run)
        }
    }
}

fn binary(
    operator: BinaryOperator,
    operands: &(Code, Code),
    row: &[Value],
    run: &mut QueryRun,
) -> Result<Value> {
    if operator.compares()
        && let (Some(left), Some(right)) = (operands.0.peek(row), operands.1.peek(row))
    {
        return compare_by(operator, left, right, run).map(Value::Bool);
    }
    let left = operands.0.compute(row, run)?;
    if matches!(operator, BinaryOperator::And | BinaryOperator::Or) {
        let decides = left.is_true() == (operator == BinaryOperator::Or);
        return if decides { Ok(left) } else { operands.1.compute(row, run) };
    }
    let right = operands.1.compute(row, run)?;
    match operator {
        BinaryOperator::Like
        | BinaryOperator::NotLike
        | BinaryOperator::Regex
        | BinaryOperator::NotRegex => super::regex_matching::matches(operator, &left, &right, run),
        BinaryOperator::Range => range(&left, &right, run),
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Times
        | BinaryOperator::Divide
        | BinaryOperator::Modulo => arithmetic(operator, left.view(), right.view(), run),
        _ => compare_by(operator, left.view(), right.view(), run).map(Value::Bool),
    }
}

impl Quantifier<Code> {
    /// True if the comparison holds for the required number of elements. It stops as soon as the
    /// result is known.
    fn is_met(
        &self,
        operator: BinaryOperator,
        elements: ArrayRef<'_>,
        right: &Value,
        row: &[Value],
        run: &mut QueryRun,
    ) -> Result<bool> {
        let is_in = matches!(operator, BinaryOperator::In | BinaryOperator::NotIn);
        if is_in && right.view().as_array().is_none() {
            return Ok(false);
        }
        let negated = negated(operator).filter(|_| matches!(self, Self::All));
        Ok(match self {
            // It holds for all elements if the opposite holds for none.
            Self::All => match negated {
                Some(opposite) => holding(opposite, elements, right, 1, run)? == 0,
                None => holding(operator, elements, right, usize::MAX, run)? == elements.len(),
            },
            Self::Any => holding(operator, elements, right, 1, run)? > 0,
            Self::None => holding(operator, elements, right, 1, run)? == 0,
            Self::AtLeast(count) => {
                let least = to_number(count.compute(row, run)?.view()).to_int();
                let Ok(least) = usize::try_from(least) else { return Ok(true) };
                holding(operator, elements, right, least, run)? >= least
            }
        })
    }

    fn holds(&self, holding: usize, all: usize, row: &[Value], run: &mut QueryRun) -> Result<bool> {
        Ok(match self {
            Self::All => holding == all,
            Self::Any => holding > 0,
            Self::None => holding == 0,
            Self::AtLeast(count) => {
                let least = to_number(count.compute(row, run)?.view()).to_int();
                i64::try_from(holding).unwrap_or(i64::MAX) >= least
            }
        })
    }
}

/// The operator that holds where this one does not; for `IN` and `NOT IN`, the right operand is an
/// array.
fn negated(operator: BinaryOperator) -> Option<BinaryOperator> {
    Some(match operator {
        BinaryOperator::Equal => BinaryOperator::NotEqual,
        BinaryOperator::NotEqual => BinaryOperator::Equal,
        BinaryOperator::Less => BinaryOperator::GreaterEqual,
        BinaryOperator::LessEqual => BinaryOperator::Greater,
        BinaryOperator::Greater => BinaryOperator::LessEqual,
        BinaryOperator::GreaterEqual => BinaryOperator::Less,
        BinaryOperator::In => BinaryOperator::NotIn,
        BinaryOperator::NotIn => BinaryOperator::In,
        _ => return None,
    })
}

/// The elements of `list`. Arrays among them are flattened, down to `levels`.
fn elements_of(list: &Value, levels: usize, run: &mut QueryRun) -> Result<Vec<Value>> {
    if levels == 1 {
        let count = list.view().as_array().map_or(0, ArrayRef::len);
        run.memory.take(count * size_of::<Value>())?;
        let mut elements = Vec::with_capacity(count);
        for element in list.each() {
            run.tick()?;
            elements.push(element);
        }
        return Ok(elements);
    }
    let mut elements = Vec::new();
    flatten(list, levels.min(DEPTH_MAX), &mut elements, run)?;
    Ok(elements)
}

/// Adds the elements of `list` to `elements`. Arrays among them are flattened, down to `levels`.
fn flatten(
    list: &Value,
    levels: usize,
    elements: &mut Vec<Value>,
    run: &mut QueryRun,
) -> Result<()> {
    let count = list.view().as_array().map_or(0, ArrayRef::len);
    // While the result grows, it is there twice, once with spare capacity.
    run.memory.take(3 * count * size_of::<Value>())?;
    for element in list.each() {
        run.tick()?;
        if levels > 1 && matches!(element.view(), Ref::Array(_)) {
            flatten(&element, levels - 1, elements, run)?;
        } else {
            elements.push(element);
        }
    }
    Ok(())
}

impl Expansion<Code> {
    fn compute(&self, row: &[Value], run: &mut QueryRun) -> Result<Value> {
        let before_bytes = run.memory.passing_bytes();
        let list = self.list.compute(row, run)?;
        run.memory.take(list.own_bytes())?;
        let elements = elements_of(&list, self.levels, run)?;
        let (mut skip, mut most) = (0, usize::MAX);
        if let Some((offset, count)) = &self.limit {
            let whole = |value: Value| usize::try_from(to_number(value.view()).to_int()).ok();
            let (offset, count) =
                (whole(offset.compute(row, run)?), whole(count.compute(row, run)?));
            // A negative operand leaves nothing.
            (skip, most) = offset.zip(count).unwrap_or_default();
        }
        let mut result = Vec::new();
        for element in elements {
            if result.len() >= most {
                break;
            }
            run.tick()?;
            run.locals.push(element);
            let projected = self.project(row, run);
            let element = run.locals.pop().unwrap_or_default();
            match projected? {
                None => {}
                Some(_) if skip > 0 => skip -= 1,
                Some(Some(mut value)) => {
                    // With spare capacity.
                    run.memory.take(value.own_bytes() + size_of::<Value>())?;
                    // What it is a part of does not count, and must not stay.
                    value.let_go();
                    result.push(value);
                }
                Some(None) => {
                    // Its place, and spare capacity.
                    run.memory.take(2 * size_of::<Value>())?;
                    result.push(element);
                }
            }
        }
        run.memory.free_down_to(before_bytes);
        Ok(Value::array(result)?)
    }

    /// Filters and projects an element. `None` if it is left out, `Some(None)` if it is kept as it
    /// is, and otherwise its projection.
    #[expect(clippy::option_option, reason = "left out, kept as it is, and kept as another value")]
    fn project(&self, row: &[Value], run: &mut QueryRun) -> Result<Option<Option<Value>>> {
        if let Some(filter) = &self.filter
            && !filter.holds(row, run)?
        {
            return Ok(None);
        }
        let Some(projection) = &self.projection else { return Ok(Some(None)) };
        projection.compute(row, run).map(|value| Some(Some(value)))
    }
}

impl ArrayPredicate<Code> {
    fn compute(&self, row: &[Value], run: &mut QueryRun) -> Result<Value> {
        let before_bytes = run.memory.passing_bytes();
        let list = self.list.compute(row, run)?;
        if list.view().as_array().is_none() {
            return Ok(Value::Bool(false));
        }
        run.memory.take(list.own_bytes())?;
        let elements = elements_of(&list, self.levels, run)?;
        let all = elements.len();
        let mut holding = 0;
        for element in elements {
            run.tick()?;
            run.locals.push(element);
            let holds = self.filter.as_ref().map_or(Ok(true), |filter| filter.holds(row, run));
            run.locals.pop();
            holding += usize::from(holds?);
        }
        run.memory.free_down_to(before_bytes);
        if let Some(count) = &self.count {
            let (low, high) = if let Some((low, high)) = count.range() {
                range_bounds(&low.compute(row, run)?, &high.compute(row, run)?)
            } else {
                let count = count.compute(row, run)?;
                range_bounds(&count, &count)
            };
            let holding = i64::try_from(holding).unwrap_or(i64::MAX);
            return Ok(Value::Bool((low.max(0)..=high.max(0)).contains(&holding)));
        }
        match &self.quantifier {
            Some(quantifier) => quantifier.holds(holding, all, row, run).map(Value::Bool),
            None => Ok(Value::Bool(holding > 0)),
        }
    }
}
