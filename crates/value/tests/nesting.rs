//! Regression tests of deeply nested values, which overflowed the stack. No value deeper than the
//! limit is made, and damaged bytes that are deeper can be processed safely.

#![allow(clippy::unwrap_used, reason = "what fails here is a test that fails")]

use std::cmp::Ordering;

use pellucid_value::json::parse_value;
use pellucid_value::packed::{self, Builder, DEPTH_MAX};
use pellucid_value::{
    DuplicateRule, LimitError, MergeOptions, ObjectBuilder, Value, compare, equal, index_key, json,
    merge_into,
};

/// The levels of the deep documents.
const LEVELS: usize = 100_000;
/// The stack size of the tests, which is enough for a recursion of only a few hundred levels.
const STACK_BYTES: usize = 1 << 20;

/// A packed document of `levels` nested arrays, or of nested objects with one member `a`.
fn nested(levels: usize, is_object: bool) -> Vec<u8> {
    let (tag, member): (u8, &[u8]) = if is_object { (24, &[64 + 1, b'a']) } else { (16, &[]) };
    let header = 9 + member.len();
    let length = |level: usize| level * (header + 1) + 9;
    let mut document = vec![packed::FORMAT];
    for level in (0..levels).rev() {
        let count = u32::from(level > 0);
        document.push(tag);
        document.extend_from_slice(&(length(level) as u32).to_le_bytes());
        document.extend_from_slice(&count.to_le_bytes());
        document.extend_from_slice(if level > 0 { member } else { &[] });
    }
    // Each offset table has one entry: its element begins behind the header.
    document.resize(document.len() + levels - 1, 9);
    document
}

/// Runs `look` on a small stack, where a deep recursion would abort the test.
fn on_a_small_stack(look: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(look);
    thread.unwrap().join().unwrap();
}

#[test]
fn the_test_documents_are_valid() {
    for is_object in [false, true] {
        for levels in 1..20 {
            let document = nested(levels, is_object);
            assert!(packed::check(&document));
            assert_eq!(Value::open(&document).unwrap().depth(), levels);
        }
        assert!(packed::check(&nested(DEPTH_MAX, is_object)));
        assert!(!packed::check(&nested(DEPTH_MAX + 1, is_object)));
    }
}

#[test]
fn bytes_deeper_than_the_limit_are_null_there() {
    on_a_small_stack(|| {
        for is_object in [false, true] {
            let document = nested(LEVELS, is_object);
            let value = Value::open(&document).unwrap();
            assert_eq!(value.depth(), DEPTH_MAX + 1);
            let (begin, end) = if is_object { ("{\"a\":", "}") } else { ("[", "]") };
            let text = begin.repeat(DEPTH_MAX) + "null" + &end.repeat(DEPTH_MAX);
            assert_eq!(value.to_json(), text);
            assert_eq!(json::to_string_up_to(value.view(), LEVELS), text);
            assert_eq!(json::length(value.view()), text.len());
            assert_eq!(packed::json_length(&document), None);
            let mut key = Vec::new();
            index_key::encode(value.view(), &mut key);
            assert_eq!(index_key::decode(&key).unwrap().0.value.to_json(), text);
            // The order looks at all levels: a value with an element is above one without it.
            let deeper = Value::open(&nested(LEVELS + 1, is_object)).unwrap();
            assert_eq!(compare(value.view(), deeper.view()), Ordering::Less);
            assert_eq!(Value::array(vec![value.clone()]), Err(LimitError::Depth));
            let Some(object) = value.view().as_object() else { continue };
            let mut builder = Builder::new();
            builder.begin_object();
            merge_into(&mut builder, object, object, MergeOptions::default(), &|_| false);
            builder.end();
            assert_eq!(builder.finish(), Err(LimitError::Depth));
        }
    });
}

/// Regression: values were built to any depth, and each of these operations overflowed the stack.
#[test]
fn nothing_is_built_deeper_than_the_limit() {
    let mut array = Value::array(Vec::new()).unwrap();
    let mut object = ObjectBuilder::new().finish().unwrap();
    for _ in 1..DEPTH_MAX {
        array = Value::array(vec![array]).unwrap();
        let mut around = ObjectBuilder::new();
        around.insert("a", object);
        object = around.finish().unwrap();
    }
    on_a_small_stack(move || {
        let too_deep = Err(LimitError::Depth);
        for mut value in [array, object] {
            assert_eq!(value.depth(), DEPTH_MAX);
            assert_eq!(Value::array(vec![Value::Null, value.clone()]), too_deep);
            let packed = Value::open(&value.to_packed().unwrap()).unwrap();
            assert_eq!(packed.depth(), DEPTH_MAX);
            assert_eq!(Value::array(vec![packed.clone()]), too_deep);
            assert!(equal(packed.view(), value.view()));
            assert_eq!(packed.to_json(), value.to_json());
            let again = parse_value(value.to_json().as_bytes(), DuplicateRule::Refuse).unwrap();
            assert_eq!(again, value);
            let deeper = format!("[{}]", value.to_json());
            assert!(parse_value(deeper.as_bytes(), DuplicateRule::Refuse).is_err());
            let (mut one, mut other) = (Vec::new(), Vec::new());
            index_key::encode(value.view(), &mut one);
            index_key::encode(packed.view(), &mut other);
            assert_eq!(one, other);
            value.let_go();
        }
    });
}

/// Regression: if each level of a value held the next one twice, the time doubled at each level.
/// Forty levels took hours, and their JSON would have been terabytes.
#[test]
fn a_shared_part_counts_each_time_it_occurs() {
    let mut value = Value::from("0123456789");
    let mut levels = 0;
    let over = loop {
        match Value::array(vec![value.clone(), value.clone()]) {
            Ok(twice) => value = twice,
            Err(over) => break over,
        }
        levels += 1;
        assert!(value.size_bytes() > 10 << levels);
    };
    assert_eq!(over, LimitError::Size);
    assert!((20..32).contains(&levels), "{levels}");
    // A value equals itself without a comparison of its parts.
    assert!(equal(value.view(), value.clone().view()));
}

/// Regression: the time for duplicate names was quadratic, hours for 64 MB.
#[test]
fn the_time_for_duplicate_names_is_not_quadratic() {
    let members = (0..200_000).map(|number| format!("\"{}\":{number}", number % 100_000));
    let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
    let begun = std::time::Instant::now();
    for (duplicates, expected) in [(DuplicateRule::First, 7), (DuplicateRule::Last, 100_007)] {
        let document = json::parse_packed(text.as_bytes(), duplicates).unwrap();
        assert!(packed::check(&document));
        let object = Value::open(&document).unwrap();
        assert_eq!(object.attribute("7").to_json(), expected.to_string());
        assert_eq!(object.each_member(false).count(), 100_000);
    }
    assert!(json::parse_packed(text.as_bytes(), DuplicateRule::Refuse).is_err());
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
