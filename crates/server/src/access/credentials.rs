//! Parses the header `Authorization` (RFC 7617, RFC 6750). The types have no `Debug`, so that no
//! log can contain credentials by mistake.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The longest header, in bytes.
const HEADER_LENGTH_MAX: usize = 8 * 1_024;

/// The unverified credentials of a caller.
pub(crate) enum Credentials {
    /// A name and a password, or a token in its place.
    Basic { name: String, password: String },
    /// A token alone.
    Bearer(String),
}

impl Credentials {
    /// Parses the value of the header; `None` if it is too long or has no known form.
    pub(crate) fn parse(header: &[u8]) -> Option<Credentials> {
        if header.len() > HEADER_LENGTH_MAX {
            return None;
        }
        let text = std::str::from_utf8(header).ok()?;
        let (scheme, value) = text.trim().split_once(' ')?;
        let value = value.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Credentials::Bearer(value.to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = String::from_utf8(STANDARD.decode(value).ok()?).ok()?;
        let (name, password) = decoded.split_once(':')?;
        Some(Credentials::Basic { name: name.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_splits_at_the_first_colon() {
        let header = format!("bAsIc {}", STANDARD.encode("root:a:b"));
        match Credentials::parse(header.as_bytes()) {
            Some(Credentials::Basic { name, password }) => {
                assert_eq!((name.as_str(), password.as_str()), ("root", "a:b"));
            }
            _ => panic!("it is well-formed"),
        }
    }

    #[test]
    fn a_bearer_token_is_taken_unchanged() {
        let parsed = Credentials::parse(b"bearer v1.abc");
        assert!(matches!(parsed, Some(Credentials::Bearer(token)) if token == "v1.abc"));
    }

    #[test]
    fn any_other_header_has_no_credentials() {
        let long = format!("Bearer {}", "x".repeat(HEADER_LENGTH_MAX));
        for header in ["", "Basic", "Basic !!", "Basic cm9vdA==", "Digest x", long.as_str()] {
            assert!(Credentials::parse(header.as_bytes()).is_none(), "{header}");
        }
        assert!(Credentials::parse(b"Bearer \xff").is_none());
    }
}
