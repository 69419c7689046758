//! Arithmetic, comparison and ranges.

use std::cmp::Ordering;

use pellucid_value::{ArrayRef, Number, Ref, Value, to_number};

use crate::functions::{STEP_BYTES, Set, compare, equal, room_for, whole_range, without_case};
use crate::parse::ast::BinaryOperator;
use crate::query_run::QueryRun;
use crate::{Result, number};

/// True if a comparison holds.
pub(crate) fn compare_by(
    operator: BinaryOperator,
    left: Ref<'_>,
    right: Ref<'_>,
    run: &mut QueryRun,
) -> Result<bool> {
    Ok(match operator {
        BinaryOperator::Equal => equal(left, right, run)?,
        BinaryOperator::NotEqual => !equal(left, right, run)?,
        BinaryOperator::Less => compare(left, right, run)? == Ordering::Less,
        BinaryOperator::LessEqual => compare(left, right, run)? != Ordering::Greater,
        BinaryOperator::Greater => compare(left, right, run)? == Ordering::Greater,
        BinaryOperator::GreaterEqual => compare(left, right, run)? != Ordering::Less,
        BinaryOperator::In => contains(left, right, run)?,
        // In ArangoDB, an operand that is no array makes both false.
        BinaryOperator::NotIn => right.as_array().is_some() && !contains(left, right, run)?,
        _ => false,
    })
}

fn contains(element: Ref<'_>, list: Ref<'_>, run: &mut QueryRun) -> Result<bool> {
    let Some(list) = list.as_array() else { return Ok(false) };
    for other in list.iter() {
        run.tick()?;
        if equal(element, other, run)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// From this number of comparisons on, IN looks elements up in a hash set of the right list.
pub(crate) const SET_COMPARISONS_MIN: usize = 4096;

/// Counts the elements of `left` for which `element operator right` is true; stops at `enough`.
pub(super) fn holding(
    operator: BinaryOperator,
    left: ArrayRef<'_>,
    right: &Value,
    enough: usize,
    run: &mut QueryRun,
) -> Result<usize> {
    let others = right.view().as_array().map_or(0, ArrayRef::len);
    let is_in = matches!(operator, BinaryOperator::In | BinaryOperator::NotIn);
    let is_long = left.len().saturating_mul(others) >= SET_COMPARISONS_MIN;
    let before_bytes = run.memory.passing_bytes();
    let set = if is_in && is_long && left.len() > 1 { Some(Set::of(right, run)?) } else { None };
    let mut holding = 0;
    for element in left.iter() {
        if holding >= enough {
            break;
        }
        run.tick()?;
        let holds = match &set {
            Some(set) => set.place(element, run)?.is_some() == (operator == BinaryOperator::In),
            None => compare_by(operator, element, right.view(), run)?,
        };
        holding += usize::from(holds);
    }
    run.memory.free_down_to(before_bytes);
    Ok(holding)
}

/// Computes an arithmetic operation. Operands are cast to numbers; a division by zero, or a result
/// out of range, is null with a warning.
pub(super) fn arithmetic(
    operator: BinaryOperator,
    left: Ref<'_>,
    right: Ref<'_>,
    run: &mut QueryRun,
) -> Result<Value> {
    let (left, right) = (to_number(left), to_number(right));
    if matches!(operator, BinaryOperator::Divide | BinaryOperator::Modulo) && right.is_zero() {
        return run.warn_null(number::DIVISION_BY_ZERO, "division by zero");
    }
    if let (Some(left), Some(right)) = (left.wide(), right.wide()) {
        let result = match operator {
            BinaryOperator::Plus => Some(left + right),
            BinaryOperator::Minus => Some(left - right),
            BinaryOperator::Times => left.checked_mul(right),
            BinaryOperator::Modulo => Some(left % right),
            _ => None,
        };
        if let Some(result) = result {
            return finite(Number::from_wide(result), run);
        }
    }
    let (left, right) = (left.to_double(), right.to_double());
    let result = match operator {
        BinaryOperator::Plus => left + right,
        BinaryOperator::Minus => left - right,
        BinaryOperator::Times => left * right,
        BinaryOperator::Divide => left / right,
        _ => left % right,
    };
    finite(Number::Double(result), run)
}

fn finite(result: Number, run: &mut QueryRun) -> Result<Value> {
    if !result.to_double().is_finite() {
        return run.warn_null(number::NUMBER_OUT_OF_RANGE, "number out of range");
    }
    Ok(Value::number(result))
}

/// The first and the last number of a range, both included; the first may be the greater one.
pub(crate) fn range_bounds(left: &Value, right: &Value) -> (i64, i64) {
    (to_number(left.view()).to_int(), to_number(right.view()).to_int())
}

/// The array of all elements of a range.
pub(super) fn range(left: &Value, right: &Value, run: &mut QueryRun) -> Result<Value> {
    let (first, last) = range_bounds(left, right);
    whole_range(run, first, last)
}

/// True if `text` matches `pattern`: `%` matches any text, `_` any character, and `\` escapes one
/// of
/// `%`, `_` and `\`. A `\` before any other character is itself.
pub(crate) fn like(
    text: &str,
    pattern: &str,
    ignores_case: bool,
    run: &mut QueryRun,
) -> Result<bool> {
    if ignores_case {
        let (text, pattern) = (without_case(run, text)?, without_case(run, pattern)?);
        return like(&text, &pattern, false, run);
    }
    let mut parts = room_for(run, pattern.len())?;
    run.tick_by(1 + pattern.len() / STEP_BYTES)?;
    each_part(pattern, &mut |part| parts.push(part));
    like_parts(text, &parts, run)
}

/// The literal prefix of all texts that match `pattern`.
pub(crate) fn like_prefix(pattern: &str) -> String {
    let own = |part| match part {
        PatternPart::Is(character) => Some(character),
        PatternPart::Many | PatternPart::One => None,
    };
    let mut parts = Vec::new();
    each_part(pattern, &mut |part| parts.push(part));
    parts.into_iter().map_while(own).collect()
}

/// Calls `add` with the parts of a pattern, each of which has at least one byte of it.
fn each_part(pattern: &str, add: &mut dyn FnMut(PatternPart)) {
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        let part = match character {
            '%' => PatternPart::Many,
            '_' => PatternPart::One,
            '\\' => match characters.next() {
                Some(escaped @ ('%' | '_' | '\\')) => PatternPart::Is(escaped),
                Some(other) => {
                    add(PatternPart::Is('\\'));
                    PatternPart::Is(other)
                }
                None => PatternPart::Is('\\'),
            },
            other => PatternPart::Is(other),
        };
        add(part);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum PatternPart {
    Many,
    One,
    Is(char),
}

/// Matches a text. It backtracks only to the last `%`, so that the time is at most the product of
/// the lengths.
fn like_parts(text: &str, parts: &[PatternPart], run: &mut QueryRun) -> Result<bool> {
    let (mut rest, mut part) = (text.chars(), 0);
    let mut retry = None;
    while let Some(next) = rest.clone().next() {
        match parts.get(part) {
            Some(PatternPart::Many) => {
                part += 1;
                retry = Some((part, rest.clone()));
                continue;
            }
            Some(PatternPart::One) => {}
            Some(PatternPart::Is(character)) if *character == next => {}
            _ => {
                let Some((after, from)) = &mut retry else { return Ok(false) };
                run.tick()?;
                from.next();
                (part, rest) = (*after, from.clone());
                continue;
            }
        }
        run.tick()?;
        rest.next();
        part += 1;
    }
    Ok(parts[part..].iter().all(|part| *part == PatternPart::Many))
}

#[cfg(test)]
mod tests {
    use super::{like, like_prefix};
    use crate::functions::tests::run;

    #[test]
    fn patterns_match_all_of_the_text() {
        for (text, pattern, expected) in [
            ("carrot", "ca%t", true),
            ("cart", "ca_t", true),
            ("carrot", "ca_t", false),
            ("a%b", "a\\%b", true),
            ("axb", "a\\%b", false),
            ("", "%", true),
            ("aaab", "%a%b", true),
            ("a\nb", "a_b", true),
            ("abc", "", false),
        ] {
            let found = like(text, pattern, false, &mut run());
            assert_eq!(found, Ok(expected), "{text} {pattern}");
        }
        assert_eq!(like("FoO bAr BaZ", "fOo%bAz", true, &mut run()), Ok(true));
    }

    #[test]
    fn the_literal_prefix_of_a_pattern_is_found() {
        for (pattern, expected) in [
            ("ab%c", "ab"),
            ("ab_", "ab"),
            ("ab", "ab"),
            ("%ab", ""),
            (r"a\%b\_\\%", r"a%b_\"),
            (r"a\b%", r"a\b"),
            (r"a\", r"a\"),
        ] {
            assert_eq!(like_prefix(pattern), expected, "{pattern}");
        }
    }
}
