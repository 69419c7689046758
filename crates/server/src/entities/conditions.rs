//! Conditional requests (RFC 9110, section 13). An entry's ETag is its sequence number in quotes.

use pellucid_http::Request;
use pellucid_store::{Condition, Head};

/// The verdict of the conditions on a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Proceed,
    NotModified,
    PreconditionFailed,
}

/// The conditions of a read.
#[derive(Debug)]
pub(crate) struct ReadConditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

impl ReadConditions {
    #[inline]
    pub(crate) fn of(request: &Request<'_>) -> ReadConditions {
        ReadConditions {
            if_match: request.header("if-match").map(|list| Tags::of(list, false)),
            if_none_match: request.header("if-none-match").map(|list| Tags::of(list, true)),
        }
    }

    /// Judges the conditions on the entry that was found.
    pub(crate) fn judge(&self, found: Option<&Head>) -> Verdict {
        let sequence = found.map(|head| head.sequence);
        if self.if_match.as_ref().is_some_and(|tags| !tags.match_any(sequence)) {
            return Verdict::PreconditionFailed;
        }
        match &self.if_none_match {
            Some(tags) if tags.match_any(sequence) => Verdict::NotModified,
            _ => Verdict::Proceed,
        }
    }
}

/// A list of ETags. Those that are none of ours match nothing, and are left out.
#[derive(Debug, Default)]
struct Tags {
    /// `*` is among them.
    is_any: bool,
    /// The first, as most lists have one; zero is no sequence number.
    first: u64,
    others: Vec<u64>,
}

impl Tags {
    fn of(list: &[u8], weakly: bool) -> Tags {
        let mut tags = Tags::default();
        for tag in list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let tag = if weakly { tag.strip_prefix(b"W/").unwrap_or(tag) } else { tag };
            tags.is_any |= tag == b"*";
            match unquoted(tag).and_then(sequence_of) {
                None => {}
                Some(sequence) if tags.first == 0 => tags.first = sequence,
                Some(sequence) => tags.others.push(sequence),
            }
        }
        tags
    }

    fn match_any(&self, sequence: Option<u64>) -> bool {
        sequence.is_some_and(|sequence| {
            self.is_any || self.first == sequence || self.others.contains(&sequence)
        })
    }
}

/// The condition of a write.
///
/// # Errors
/// If a store cannot judge the headers in one step.
pub(crate) fn condition_of_write(request: &Request<'_>) -> Result<Condition, String> {
    let matching = request.header("if-match").map(<[u8]>::trim_ascii);
    let none_matching = request.header("if-none-match").map(<[u8]>::trim_ascii);
    match (matching, none_matching) {
        (None, None) => Ok(Condition::None),
        (Some(b"*"), None) => Ok(Condition::Present),
        (None, Some(b"*")) => Ok(Condition::Absent),
        // A weak tag never matches strongly, and no entry has the sequence number zero.
        (Some(tag), None) if tag.starts_with(b"W/") => Ok(Condition::Sequence(0)),
        (Some(tag), None) => match unquoted(tag) {
            Some(tag) => Ok(Condition::Sequence(sequence_of(tag).unwrap_or(0))),
            None => Err("If-Match takes `*` or one quoted ETag here".to_owned()),
        },
        (None, Some(_)) => Err("If-None-Match takes only `*` here".to_owned()),
        (Some(_), Some(_)) => Err("If-Match and If-None-Match cannot be combined here".to_owned()),
    }
}

fn unquoted(tag: &[u8]) -> Option<&[u8]> {
    let inner = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (!inner.contains(&b'"')).then_some(inner)
}

/// The sequence number that an ETag of ours stands for; nothing for a tag that is none of ours.
fn sequence_of(tag: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(tag).ok()?;
    let ours = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if ours { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_http::Header;

    fn with<T>(headers: &[(&str, &str)], look: impl FnOnce(&Request<'_>) -> T) -> T {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
        look(&Request { method: "GET", path: "/", query: None, headers: &headers, body: b"" })
    }

    fn read(headers: &[(&str, &str)], sequence: Option<u64>) -> Verdict {
        let head = sequence.map(|sequence| Head { sequence, written_at_ms: 0, value_length: 0 });
        with(headers, |request| ReadConditions::of(request).judge(head.as_ref()))
    }

    #[test]
    fn reads() {
        use Verdict::{NotModified, PreconditionFailed, Proceed};
        assert_eq!(read(&[], Some(7)), Proceed);
        assert_eq!(read(&[("If-None-Match", "\"7\"")], Some(7)), NotModified);
        assert_eq!(read(&[("if-none-match", "W/\"7\"")], Some(7)), NotModified);
        assert_eq!(read(&[("If-None-Match", "\"6\", \"7\"")], Some(7)), NotModified);
        assert_eq!(read(&[("If-None-Match", "*")], Some(7)), NotModified);
        assert_eq!(read(&[("If-None-Match", "*")], None), Proceed);
        assert_eq!(read(&[("If-None-Match", "7")], Some(7)), Proceed);
        assert_eq!(read(&[("If-Match", "\"7\"")], Some(7)), Proceed);
        assert_eq!(read(&[("If-Match", "W/\"7\"")], Some(7)), PreconditionFailed);
        assert_eq!(read(&[("If-Match", "\"07\"")], Some(7)), PreconditionFailed);
        assert_eq!(read(&[("If-Match", "*")], None), PreconditionFailed);
    }

    #[test]
    fn writes() {
        let write = |headers: &[(&str, &str)]| with(headers, condition_of_write);
        assert_eq!(write(&[]), Ok(Condition::None));
        assert_eq!(write(&[("If-Match", "*")]), Ok(Condition::Present));
        assert_eq!(write(&[("If-Match", " \"12\" ")]), Ok(Condition::Sequence(12)));
        assert_eq!(write(&[("If-Match", "\"other\"")]), Ok(Condition::Sequence(0)));
        assert_eq!(write(&[("If-Match", "W/\"12\"")]), Ok(Condition::Sequence(0)));
        assert_eq!(write(&[("If-None-Match", "*")]), Ok(Condition::Absent));
        assert!(write(&[("If-Match", "\"1\", \"2\"")]).is_err());
        assert!(write(&[("If-Match", "12")]).is_err());
        assert!(write(&[("If-None-Match", "\"1\"")]).is_err());
        assert!(write(&[("If-Match", "*"), ("If-None-Match", "*")]).is_err());
    }
}
