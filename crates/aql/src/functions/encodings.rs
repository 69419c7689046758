//! Other ways to write strings and numbers.

use std::net::Ipv4Addr;

use pellucid_value::{Kind, Value, json, to_number};

use super::strings::text;
use super::{Function, wrong};
use crate::QueryError;
use crate::run::Run;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("TO_HEX", 1, 1, |_, arguments| {
        Ok(hexadecimal(text(&arguments[0]).as_bytes()).into())
    }),
    Function::pure("TO_BASE64", 1, 1, |_, arguments| {
        Ok(base64(text(&arguments[0]).as_bytes()).into())
    }),
    Function::pure("ENCODE_URI_COMPONENT", 1, 1, |_, arguments| {
        Ok(uri_component(&text(&arguments[0])).into())
    }),
    Function::pure("JSON_STRINGIFY", 1, 1, |_, arguments| Ok(arguments[0].to_json().into())),
    Function::pure("JSON_PARSE", 1, 1, json_parse),
    Function::pure("IPV4_FROM_NUMBER", 1, 1, ipv4_from_number),
    Function::pure("IPV4_TO_NUMBER", 1, 1, ipv4_to_number),
    Function::pure("IS_IPV4", 1, 1, |_, arguments| Ok(ipv4(&arguments[0]).is_some().into())),
];

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |place: usize| u32::from(chunk.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            if place <= chunk.len() {
                let digit = (bits >> (18 - 6 * place)) & 63;
                encoded.push(char::from(DIGITS[digit as usize]));
            } else {
                encoded.push('=');
            }
        }
    }
    encoded
}

fn uri_component(own: &str) -> String {
    let mut encoded = String::new();
    for byte in own.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn json_parse(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(own) = arguments[0].as_str() else { return wrong(run, "JSON_PARSE") };
    let limits =
        json::Limits { duplicates: pellucid_value::Duplicates::Last, ..json::Limits::default() };
    match json::parse_value(own.as_bytes(), limits) {
        Ok(value) => Ok(value),
        Err(_) => wrong(run, "JSON_PARSE"),
    }
}

fn ipv4_from_number(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let number = to_number(arguments[0].view()).exact_whole();
    match number.and_then(|number| u32::try_from(number).ok()) {
        Some(number) if arguments[0].kind() == Kind::Number => {
            Ok(Ipv4Addr::from_bits(number).to_string().into())
        }
        _ => wrong(run, "IPV4_FROM_NUMBER"),
    }
}

fn ipv4(value: &Value) -> Option<Ipv4Addr> {
    value.as_str()?.parse().ok()
}

fn ipv4_to_number(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    match ipv4(&arguments[0]) {
        Some(address) => Ok(Value::Int(i64::from(address.to_bits()))),
        None => wrong(run, "IPV4_TO_NUMBER"),
    }
}
