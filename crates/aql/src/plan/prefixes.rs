//! Ranges of an index for conditions on the prefix of a string.
//!
//! Strings in an index are in byte order, which in UTF-8 is the order of their characters. So all
//! strings with one prefix are adjacent, and the end of their range is the prefix with its last
//! character incremented. The condition itself is checked again for each document that is found.

use std::sync::Arc;

use pellucid_value::Value;

use crate::IndexKind;
use crate::evaluate::like_prefix;
use crate::parse::ast::BinaryOperator;
use crate::tree::{Code, IndexAccess};

/// Sets missing bounds of the next field of an index from a condition on the prefix of a string.
/// Returns true if there is such a condition.
pub(super) fn bound(filter: &[Code], field: &[String], access: &mut IndexAccess) -> bool {
    // Keys and the ends of edges are always strings.
    let is_text = matches!(access.index.kind, IndexKind::Primary | IndexKind::Edge);
    let prefix = filter.iter().find_map(|code| {
        let (own, prefix, casts) = prefix_of(code)?;
        let Code::Path(slot, names) = own else { return None };
        let fits = *slot == access.slot && is_same(names, field) && !prefix.is_empty();
        (fits && (!casts || is_text || !may_begin_others(&prefix))).then_some(prefix)
    });
    let Some(prefix) = prefix else { return false };
    let constant = |value| Code::Constant(value);
    access.high.get_or_insert_with(|| (constant(end_of(&prefix)), false));
    access.low.get_or_insert_with(|| (constant(Value::from(prefix)), true));
    true
}

/// True if a path is that of a field of an index.
pub(super) fn is_same(names: &[Arc<str>], field: &[String]) -> bool {
    names.iter().map(|name| &**name).eq(field.iter().map(String::as_str))
}

/// Splits a condition on a known prefix: the expression with the string, the prefix, and true if
/// values of other types are cast to strings.
fn prefix_of(code: &Code) -> Option<(&Code, String, bool)> {
    let text = |code: &Code| code.constant().and_then(Value::as_str).map(str::to_owned);
    let pattern = |code: &Code| text(code).map(|pattern| like_prefix(&pattern));
    match code {
        Code::Binary(BinaryOperator::Like, operands) => {
            Some((&operands.0, pattern(&operands.1)?, true))
        }
        Code::Call(function, arguments) => match (function.name, &arguments[..]) {
            ("STARTS_WITH", [own, prefix]) => Some((own, text(prefix)?, false)),
            ("LIKE", [own, like]) => Some((own, pattern(like)?, true)),
            ("LIKE", [own, like, Code::Constant(ignores_case)]) if !ignores_case.is_true() => {
                Some((own, pattern(like)?, true))
            }
            _ => None,
        },
        _ => None,
    }
}

/// True if the string to which a value of another type is cast may have this prefix.
fn may_begin_others(prefix: &str) -> bool {
    ["true", "false"].iter().any(|word| word.starts_with(prefix))
        || prefix.starts_with(['[', '{'])
        || may_begin_number(prefix)
}

fn may_begin_number(prefix: &str) -> bool {
    let mut before = None;
    prefix.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && prefix.chars().all(|character| {
            let after = before.replace(character);
            match character {
                '0'..='9' | '.' | 'e' | 'E' => true,
                '-' | '+' => matches!(after, None | Some('e' | 'E')),
                _ => false,
            }
        })
}

/// The least value above all strings that begin with `prefix`.
fn end_of(prefix: &str) -> Value {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        let next = match last {
            // The code points between these two are surrogates, which are no characters.
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Value::from(end);
        }
    }
    // Arrays are above all strings.
    Value::array(Vec::new()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_above_all_its_strings() {
        for (prefix, expected) in [
            ("abc", "\"abd\""),
            ("a\u{7f}", "\"a\u{80}\""),
            ("\u{d7ff}", "\"\u{e000}\""),
            ("a\u{10ffff}", "\"b\""),
            ("\u{10ffff}\u{10ffff}", "[]"),
        ] {
            assert_eq!(end_of(prefix).to_json(), expected, "{prefix}");
        }
    }

    #[test]
    fn prefixes_of_cast_values_are_recognized() {
        for prefix in ["1", "-", "-2.5", "1e-7", "2024", "tr", "true", "f", "[", "{\"a", "[1,"] {
            assert!(may_begin_others(prefix), "{prefix}");
        }
        for prefix in ["a", "e", "E-1", "2024-", "1 ", "truth", "+49", "T", "\"", "0x", "ü"] {
            assert!(!may_begin_others(prefix), "{prefix}");
        }
    }
}
