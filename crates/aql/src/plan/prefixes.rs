//! Conditions on what strings begin with, as ranges of an index.
//!
//! Strings lie in indexes in the order of their bytes, which in UTF-8 is that of their characters.
//! So all that begin alike lie side by side, and what follows them is the beginning with its last
//! character one higher. The condition itself is asked again of each document that is found.

use std::sync::Arc;

use pellucid_value::Value;

use crate::IndexKind;
use crate::evaluate::like_prefix;
use crate::parse::ast::Binary;
use crate::tree::{Code, IndexAccess};

/// Bounds the next field of an index, where it has no bounds yet, by a condition on what strings
/// begin with. Returns whether there is one.
pub(super) fn bound(filter: &[Code], field: &[String], access: &mut IndexAccess) -> bool {
    // Keys, and the ends of edges, are never anything but strings.
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

/// True if names lead to a field of an index.
pub(super) fn is_same(names: &[Arc<str>], field: &[String]) -> bool {
    names.iter().map(|name| &**name).eq(field.iter().map(String::as_str))
}

/// The value of which a condition asks that it begins with a known text, and the text. Also whether
/// values that are no strings are asked it, as texts.
fn prefix_of(code: &Code) -> Option<(&Code, String, bool)> {
    let text = |code: &Code| code.constant().and_then(Value::as_str).map(str::to_owned);
    let pattern = |code: &Code| text(code).map(|pattern| like_prefix(&pattern));
    match code {
        Code::Binary(Binary::Like, operands) => Some((&operands.0, pattern(&operands.1)?, true)),
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

/// True if the text of a value that is no string may begin so.
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
            // Between these two lie the halves of pairs of UTF-16, which are no characters.
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Value::from(end);
        }
    }
    // Above all strings come arrays.
    Value::array(Vec::new()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_beginning() {
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
    fn texts_of_other_values_are_known_by_their_beginning() {
        for prefix in ["1", "-", "-2.5", "1e-7", "2024", "tr", "true", "f", "[", "{\"a", "[1,"] {
            assert!(may_begin_others(prefix), "{prefix}");
        }
        for prefix in ["a", "e", "E-1", "2024-", "1 ", "truth", "+49", "T", "\"", "0x", "ü"] {
            assert!(!may_begin_others(prefix), "{prefix}");
        }
    }
}
