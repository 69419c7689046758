//! JSON text. The result of parsing must be a valid packed document that round-trips through text.

use pellucid_value::json::parse_packed;
use pellucid_value::packed::check;
use pellucid_value::{DuplicateRule, Value};

pub(crate) fn fuzz(data: &[u8]) {
    let Ok(document) = parse_packed(data, DuplicateRule::Refuse) else {
        if let Ok(document) = parse_packed(data, DuplicateRule::First) {
            assert!(check(&document));
        }
        return;
    };
    assert!(check(&document));
    let value = Value::open(&document).expect("a whole document opens");
    let text = value.to_json();
    let again =
        parse_packed(text.as_bytes(), DuplicateRule::Refuse).expect("what is written is read");
    let again = Value::open(&again).expect("a whole document opens");
    assert_eq!(again.to_json(), text);
    assert!(again == value);
}
