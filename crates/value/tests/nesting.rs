//! Regression tests of deeply nested values, which overflowed the stack. No value deeper than the
//! limit is made any more, and deeper documents of older stores can be processed safely.

#![allow(clippy::unwrap_used, reason = "what fails here is a test that fails")]

use std::cmp::Ordering;

use pellucid_value::json::parse_value;
use pellucid_value::packed::{self, Builder, DEPTH_MAX};
use pellucid_value::{
    DuplicateRule, LimitError, MergeOptions, ObjectBuilder, Value, compare, equal, index_key, json,
    merge_into, to_number, to_text,
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
fn deep_documents_are_read() {
    on_a_small_stack(|| {
        for is_object in [false, true] {
            let document = nested(LEVELS, is_object);
            let value = Value::open(&document).unwrap();
            assert_eq!(value.depth(), DEPTH_MAX + 1);
            let text = value.to_json();
            let (begin, end) = if is_object { ("{\"a\":", "}") } else { ("[", "]") };
            let (inner, levels) = (if is_object { "{}" } else { "[]" }, LEVELS - 1);
            assert_eq!(text, begin.repeat(levels) + inner + &end.repeat(levels));
            assert_eq!(to_text(value.view()), text);
            assert_eq!(packed::json_length(&document), None);
            let mut key = Vec::new();
            index_key::encode(value.view(), &mut key);
            assert!(key.len() > LEVELS);
            assert!(index_key::decode(&key).is_none());
            let deeper = Value::open(&nested(LEVELS + 1, is_object)).unwrap();
            assert!(equal(value.view(), value.clone().view()));
            // A value with an element is above one without it.
            assert_eq!(compare(value.view(), deeper.view()), Ordering::Less);
            assert_eq!(to_number(value.view()).to_double(), 0.0);
            assert_eq!(value.nth(0).depth(), if is_object { 0 } else { DEPTH_MAX + 1 });
            assert!(value.size_bytes() > document.len());
            let mut parts = value.elements();
            parts.extend(value.each_member(true).map(|(_, member)| member));
            parts.iter_mut().for_each(Value::let_go);
            assert_eq!(parts.len(), 1);
        }
    });
}

#[test]
fn deep_documents_become_no_part_of_anything() {
    on_a_small_stack(|| {
        let document = Value::open(&nested(LEVELS, true)).unwrap();
        let too_deep = Err(LimitError::Depth { document: None });
        assert_eq!(Value::array(vec![document.clone()]), too_deep);
        let mut object = ObjectBuilder::new();
        object.insert("d", document.clone());
        assert_eq!(object.finish(), too_deep);
        let refused = Err(LimitError::Depth { document: None });
        assert_eq!(document.to_packed(), refused);
        for keep_null in [false, true] {
            let mut builder = Builder::new();
            builder.begin_object();
            let object = document.view().as_object().unwrap();
            let options = MergeOptions { keep_null, merge_objects: true };
            merge_into(&mut builder, object, object, options, &|_| false);
            builder.end();
            assert_eq!(builder.finish(), refused);
        }
        // Inserted members add no level.
        let object = document.view().as_object().unwrap();
        assert!(packed::with_front(&[("_key", ["k", ""])], object, |_| false).is_some());
    });
}

/// The error names the stored document that is too deep.
#[test]
fn the_document_that_is_too_deep_is_named() {
    let id = ["_id", "c/k"].map(|text| [&[64 + text.len() as u8], text.as_bytes()].concat());
    let inner = &nested(DEPTH_MAX, false)[1..];
    let members = [&id.concat()[..], &[64 + 1, b'a'], inner].concat();
    let length = 9 + members.len() + 2 * 4;
    let mut document = vec![packed::FORMAT, 26];
    document.extend_from_slice(&(length as u32).to_le_bytes());
    document.extend_from_slice(&2_u32.to_le_bytes());
    document.extend_from_slice(&members);
    for place in [9, 9 + id.concat().len() as u32] {
        document.extend_from_slice(&place.to_le_bytes());
    }
    let value = Value::open(&document).unwrap();
    assert_eq!(value.attribute("_id").as_str(), Some("c/k"));
    let over = Value::array(vec![value]).unwrap_err();
    assert!(over.to_string().ends_with("as document c/k does"), "{over}");
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
        let too_deep = Err(LimitError::Depth { document: None });
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
