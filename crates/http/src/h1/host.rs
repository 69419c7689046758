//! Validates values of the header `Host` (RFC 9110, section 7.2; RFC 3986, section 3.2.2).

/// The text for a client whose `Host` is invalid.
pub(crate) const BAD_HOST: &str = "the header Host is not a host with an optional port";
/// The text for a client whose target names another host than its `Host`.
pub(crate) const OTHER_HOST: &str = "the target and the header Host name different hosts";

/// The characters of a registered name: unreserved ones, the `%` of percent-encoding, and
/// sub-delimiters.
const NAME: [bool; 256] = {
    let mut set = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        set[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'!' | b'$'..=b'.' | b';' | b'=' | b'_' | b'~');
        byte += 1;
    }
    set
};

/// True if the value is a host, with or without a port. An empty value is valid: it is for targets
/// without a host.
#[inline]
pub(crate) fn is_host(value: &[u8]) -> bool {
    let end = value.iter().position(|byte| !NAME[usize::from(*byte)]);
    match end {
        None => true,
        Some(0) if value[0] == b'[' => is_literal(value),
        Some(end) => is_port(&value[end..]),
    }
}

/// True if the value is an address in brackets, with or without a port.
fn is_literal(value: &[u8]) -> bool {
    let Some(end) = value.iter().position(|byte| *byte == b']') else { return false };
    let is_of_address = |byte: &u8| NAME[usize::from(*byte)] || *byte == b':';
    let port = &value[end + 1..];
    end > 1 && value[1..end].iter().all(is_of_address) && (port.is_empty() || is_port(port))
}

/// True for a colon and digits; there may be no digits (RFC 3986, section 3.2.3).
fn is_port(text: &[u8]) -> bool {
    text[0] == b':' && text[1..].iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses_with_or_without_a_port() {
        for host in ["", "a", "a.b-c:80", "a:", "127.0.0.1:8080", "[::1]", "[::1]:8080", "a_b%41"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for other in [
            "a b", "a/b", "a@b", "a:b", "a:80:80", "a?b", "[", "[]", "[::1", "[::1]x", "[a b]", "é",
        ] {
            assert!(!is_host(other.as_bytes()), "{other}");
        }
    }
}
