//! Functions that encode strings and numbers.

use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_value::{DuplicateRule, Value, json};

use super::function::{Function, natural, wrong_type};
use super::makers::{TextMaker, text};
use crate::Result;
use crate::query_run::QueryRun;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("TO_HEX", 1, 1, |run, arguments| {
        let own = text(run, &arguments[0])?;
        encoded(run, &own, own.len().saturating_mul(2), hexadecimal)
    }),
    Function::pure("TO_BASE64", 1, 1, |run, arguments| {
        let own = text(run, &arguments[0])?;
        encoded(run, &own, own.len().div_ceil(3).saturating_mul(4), |bytes| STANDARD.encode(bytes))
    }),
    Function::pure("ENCODE_URI_COMPONENT", 1, 1, |run, arguments| {
        let own = text(run, &arguments[0])?;
        let escaped = own.bytes().filter(|byte| !is_plain(*byte)).count();
        encoded(run, &own, own.len().saturating_add(escaped.saturating_mul(2)), uri_component)
    }),
    Function::pure("JSON_STRINGIFY", 1, 1, |run, arguments| {
        let mut made = TextMaker::new(run);
        made.json(arguments[0].view())?;
        made.finish()
    }),
    Function::pure("JSON_PARSE", 1, 1, json_parse),
    Function::pure("IPV4_FROM_NUMBER", 1, 1, ipv4_from_number),
    Function::pure("IPV4_TO_NUMBER", 1, 1, ipv4_to_number),
    Function::pure("IS_IPV4", 1, 1, |_, arguments| Ok(ipv4(&arguments[0]).is_some().into())),
];

/// The bytes that are encoded at a time: a multiple of the three bytes of a base64 group.
const CHUNK_BYTES: usize = 3 * 1024;

/// Encodes a text, chunk by chunk. `length` is the length of the result.
fn encoded(
    run: &mut QueryRun,
    own: &str,
    length: usize,
    encode: fn(&[u8]) -> String,
) -> Result<Value> {
    let mut made = TextMaker::with_room(run, length)?;
    own.as_bytes().chunks(CHUNK_BYTES).try_for_each(|chunk| made.push(&encode(chunk)))?;
    made.finish()
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    bytes.iter().flat_map(digits).map(char::from).collect()
}

/// True if a byte needs no encoding in a component of a URI.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte)
}

fn uri_component(own: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(own.len());
    for byte in own {
        if is_plain(*byte) {
            encoded.push(char::from(*byte));
        } else {
            let digits = [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
            encoded.extend(digits.map(char::from));
        }
    }
    encoded
}

/// The most bytes of the packed form for each byte of a JSON text: `[],` becomes a header of nine
/// bytes and a table entry of four. The factor is doubled because the form is copied once.
const PACKED_BYTES_EACH: usize = 10;

fn json_parse(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(own) = arguments[0].as_str() else { return wrong_type(run, "JSON_PARSE") };
    run.memory.take(own.len().saturating_mul(PACKED_BYTES_EACH))?;
    run.check()?;
    match json::parse_value(own.as_bytes(), DuplicateRule::Last) {
        Ok(value) => Ok(value),
        Err(_) => wrong_type(run, "JSON_PARSE"),
    }
}

fn ipv4_from_number(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    match natural(&arguments[0]).and_then(|number| u32::try_from(number).ok()) {
        Some(number) => Ok(Ipv4Addr::from_bits(number).to_string().into()),
        None => wrong_type(run, "IPV4_FROM_NUMBER"),
    }
}

fn ipv4(value: &Value) -> Option<Ipv4Addr> {
    value.as_str()?.parse().ok()
}

fn ipv4_to_number(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    match ipv4(&arguments[0]) {
        Some(address) => Ok(Value::Int(i64::from(address.to_bits()))),
        None => wrong_type(run, "IPV4_TO_NUMBER"),
    }
}
