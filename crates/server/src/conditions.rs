//! Conditional requests (RFC 9110, section 13). An entry's ETag is its sequence number in quotes.

use pellucid_http::Request;
use pellucid_store::{Condition, Head};

/// What a GET or HEAD with conditions is to answer instead of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Proceed,
    NotModified,
    PreconditionFailed,
}

/// The conditions of a read, as its headers have them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadConditions<'a> {
    if_match: Option<&'a [u8]>,
    if_none_match: Option<&'a [u8]>,
}

impl<'a> ReadConditions<'a> {
    pub(crate) fn of(request: &Request<'a>) -> ReadConditions<'a> {
        ReadConditions {
            if_match: request.header("if-match"),
            if_none_match: request.header("if-none-match"),
        }
    }

    /// Judges the conditions on what was found.
    pub(crate) fn judge(&self, found: Option<&Head>) -> Verdict {
        let sequence = found.map(|head| head.sequence);
        if self.if_match.is_some_and(|list| !matches_any(list, sequence, false)) {
            return Verdict::PreconditionFailed;
        }
        match self.if_none_match {
            Some(list) if matches_any(list, sequence, true) => Verdict::NotModified,
            _ => Verdict::Proceed,
        }
    }

    /// Whether there is none.
    pub(crate) fn are_none(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none()
    }

    /// A copy that outlives the request, for a read that is answered later.
    pub(crate) fn kept(&self) -> KeptConditions {
        KeptConditions {
            if_match: self.if_match.map(<[u8]>::to_vec),
            if_none_match: self.if_none_match.map(<[u8]>::to_vec),
        }
    }
}

/// See [`ReadConditions::kept`].
pub(crate) struct KeptConditions {
    if_match: Option<Vec<u8>>,
    if_none_match: Option<Vec<u8>>,
}

impl KeptConditions {
    pub(crate) fn judge(&self, found: Option<&Head>) -> Verdict {
        let conditions = ReadConditions {
            if_match: self.if_match.as_deref(),
            if_none_match: self.if_none_match.as_deref(),
        };
        conditions.judge(found)
    }
}

/// The condition of a write.
///
/// # Errors
/// If the headers ask for what a store cannot judge in one step; the text says what it can.
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

fn matches_any(list: &[u8], sequence: Option<u64>, weakly: bool) -> bool {
    let Some(sequence) = sequence else { return false };
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|tag| {
        let tag = if weakly { tag.strip_prefix(b"W/").unwrap_or(tag) } else { tag };
        tag == b"*" || unquoted(tag).and_then(sequence_of) == Some(sequence)
    })
}

fn unquoted(tag: &[u8]) -> Option<&[u8]> {
    let inner = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (!inner.contains(&b'"')).then_some(inner)
}

/// The sequence number that an ETag of ours stands for; nothing for a tag that we never gave.
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
        with(headers, |request| {
            let conditions = ReadConditions::of(request);
            let verdict = conditions.judge(head.as_ref());
            assert_eq!(conditions.kept().judge(head.as_ref()), verdict);
            verdict
        })
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
