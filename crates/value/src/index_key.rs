//! The order-preserving encoding of values in the keys of indexes: the byte order of the encodings
//! is the order of the values.
//!
//! Equal values have equal encodings even if they are written differently: 1 and 1.0, `[1]` and
//! `[1,null]`. No encoding is a prefix of another one, so that the concatenated encodings of
//! several fields compare field by field. An encoding does not tell how the value was written.
//! Where [`DecodedValue::is_exact`] is false, only the document tells that.
//!
//! The bytes are in docs/format.md.

use crate::{Number, ObjectBuilder, Ref, Value, packed};

const NULL: u8 = 16;
const FALSE: u8 = 32;
const TRUE: u8 = 33;
const NUMBER: u8 = 48;
const STRING: u8 = 64;
const ARRAY: u8 = 80;
const OBJECT: u8 = 96;
const END: u8 = 0;
const MEMBER: u8 = 1;

/// A byte that is greater than the first byte of every encoding.
pub const ABOVE_ALL: u8 = 0xff;

/// 2^53. From here on, there are whole numbers between neighbouring doubles.
const WIDE: f64 = 9_007_199_254_740_992.0;

/// A decoded value.
#[derive(Clone, Debug)]
pub struct DecodedValue {
    /// The value, or one that is equal to it.
    pub value: Value,
    /// True if its JSON is certainly the same as that of the encoded value.
    pub is_exact: bool,
}

/// Appends the encoding of `value`.
pub fn encode(value: Ref<'_>, out: &mut Vec<u8>) {
    encode_parts(value, 0, out);
}

/// As [`encode`], for a value that has `depth` levels around it. Nulls at the end of an array and
/// anywhere in an object are left out, because they make no difference to the order. Only damaged
/// bytes are deeper than the limit; they are null there, as other damage is.
fn encode_parts(value: Ref<'_>, depth: usize, out: &mut Vec<u8>) {
    match value {
        Ref::Null => out.push(NULL),
        Ref::Bool(false) => out.push(FALSE),
        Ref::Bool(true) => out.push(TRUE),
        Ref::Number(number) => encode_number(number, out),
        Ref::String(text) => {
            out.push(STRING);
            encode_text(text, 0, out);
        }
        Ref::Array(_) | Ref::Object(_) if depth >= packed::DEPTH_MAX => out.push(NULL),
        Ref::Array(array) => {
            out.push(ARRAY);
            let mut nulls = 0;
            for element in array.iter() {
                if matches!(element, Ref::Null) {
                    nulls += 1;
                    continue;
                }
                out.extend(std::iter::repeat_n(NULL, std::mem::take(&mut nulls)));
                encode_parts(element, depth + 1, out);
            }
            out.push(END);
        }
        Ref::Object(object) => {
            out.push(OBJECT);
            for (name, member) in object.sorted() {
                if matches!(member, Ref::Null) {
                    continue;
                }
                out.push(MEMBER);
                // An object with a smaller name is the greater one, because the other one has null
                // there. So the bytes of the name are inverted.
                encode_text(name, 0xff, out);
                encode_parts(member, depth + 1, out);
            }
            out.push(END);
        }
    }
}

fn encode_number(number: Number, out: &mut Vec<u8>) {
    out.push(NUMBER);
    let (double, above) = match number {
        Number::Int(value) => split(i128::from(value)),
        Number::Uint(value) => split(i128::from(value)),
        // This turns -0.0 into 0.0.
        Number::Double(value) => (value + 0.0, 0),
    };
    let bits = double.to_bits();
    let ordered = if double.is_sign_negative() { !bits } else { bits ^ (1 << 63) };
    out.extend_from_slice(&ordered.to_be_bytes());
    if double.abs() >= WIDE {
        out.extend_from_slice(&above.to_be_bytes());
    }
}

/// The greatest double that is not above `whole`, and the difference.
fn split(whole: i128) -> (f64, u16) {
    let nearest = whole as f64;
    let double = if nearest as i128 > whole { nearest.next_down() } else { nearest };
    // Neighbouring doubles below 2^64 are at most 2^11 apart.
    (double, (whole - double as i128) as u16)
}

/// Appends text with all its bytes combined with `turn` by exclusive or: 0 keeps the order of
/// texts, 0xff reverses it.
fn encode_text(text: &str, turn: u8, out: &mut Vec<u8>) {
    if turn == 0 && !text.as_bytes().contains(&0) {
        // The fast path for nearly all texts, which need no escapes.
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(&[0, 1]);
        return;
    }
    for byte in text.bytes() {
        out.push(byte ^ turn);
        if byte == 0 {
            out.push(0xff ^ turn);
        }
    }
    out.extend_from_slice(&[turn, 1 ^ turn]);
}

/// Decodes the value at the front of `bytes`. Returns it with the length of its encoding; `None` if
/// the bytes are no encoding.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(DecodedValue, usize)> {
    let mut at = 0;
    let decoded = decode_at(bytes, &mut at, 0)?;
    Some((decoded, at))
}

fn take(bytes: &[u8], at: &mut usize) -> Option<u8> {
    let byte = *bytes.get(*at)?;
    *at += 1;
    Some(byte)
}

fn decode_at(bytes: &[u8], at: &mut usize, depth: usize) -> Option<DecodedValue> {
    if depth > packed::DEPTH_MAX {
        return None;
    }
    let exact = |value| Some(DecodedValue { value, is_exact: true });
    match take(bytes, at)? {
        NULL => exact(Value::Null),
        FALSE => exact(Value::Bool(false)),
        TRUE => exact(Value::Bool(true)),
        NUMBER => decode_number(bytes, at),
        STRING => exact(Value::from(decode_text(bytes, at, 0)?)),
        ARRAY => {
            let mut elements = Vec::new();
            while *bytes.get(*at)? != END {
                elements.push(decode_at(bytes, at, depth + 1)?.value);
            }
            *at += 1;
            Some(DecodedValue { value: Value::array(elements).ok()?, is_exact: false })
        }
        OBJECT => {
            let mut object = ObjectBuilder::new();
            while take(bytes, at)? == MEMBER {
                let name = decode_text(bytes, at, 0xff)?;
                object.insert(name, decode_at(bytes, at, depth + 1)?.value);
            }
            Some(DecodedValue { value: object.finish().ok()?, is_exact: false })
        }
        _ => None,
    }
}

fn decode_number(bytes: &[u8], at: &mut usize) -> Option<DecodedValue> {
    let ordered = u64::from_be_bytes(*bytes.get(*at..)?.first_chunk()?);
    *at += 8;
    let bits = if ordered >> 63 == 1 { ordered ^ (1 << 63) } else { !ordered };
    let double = f64::from_bits(bits);
    let mut above = 0;
    if double.abs() >= WIDE {
        above = u16::from_be_bytes(*bytes.get(*at..)?.first_chunk()?);
        *at += 2;
    }
    let value = match Number::Double(double).exact_whole() {
        Some(whole) => Value::number(Number::from_wide(whole + i128::from(above))),
        None if double.is_nan() => return None,
        None => Value::from(double),
    };
    Some(DecodedValue { value, is_exact: double.abs() < WIDE })
}

fn decode_text(bytes: &[u8], at: &mut usize, turn: u8) -> Option<String> {
    let mut text = Vec::new();
    loop {
        let byte = take(bytes, at)? ^ turn;
        if byte != 0 {
            text.push(byte);
            continue;
        }
        match take(bytes, at)? ^ turn {
            0xff => text.push(0),
            1 => return String::from_utf8(text).ok(),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{ascending, values};
    use crate::{compare, equal};
    use proptest::prelude::*;

    fn encoded(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value.view(), &mut out);
        out
    }

    #[test]
    fn the_samples_keep_their_order() {
        let samples: Vec<_> = ascending().iter().map(encoded).collect();
        assert!(samples.windows(2).all(|pair| pair[0] < pair[1]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn bytes_order_as_values(left in values(), right in values()) {
            let order = compare(left.view(), right.view());
            prop_assert_eq!(encoded(&left).cmp(&encoded(&right)), order);
        }

        #[test]
        fn several_fields_compare_one_by_one(
            left in proptest::collection::vec(values(), 3),
            right in proptest::collection::vec(values(), 3),
        ) {
            let all = |fields: &[Value]| fields.iter().flat_map(encoded).collect::<Vec<_>>();
            let orders = left.iter().zip(&right).map(|(a, b)| compare(a.view(), b.view()));
            let order = orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
            prop_assert_eq!(all(&left).cmp(&all(&right)), order);
        }

        #[test]
        fn values_round_trip(value in values(), behind in any::<u8>()) {
            let mut bytes = encoded(&value);
            let length = bytes.len();
            bytes.push(behind);
            let (decoded, taken) = decode(&bytes).unwrap();
            prop_assert_eq!(taken, length);
            prop_assert!(equal(decoded.value.view(), value.view()));
            if decoded.is_exact {
                prop_assert_eq!(decoded.value.to_json(), value.to_json());
            }
        }

        #[test]
        fn any_bytes_decode_safely(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some((_, taken)) = decode(&bytes) {
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
