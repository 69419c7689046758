//! Conditional requests (RFC 9110, section 13). An entry's ETag is its sequence number in quotes.

use pellucid_http::{Coding, Request};
use pellucid_store::{Condition, Head};

use super::fields::{Tag, tag_of, unquoted};
use crate::reply::{Failure, Verdict};

/// The headers of a request that have conditions on the present entry, or describe the body.
/// Conditions in several lines are one list (RFC 9110, section 5.3).
#[derive(Default)]
pub(crate) struct EntityHeaders {
    // In boxes, because most requests have none, and this value is moved with each request.
    if_match: Option<Box<Tags>>,
    if_none_match: Option<Box<Tags>>,
    /// True if there is a condition on the time of the last write (`If-Unmodified-Since`).
    is_dated: bool,
    /// True if the body is only a part of a value (`Content-Range`).
    is_partial: bool,
    /// True if the body is coded (`Content-Encoding`).
    is_coded: bool,
}

impl EntityHeaders {
    #[inline]
    pub(crate) fn of(request: &Request<'_>) -> EntityHeaders {
        let mut this = EntityHeaders::default();
        for header in request.headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            match header.name.len() {
                8 if is("if-match") => {
                    this.if_match.get_or_insert_default().add(header.value, false);
                }
                13 if is("if-none-match") => {
                    this.if_none_match.get_or_insert_default().add(header.value, true);
                }
                19 if is("if-unmodified-since") => this.is_dated = true,
                13 if is("content-range") => this.is_partial = true,
                16 if is("content-encoding") => {
                    this.is_coded |=
                        items(header.value).any(|item| !item.eq_ignore_ascii_case(b"identity"));
                }
                _ => {}
            }
        }
        this
    }

    /// Applies the conditions of a read to the entry that was found.
    pub(crate) fn judge(&self, found: Option<&Head>) -> Verdict {
        let sequence = found.map(|head| head.sequence);
        if self.if_match.as_ref().is_some_and(|tags| tags.matching(sequence).is_none()) {
            return Verdict::PreconditionFailed;
        }
        let listed = self.if_none_match.as_ref().and_then(|tags| tags.matching(sequence));
        listed.map_or(Verdict::Proceed, Verdict::NotModified)
    }

    /// The condition of the write.
    ///
    /// # Errors
    /// If the headers are malformed, or the store has no atomic condition for them.
    pub(crate) fn condition(&self) -> Result<Condition, String> {
        if self.is_dated && self.if_match.is_none() {
            // A date cannot tell two writes of one second apart. Beside If-Match it is ignored
            // (RFC 9110, section 13.1.4).
            return Err(
                "there is no If-Unmodified-Since here: send the ETag in If-Match".to_owned()
            );
        }
        match (&self.if_match, &self.if_none_match) {
            (None, None) => Ok(Condition::None),
            (Some(tags), None) if tags.is_malformed || !tags.is_given => {
                Err("If-Match takes `*` or quoted ETags".to_owned())
            }
            (Some(tags), None) if tags.is_any => Ok(Condition::Present),
            (Some(tags), None) if tags.others.iter().any(|tag| Some(tag.0) != tags.sequence()) => {
                Err("If-Match takes `*` or one ETag of an entity here".to_owned())
            }
            // Foreign tags alone match nothing: no entry has the sequence number zero.
            (Some(tags), None) => Ok(Condition::Sequence(tags.sequence().unwrap_or(0))),
            (None, Some(tags)) if tags.is_any && tags.first.is_none() => Ok(Condition::Absent),
            (None, Some(_)) => Err("If-None-Match takes only `*` here".to_owned()),
            (Some(_), Some(_)) => {
                Err("If-Match and If-None-Match cannot be combined here".to_owned())
            }
        }
    }

    /// Refuses conditions in the headers of a request about many entities.
    ///
    /// # Errors
    /// 400 if there is a condition.
    pub(crate) fn refuse_conditions(&self) -> Result<(), Failure> {
        if self.is_dated || self.if_match.is_some() || self.if_none_match.is_some() {
            let line = "the conditions of a batch stand in its entries, not in its head";
            return Err(line.to_owned().into());
        }
        Ok(())
    }

    /// Refuses a body that is not a whole value without coding.
    ///
    /// # Errors
    /// 400 for a part of a value (RFC 9110, section 14.5), 415 for a coded body (section 8.4).
    pub(crate) fn check_body(&self) -> Result<(), Failure> {
        if self.is_partial {
            return Err("a body is a whole value: there is no Content-Range".to_owned().into());
        }
        if self.is_coded {
            let line = "a body is taken as it is: there is no Content-Encoding but `identity`";
            return Err(Failure::Refused(415, line.into()));
        }
        Ok(())
    }
}

/// A list of ETags. Foreign tags, which this server never gave, match nothing and are left out.
#[derive(Debug, Default)]
struct Tags {
    /// True if `*` is in the list.
    is_any: bool,
    /// The first tag, kept apart because most lists have only one, which then needs no second
    /// allocation.
    first: Option<Tag>,
    others: Vec<Tag>,
    /// True if an item is not a tag.
    is_malformed: bool,
    /// True if the list is not empty.
    is_given: bool,
}

impl Tags {
    /// Adds the tags of a header line. A weak tag matches only with weak comparison.
    fn add(&mut self, list: &[u8], weakly: bool) {
        for item in items(list) {
            self.is_given = true;
            if item == b"*" {
                self.is_any = true;
                continue;
            }
            let weak = item.strip_prefix(b"W/");
            let inner = unquoted(weak.unwrap_or(item));
            self.is_malformed |= inner.is_none();
            match inner.filter(|_| weakly || weak.is_none()).and_then(tag_of) {
                None => {}
                Some(tag) if self.first.is_none() => self.first = Some(tag),
                Some(tag) => self.others.push(tag),
            }
        }
    }

    /// The sequence number in the first tag.
    fn sequence(&self) -> Option<u64> {
        self.first.map(|(sequence, _)| sequence)
    }

    /// The coding of the tag that matches an entry with this sequence number; `None` if no tag
    /// matches, or there is no entry.
    fn matching(&self, sequence: Option<u64>) -> Option<Option<Coding>> {
        let sequence = sequence?;
        let mut tags = self.first.iter().chain(&self.others);
        let found = tags.find(|(of, _)| *of == sequence).map(|(_, coding)| *coding);
        found.or(self.is_any.then_some(None))
    }
}

/// The items of a list, without empty ones (RFC 9110, section 5.6.1).
fn items(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|item| !item.is_empty())
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
        with(headers, |request| EntityHeaders::of(request).judge(head.as_ref()))
    }

    #[test]
    fn conditions_of_reads() {
        use Verdict::{NotModified, PreconditionFailed, Proceed};
        let not_modified = NotModified(None);
        assert_eq!(read(&[], Some(7)), Proceed);
        assert_eq!(read(&[("If-None-Match", "\"7\"")], Some(7)), not_modified);
        assert_eq!(read(&[("if-none-match", "W/\"7\"")], Some(7)), not_modified);
        assert_eq!(read(&[("If-None-Match", "\"6\", \"7\"")], Some(7)), not_modified);
        assert_eq!(read(&[("If-None-Match", "*")], Some(7)), not_modified);
        assert_eq!(read(&[("If-None-Match", "*")], None), Proceed);
        assert_eq!(read(&[("If-None-Match", "7")], Some(7)), Proceed);
        assert_eq!(read(&[("If-Match", "\"7\"")], Some(7)), Proceed);
        assert_eq!(read(&[("If-Match", "W/\"7\"")], Some(7)), PreconditionFailed);
        assert_eq!(read(&[("If-Match", "\"07\"")], Some(7)), PreconditionFailed);
        assert_eq!(read(&[("If-Match", "*")], None), PreconditionFailed);
        let two = |name| [(name, "\"6\""), (name, "\"7\"")];
        assert_eq!(read(&two("If-None-Match"), Some(7)), not_modified, "two lines, one list");
        assert_eq!(read(&two("If-Match"), Some(7)), Proceed);
        assert_eq!(read(&[("If-Match", "\"7+gzip\"")], Some(7)), Proceed);
        let coded = NotModified(Some(Coding::Gzip));
        assert_eq!(read(&[("If-None-Match", "\"7+gzip\"")], Some(7)), coded);
    }

    #[test]
    fn conditions_of_writes() {
        let write = |headers: &[(&str, &str)]| {
            with(headers, |request| EntityHeaders::of(request).condition())
        };
        assert_eq!(write(&[]), Ok(Condition::None));
        assert_eq!(write(&[("If-Match", "*")]), Ok(Condition::Present));
        assert_eq!(write(&[("If-Match", " \"12\" ")]), Ok(Condition::Sequence(12)));
        assert_eq!(write(&[("If-Match", "\"other\"")]), Ok(Condition::Sequence(0)));
        // Regression: the header was ignored.
        let dated = ("If-Unmodified-Since", "Thu, 26 Nov 2026 18:00:00 GMT");
        assert!(write(&[dated]).unwrap_err().contains("If-Match"));
        assert_eq!(write(&[dated, ("If-Match", "\"3\"")]), Ok(Condition::Sequence(3)));
        assert_eq!(write(&[("If-Match", "W/\"12\"")]), Ok(Condition::Sequence(0)));
        assert_eq!(write(&[("If-None-Match", "*")]), Ok(Condition::Absent));
        assert_eq!(write(&[("If-Match", "\"12+gzip\"")]), Ok(Condition::Sequence(12)));
        let two = |other| write(&[("If-Match", "\"1\""), ("if-match", other)]);
        assert_eq!(two("\"foreign\", W/\"2\""), Ok(Condition::Sequence(1)));
        assert_eq!(two("*"), Ok(Condition::Present));
        assert!(two("\"2\"").is_err() && two("2").is_err());
        assert!(write(&[("If-Match", " , ")]).is_err());
        assert!(write(&[("If-Match", "\"1\", \"2\"")]).is_err());
        assert!(write(&[("If-Match", "12")]).is_err());
        assert!(write(&[("If-None-Match", "\"1\"")]).is_err());
        assert!(write(&[("If-None-Match", "*, W/\"1\"")]).is_err());
        assert!(write(&[("If-Match", "*"), ("If-None-Match", "*")]).is_err());
    }
}
