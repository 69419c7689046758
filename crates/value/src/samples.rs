//! Values for tests.

use proptest::prelude::*;

use crate::json::parse_value;
use crate::{DuplicateRule, ObjectBuilder, Value};

/// Values in strictly ascending order.
pub(crate) fn ascending() -> Vec<Value> {
    let texts = [
        "null", "false", "true", "-1e300", "-9223372036854775808", "-1.5", "-1", "-0.5", "0",
        "1e-300", "0.5", "1", "9", "9007199254740991", "9007199254740992.0", "9007199254740993",
        "9223372036854775807", "9223372036854775808.0", "9223372036854775809",
        "18446744073709551615", "18446744073709551616", "1e300", "\"\"", "\"\\u0000\"",
        "\"\\u0000a\"", "\"\\u0001\"", "\"1\"", "\"a\"", "\"a\\u0000\"", "\"ab\"", "\"ü\"", "[]",
        "[null,false]", "[false]", "[0]", "[0,1]", "[1]", "[\"a\"]", "[\"a\",\"b\"]", "[\"aa\"]",
        "[[]]", "[[[]]]", "[{}]", "{}", "{\"b\":1}", "{\"b\":1,\"c\":1}", "{\"b\":2}",
        "{\"ab\":1}", "{\"a\":1}", "{\"a\":1,\"b\":1}", "{\"a\":2}", "{\"a\":[]}",
    ];
    let parse = |text: &str| parse_value(text.as_bytes(), DuplicateRule::Refuse).unwrap();
    texts.iter().map(|text| parse(text)).collect()
}

fn scalars() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..3).prop_map(Value::Int),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(|value| Value::number(crate::Number::Uint(value))),
        any::<f64>().prop_map(Value::from),
        // Doubles near large whole numbers, which they round.
        any::<i64>().prop_map(|value| Value::from(value as f64)),
        (-6_i64..6).prop_map(|value| Value::from(value as f64 / 2.0)),
        "[a-c\u{0}ü]{0,3}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

/// Arbitrary values, mostly small ones.
pub(crate) fn values() -> impl Strategy<Value = Value> {
    scalars().prop_recursive(3, 24, 4, |inner| {
        let members = proptest::collection::vec(("[a-c\u{0}]{0,2}", inner.clone()), 0..4);
        prop_oneof![
            proptest::collection::vec(inner, 0..4)
                .prop_map(|elements| Value::array(elements).unwrap()),
            members.prop_map(|members| {
                let mut builder = ObjectBuilder::new();
                members.into_iter().for_each(|(name, value)| builder.insert(name, value));
                builder.finish().unwrap()
            }),
        ]
    })
}
