//! The query parameters of a URL. The first byte chooses: the bytes as they are, or
//! percent-encoded, where some bytes are encoded without need.

// The file of the server without the server, which would take long to compile.
#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../crates/server/src/query.rs"]
mod parameters;

use std::borrow::Cow;

use parameters::parameter;

/// Percent-encodes the bytes that need it, and all bytes with the same lowest three bits as `whim`.
fn encode(bytes: &[u8], whim: u8) -> String {
    let mut text = String::new();
    for byte in bytes {
        let plain = byte.is_ascii_graphic() && !b"%&".contains(byte) && byte & 7 != whim & 7;
        if plain {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    text
}

pub(crate) fn fuzz(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    if choice & 1 == 0 {
        let Ok(query) = std::str::from_utf8(bytes) else { return };
        if let Ok(Some(value)) = parameter(Some(query), "id") {
            assert!(value.len() <= query.len() && query.contains("id"));
        }
    } else {
        let query = format!("x=1&id={}&y", encode(bytes, choice >> 1));
        assert_eq!(parameter(Some(&query), "id"), Ok(Some(Cow::Borrowed(bytes))));
    }
}
