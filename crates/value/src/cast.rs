//! Casts between types by AQL's rules. They never fail.

use crate::{Number, Ref, json};

/// Casts a value to a number. A boolean is 0 or 1, a string is the number that it spells, and an
/// array with one element is that element's number. All other values, and strings that spell no
/// number, are 0.
#[must_use]
pub fn to_number(mut value: Ref<'_>) -> Number {
    while let Ref::Array(array) = value
        && array.len() == 1
    {
        value = array.get(0).unwrap_or(Ref::Null);
    }
    match value {
        Ref::Bool(value) => Number::Int(i64::from(value)),
        Ref::Number(number) => number,
        Ref::String(text) => number_of_text(text).unwrap_or(Number::Int(0)),
        Ref::Null | Ref::Array(_) | Ref::Object(_) => Number::Int(0),
    }
}

/// The number that `text` spells, apart from white space around it; `None` if it spells none.
fn number_of_text(text: &str) -> Option<Number> {
    let text = text.trim_matches(|character: char| character.is_ascii_whitespace());
    if let Ok(value) = text.parse::<i64>() {
        return Some(Number::Int(value));
    }
    if let Ok(value) = text.parse::<u64>() {
        return Some(Number::Uint(value));
    }
    // Rust also reads "inf" and "nan", which are no numbers here.
    let spells = |character: char| character.is_ascii_digit() || "+-.eE".contains(character);
    let value = text.parse::<f64>().ok().filter(|_| text.chars().all(spells))?;
    value.is_finite().then_some(Number::Double(value))
}

/// Casts a value to a string: null is empty, all other values but strings are their JSON.
#[must_use]
pub fn to_text(value: Ref<'_>) -> String {
    match value {
        Ref::Null => String::new(),
        Ref::String(text) => text.to_owned(),
        _ => json::to_string(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DuplicateRule, Value};

    fn number(json: &str) -> String {
        let value = json::parse_value(json.as_bytes(), DuplicateRule::Refuse).unwrap();
        Value::number(to_number(value.view())).to_json()
    }

    #[test]
    fn everything_has_a_number() {
        for (json, expected) in [
            ("null", "0"),
            ("true", "1"),
            ("\" 12 \"", "12"),
            ("\"-1.5e2\"", "-150"),
            ("\"1x\"", "0"),
            ("\"inf\"", "0"),
            ("\"\"", "0"),
            ("[]", "0"),
            ("[[\"3\"]]", "3"),
            ("[1,2]", "0"),
            ("{\"a\":1}", "0"),
            ("\"18446744073709551615\"", "18446744073709551615"),
        ] {
            assert_eq!(number(json), expected, "{json}");
        }
    }

    #[test]
    fn everything_has_a_text() {
        for (json, expected) in
            [("null", ""), ("\"a\"", "a"), ("1.50", "1.5"), ("[1,\"a\"]", "[1,\"a\"]")]
        {
            let value = json::parse_value(json.as_bytes(), DuplicateRule::Refuse).unwrap();
            assert_eq!(to_text(value.view()), expected);
        }
    }
}
