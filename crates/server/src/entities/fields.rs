//! Decodes ETags and lifetimes, which stand in the head of a request or in a line of a batch.

use pellucid_http::{Coding, plain_tag};

/// The longest lifetime, in seconds: some three thousand years.
pub(crate) const LIFETIME_SECONDS_MAX: f64 = 1e11;

/// An ETag that this server gave: the sequence number, and the coding of the body.
pub(super) type Tag = (u64, Option<Coding>);

/// The text between the quotes of a tag; `None` if the tag is malformed.
pub(super) fn unquoted(tag: &[u8]) -> Option<&[u8]> {
    let inner = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (!inner.contains(&b'"')).then_some(inner)
}

/// The sequence number in a tag that this server gave, which may be without its quotes.
pub(super) fn sequence_in(tag: &str) -> Option<u64> {
    let tag = tag.as_bytes();
    tag_of(unquoted(tag).unwrap_or(tag)).map(|(sequence, _)| sequence)
}

/// Reads the text between the quotes of a tag; `None` if this server never gave such a tag.
pub(super) fn tag_of(inner: &[u8]) -> Option<Tag> {
    let (plain, coding) = plain_tag(inner);
    let text = std::str::from_utf8(plain).ok()?;
    let ours = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if ours { text.parse().ok().map(|sequence| (sequence, coding)) } else { None }
}

/// Converts seconds to milliseconds, rounded up. `None` means that the text was not a number, which
/// is an error; `name` is the parameter that the error names.
pub(super) fn whole_ms(name: &str, seconds: Option<f64>) -> Result<u64, String> {
    match seconds {
        Some(seconds) if seconds > LIFETIME_SECONDS_MAX => {
            Err(format!("`{name}` is above {LIFETIME_SECONDS_MAX} seconds"))
        }
        Some(seconds) if seconds >= 0.0 => Ok((seconds * 1_000.0).ceil() as u64),
        _ => Err(format!("`{name}` is a number of seconds, as 90 or 0.5")),
    }
}
