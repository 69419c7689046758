//! The path of a request: split at its slashes first, then percent-decoded once.

use std::borrow::Cow;

use pellucid_document::SYSTEM_DATABASE;

use crate::query::percent_decode;

/// The number of segments that are kept. It is enough for the longest route, with `_db` and the
/// database's name in front.
const SEGMENTS_MAX: usize = 8;

/// The number of segments that name a database: `_db` and the name.
const DATABASE_SEGMENTS: usize = 2;

/// A path in decoded segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path<'a> {
    segments: [Cow<'a, str>; SEGMENTS_MAX],
    /// The number of all segments, including those that are not kept.
    count: usize,
    /// The index of the first segment behind the database.
    begin: usize,
}

impl<'a> Path<'a> {
    /// Splits and decodes a path; `None` if the percent-encoding is malformed or the result is not
    /// UTF-8.
    pub(crate) fn of(path: &'a str) -> Option<Path<'a>> {
        let mut this = Path::default();
        for segment in path.split('/').skip(1) {
            let decoded = decode(segment)?;
            if let Some(place) = this.segments.get_mut(this.count) {
                *place = decoded;
            }
            this.count += 1;
        }
        if this.segments[0] == "_db" && this.trimmed_count() >= DATABASE_SEGMENTS {
            this.begin = DATABASE_SEGMENTS;
        }
        Some(this)
    }

    /// Returns true if the path names a database.
    pub(crate) fn is_in_database(&self) -> bool {
        self.begin > 0
    }

    /// The name of the database; that of the system database if the path names none.
    pub(crate) fn database(&self) -> &str {
        if self.is_in_database() { &self.segments[1] } else { SYSTEM_DATABASE }
    }

    /// The segment with index `place`, counted from the first one behind the database.
    pub(crate) fn segment(&self, place: usize) -> Option<&str> {
        let segment = self.segments[self.begin..].get(place)?;
        (place < self.len()).then_some(segment)
    }

    /// The number of segments behind the database. A slash at the end adds none.
    pub(crate) fn len(&self) -> usize {
        self.trimmed_count().saturating_sub(self.begin)
    }

    /// Returns true if the path ends with a slash.
    pub(crate) fn has_slash(&self) -> bool {
        self.trimmed_count() < self.count
    }

    /// The number of segments without the empty one behind a slash at the end.
    fn trimmed_count(&self) -> usize {
        let ends_empty = |last: &Cow<'_, str>| last.is_empty();
        let last = self.count.checked_sub(1).and_then(|last| self.segments.get(last));
        self.count - usize::from(last.is_some_and(ends_empty))
    }

    /// A copy that outlives the request.
    pub(crate) fn into_owned(self) -> Path<'static> {
        let Path { segments, count, begin } = self;
        let segments = segments.map(|segment| match segment {
            // Unused places are empty and need no copy.
            Cow::Borrowed("") => Cow::Borrowed(""),
            other => Cow::Owned(other.into_owned()),
        });
        Path { segments, count, begin }
    }
}

/// Decodes the percent-encoding of `text`; `None` if it is malformed or the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    match percent_decode(text)? {
        Cow::Borrowed(_) => Some(Cow::Borrowed(text)),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(path: &str) -> (String, Vec<String>) {
        let path = Path::of(path).unwrap();
        let segments = (0..path.len()).map_while(|place| path.segment(place));
        (path.database().to_owned(), segments.map(str::to_owned).collect())
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_path_is_split_before_it_is_decoded() {
        for (path, database, expected) in [
            ("/_api/version", "_system", &["_api", "version"][..]),
            ("/_api/version/", "_system", &["_api", "version"]),
            ("/_api//x", "_system", &["_api", "", "x"]),
            ("/_db/a%2Fb/_api/document/c/x%25:y+z", "a/b", &["_api", "document", "c", "x%:y+z"]),
            ("/_db/x%2F_open%2Fy/_api", "x/_open/y", &["_api"]),
            ("/_db/x/_db/y/_api", "x", &["_db", "y", "_api"]),
            ("/_db//_api", "", &["_api"]),
            ("/_db/x", "x", &[]),
            ("/_db/", "_system", &["_db"]),
            ("/_db", "_system", &["_db"]),
            ("/%5Fdb/x/_api", "x", &["_api"]),
            ("//_db/x", "_system", &["", "_db", "x"]),
            ("/a/../b/.", "_system", &["a", "..", "b", "."]),
            ("/", "_system", &[]),
            ("*", "_system", &[]),
        ] {
            let (found_database, found) = segments(path);
            assert_eq!((&*found_database, found), (database, owned(expected)), "{path}");
        }
    }

    #[test]
    fn a_long_path_keeps_its_length_and_its_first_segments() {
        let path = Path::of("/_db/x/1/2/3/4/5/6/7/8").unwrap();
        assert_eq!((path.len(), path.segment(5), path.segment(6)), (8, Some("6"), None));
        assert_eq!(Path::of(&"/a".repeat(1_000)).unwrap().into_owned().len(), 1_000);
    }

    #[test]
    fn a_malformed_encoding_is_no_path() {
        for path in ["/_api/%zz", "/%", "/%4", "/%C0%AF", "/1/2/3/4/5/6/7/8/9/%ff", "/_db/%/x"] {
            assert!(Path::of(path).is_none(), "{path}");
        }
    }
}
