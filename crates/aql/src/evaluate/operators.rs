//! Arithmetic, comparison and ranges.

use std::cmp::Ordering;

use pellucid_value::{Number, Ref, Value, compare, equal, to_number};

use super::compute::range_too_long;
use crate::parse::ast::Binary;
use crate::run::Run;
use crate::{QueryError, number};

/// How many elements a range may have that is made in memory.
const RANGE_ELEMENTS_MAX: i64 = 10_000_000;

/// Whether a comparison holds.
pub(crate) fn compare_by(operator: Binary, left: Ref<'_>, right: Ref<'_>) -> bool {
    match operator {
        Binary::Equal => equal(left, right),
        Binary::NotEqual => !equal(left, right),
        Binary::Less => compare(left, right) == Ordering::Less,
        Binary::LessEqual => compare(left, right) != Ordering::Greater,
        Binary::Greater => compare(left, right) == Ordering::Greater,
        Binary::GreaterEqual => compare(left, right) != Ordering::Less,
        Binary::In => contains(left, right),
        Binary::NotIn => !contains(left, right),
        _ => false,
    }
}

fn contains(element: Ref<'_>, list: Ref<'_>) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|other| equal(element, other)))
}

/// Numbers as arithmetic takes them. All else is cast; a division by zero is null with a warning.
pub(super) fn arithmetic(
    operator: Binary,
    left: Ref<'_>,
    right: Ref<'_>,
    run: &mut Run,
) -> Result<Value, QueryError> {
    let (left, right) = (to_number(left), to_number(right));
    if matches!(operator, Binary::Divide | Binary::Modulo) && right.is_zero() {
        return run.warn_null(number::DIVISION_BY_ZERO, "division by zero");
    }
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let result = match operator {
            Binary::Plus => Some(left + right),
            Binary::Minus => Some(left - right),
            Binary::Times => left.checked_mul(right),
            Binary::Modulo => Some(left % right),
            _ => None,
        };
        if let Some(result) = result {
            return finite(Number::from_wide(result), run);
        }
    }
    let (left, right) = (left.to_double(), right.to_double());
    let result = match operator {
        Binary::Plus => left + right,
        Binary::Minus => left - right,
        Binary::Times => left * right,
        Binary::Divide => left / right,
        _ => left % right,
    };
    finite(Number::Double(result), run)
}

/// A number that is whole by its form.
fn whole(number: Number) -> Option<i128> {
    match number {
        Number::Int(value) => Some(i128::from(value)),
        Number::Uint(value) => Some(i128::from(value)),
        Number::Double(_) => None,
    }
}

fn finite(result: Number, run: &mut Run) -> Result<Value, QueryError> {
    if !result.to_double().is_finite() {
        return run.warn_null(number::NUMBER_OUT_OF_RANGE, "number out of range");
    }
    Ok(Value::number(result))
}

/// The bounds of a range: whole, within it, and in whichever order.
pub(crate) fn range_bounds(left: &Value, right: &Value) -> (i64, i64) {
    (to_number(left.view()).to_int(), to_number(right.view()).to_int())
}

/// All elements of a range.
pub(super) fn range(left: &Value, right: &Value) -> Result<Vec<Value>, QueryError> {
    let (first, last) = range_bounds(left, right);
    if first.abs_diff(last) >= RANGE_ELEMENTS_MAX.unsigned_abs() {
        return Err(range_too_long());
    }
    Ok(if first <= last {
        (first..=last).map(Value::Int).collect()
    } else {
        (last..=first).rev().map(Value::Int).collect()
    })
}

/// Whether `text` is like `pattern`: `%` is any text, `_` any character, `\` takes what follows as
/// it is. `tick` is called now and then, and ends it with its error.
pub(crate) fn like(
    text: &str,
    pattern: &str,
    ignores_case: bool,
    tick: &mut dyn FnMut() -> Result<(), QueryError>,
) -> Result<bool, QueryError> {
    let fold = |text: &str| {
        if ignores_case { text.to_lowercase() } else { text.to_owned() }
    };
    let text: Vec<char> = fold(text).chars().collect();
    like_parts(&text, &parts_of(&fold(pattern)), tick)
}

/// What all texts begin with that are like `pattern`.
pub(crate) fn like_prefix(pattern: &str) -> String {
    let own = |part| match part {
        Part::Is(character) => Some(character),
        Part::Many | Part::One => None,
    };
    parts_of(pattern).into_iter().map_while(own).collect()
}

fn parts_of(pattern: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        let part = match character {
            '%' => Part::Many,
            '_' => Part::One,
            '\\' => match characters.next() {
                Some(escaped @ ('%' | '_' | '\\')) => Part::Is(escaped),
                Some(other) => {
                    parts.push(Part::Is('\\'));
                    Part::Is(other)
                }
                None => Part::Is('\\'),
            },
            other => Part::Is(other),
        };
        parts.push(part);
    }
    parts
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Many,
    One,
    Is(char),
}

/// Goes back to the last `%` only, so that the time is at most the product of the lengths.
fn like_parts(
    text: &[char],
    parts: &[Part],
    tick: &mut dyn FnMut() -> Result<(), QueryError>,
) -> Result<bool, QueryError> {
    let (mut at, mut part) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match parts.get(part) {
            Some(Part::Many) => {
                retry = Some((part + 1, at));
                part += 1;
                continue;
            }
            Some(Part::One) => {}
            Some(Part::Is(character)) if *character == text[at] => {}
            _ => {
                let Some((after, from)) = retry else { return Ok(false) };
                tick()?;
                part = after;
                at = from + 1;
                retry = Some((after, at));
                continue;
            }
        }
        at += 1;
        part += 1;
    }
    Ok(parts[part..].iter().all(|part| *part == Part::Many))
}

#[cfg(test)]
mod tests {
    use super::{like, like_prefix};

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
            let found = like(text, pattern, false, &mut || Ok(()));
            assert_eq!(found, Ok(expected), "{text} {pattern}");
        }
        assert_eq!(like("FoO bAr BaZ", "fOo%bAz", true, &mut || Ok(())), Ok(true));
    }

    #[test]
    fn patterns_have_a_beginning() {
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
