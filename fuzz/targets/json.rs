//! JSON text. The result of parsing must be a valid packed document that round-trips through text.

use pellucid_value::json::{Limits, parse_packed};
use pellucid_value::packed::check;
use pellucid_value::{DuplicateRule, Value};

pub(crate) fn fuzz(data: &[u8]) {
    let Ok(document) = parse_packed(data, Limits::default()) else {
        let limits = Limits { duplicates: DuplicateRule::First, ..Limits::default() };
        if let Ok(document) = parse_packed(data, limits) {
            assert_eq!(check(&document), Ok(()));
        }
        return;
    };
    assert_eq!(check(&document), Ok(()));
    let value = Value::open(&document).expect("a whole document opens");
    let text = value.to_json();
    let again = parse_packed(text.as_bytes(), Limits::default()).expect("what is written is read");
    let again = Value::open(&again).expect("a whole document opens");
    assert_eq!(again.to_json(), text);
    assert!(again == value);
}
