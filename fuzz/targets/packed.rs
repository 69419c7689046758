//! Packed documents. Damaged ones must be read without a panic; valid ones must round-trip through
//! the builder and through index keys.

use pellucid_value::packed::{Builder, check, open};
use pellucid_value::{Value, equal, index_key};

pub(crate) fn fuzz(data: &[u8]) {
    if let Some((decoded, taken)) = index_key::decode(data) {
        let mut key = Vec::new();
        index_key::encode(decoded.value.view(), &mut key);
        let (again, _) = index_key::decode(&key).expect("an encoding decodes");
        assert!(taken <= data.len() && again.value == decoded.value);
    }
    let Ok(view) = open(data) else { return };
    let text = pellucid_value::json::to_string(view);
    if !check(data) {
        return;
    }
    let mut builder = Builder::new();
    builder.value(view.to_value().view());
    let built = builder.finish().expect("a whole document is within the limits");
    let built = Value::open(&built).expect("a whole document opens");
    assert!(equal(built.view(), view));
    assert_eq!(built.to_json(), text);
    let mut key = Vec::new();
    index_key::encode(view, &mut key);
    let (decoded, taken) = index_key::decode(&key).expect("an encoding decodes");
    assert!(taken == key.len() && equal(decoded.value.view(), view));
}
