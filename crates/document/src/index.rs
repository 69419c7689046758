//! Indexes on documents, and the entries that a document has in an index.

use std::ops::Bound;

use pellucid_aql::{IndexRange, parse_date};
use pellucid_thread::Mutex;
use pellucid_value::{Number, ObjectRef, Ref, index_key};

use crate::definition::{IndexDefinition, IndexKind};
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::index_range::KeyRange;
use crate::layout::{FIELDS_KEPT_BYTES, bound_fields, index_prefix, push_document};

/// The most entries of one document in one index. Arrays in two fields give the product of their
/// lengths.
const ENTRIES_MAX: usize = 10_000;

/// The usual bytes of an entry's fields, for which memory is reserved.
const ENTRY_BYTES: usize = 64;

/// The most fields of an index.
const FIELDS_MAX: usize = 32;

/// A path of attribute names, with at most one expansion (`[*]`) of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// The names up to the value, or up to the array that is expanded.
    pub path: Vec<String>,
    /// The names behind the expansion, looked up in each element; `None` without expansion.
    pub within: Option<Vec<String>>,
}

impl FieldPath {
    /// Parses a path such as `a.b[*].c`.
    ///
    /// # Errors
    /// 10 if it is malformed, or expands more than one array.
    pub fn parse(text: &str) -> Result<FieldPath> {
        let bad = || {
            let message = format!("bad parameter: `{text}` is no path of attributes");
            DocumentError::new(ErrorNumber::BAD_PARAMETER, message)
        };
        let mut parsed = FieldPath { path: Vec::new(), within: None };
        for part in text.split('.') {
            let (name, is_expanded) = match part.strip_suffix("[*]") {
                Some(name) => (name, true),
                None => (part, false),
            };
            if name.is_empty() || name.contains(['[', ']']) {
                return Err(bad());
            }
            match (&mut parsed.within, is_expanded) {
                (Some(_), true) => return Err(bad()),
                (Some(within), false) => within.push(name.to_owned()),
                (None, _) => parsed.path.push(name.to_owned()),
            }
            if is_expanded {
                parsed.within = Some(Vec::new());
            }
        }
        Ok(parsed)
    }

    /// The values that the document has at this path.
    fn values<'a>(&self, document: ObjectRef<'a>, is_sparse: bool) -> Vec<Ref<'a>> {
        let found = walk(Ref::Object(document), &self.path);
        let Some(within) = &self.within else { return vec![found] };
        let elements = found.as_array().map(|array| array.iter().collect::<Vec<_>>());
        match elements {
            Some(elements) if !elements.is_empty() => {
                elements.into_iter().map(|element| walk(element, within)).collect()
            }
            // There is nothing to expand. A sparse index has no entry then; others have null.
            _ if is_sparse => Vec::new(),
            _ => vec![Ref::Null],
        }
    }
}

fn walk<'a>(value: Ref<'a>, path: &[String]) -> Ref<'a> {
    path.iter().fold(value, |value, name| value.attribute(name))
}

/// An entry of an index, in its stored form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    /// The document's key, in unique indexes.
    pub(crate) value: Vec<u8>,
}

/// An index of a collection.
#[derive(Debug)]
pub struct Index {
    /// Its definition.
    pub definition: IndexDefinition,
    /// Its fields.
    pub fields: Vec<FieldPath>,
    pub(crate) prefix: Vec<u8>,
    /// In a TTL index, the entry from which the next removal of expired documents reads.
    pub(crate) expiry_from: Mutex<Vec<u8>>,
}

impl Index {
    pub(crate) fn new(definition: IndexDefinition, storage: u64) -> Index {
        let prefix = index_prefix(storage, definition.id, definition.unique);
        let fields = definition.fields.iter().filter_map(|field| FieldPath::parse(field).ok());
        let expiry_from = Mutex::new(prefix.clone());
        Index { fields: fields.collect(), prefix, expiry_from, definition }
    }

    /// The entry of a document in an index that expands no array, where it has at most one.
    /// `Some(None)` if the document has no entry; `None` if the index expands an array.
    pub(crate) fn only_entry(&self, document: ObjectRef<'_>, key: &str) -> Option<Option<Entry>> {
        if self.expands() {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.prefix.len() + ENTRY_BYTES + key.len());
        bytes.extend_from_slice(&self.prefix);
        let values = self.fields.iter().map(|field| walk(Ref::Object(document), &field.path));
        let is_there = values.into_iter().all(|value| self.push_field(value, &mut bytes));
        Some(is_there.then(|| self.entry_of(bytes, key)))
    }

    /// True if a field expands an array, so that a document has an entry for each element.
    fn expands(&self) -> bool {
        self.fields.iter().any(|field| field.within.is_some())
    }

    /// The entries of a document, sorted.
    ///
    /// # Errors
    /// 10 if there are more than [`ENTRIES_MAX`], 1210 if the index is unique without
    /// `deduplicate` and an array has a value twice.
    pub(crate) fn entries_of(&self, document: ObjectRef<'_>, key: &str) -> Result<Vec<Entry>> {
        if let Some(entry) = self.only_entry(document, key) {
            return Ok(entry.into_iter().collect());
        }
        let definition = &self.definition;
        let values: Vec<_> =
            self.fields.iter().map(|field| field.values(document, definition.sparse)).collect();
        let count = values.iter().try_fold(1_usize, |count, values| {
            count.checked_mul(values.len()).filter(|count| *count <= ENTRIES_MAX)
        });
        let Some(count) = count else {
            let name = &definition.name;
            let message = format!(
                "bad parameter: the document would have more than {ENTRIES_MAX} entries in the \
                 index {name}"
            );
            return Err(DocumentError::new(ErrorNumber::BAD_PARAMETER, message));
        };
        let uncut = (0..count).filter_map(|number| self.uncut(&values, number));
        let mut entries: Vec<_> = uncut.map(|uncut| self.entry_of(uncut, key)).collect();
        if entries.len() > 1 {
            let given = entries.len();
            entries.sort_unstable();
            entries.dedup();
            if definition.unique && !definition.deduplicate && entries.len() < given {
                return Err(self.violation(key));
            }
        }
        Ok(entries)
    }

    /// Makes the entry from the uncut key in `bytes`: cuts it, and adds the document's key.
    fn entry_of(&self, mut bytes: Vec<u8>, key: &str) -> Entry {
        bound_fields(&mut bytes, self.prefix.len());
        if self.definition.unique {
            return Entry { key: bytes, value: key.as_bytes().to_vec() };
        }
        push_document(&mut bytes, key.as_bytes());
        Entry { key: bytes, value: Vec::new() }
    }

    /// The uncut key (the prefix and all encoded fields) of combination `number` of the fields'
    /// values; `None` if there is no entry for it.
    fn uncut(&self, values: &[Vec<Ref<'_>>], mut number: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.prefix.len() + 64);
        bytes.extend_from_slice(&self.prefix);
        for choices in values {
            let value = choices[number % choices.len()];
            number /= choices.len();
            if !self.push_field(value, &mut bytes) {
                return None;
            }
        }
        Some(bytes)
    }

    /// Appends a field of an entry; false if there is no entry for that value.
    fn push_field(&self, mut value: Ref<'_>, bytes: &mut Vec<u8>) -> bool {
        if self.definition.kind == IndexKind::Ttl {
            let Some(seconds) = time_of(value) else { return false };
            value = Ref::Number(Number::Double(seconds));
        }
        if self.definition.sparse && matches!(value, Ref::Null) {
            return false;
        }
        index_key::encode(value, bytes);
        true
    }

    /// The key before the cut of the document's entry with the key `entry`; `None` if it is not
    /// within `range`.
    pub(crate) fn uncut_key(
        &self,
        document: ObjectRef<'_>,
        key: &str,
        entry: &[u8],
        range: Option<&KeyRange>,
    ) -> Option<Vec<u8>> {
        let sparse = self.definition.sparse;
        let values: Vec<_> =
            self.fields.iter().map(|field| field.values(document, sparse)).collect();
        // A stored document has at most `ENTRIES_MAX` entries.
        let count = values.iter().map(Vec::len).product::<usize>().min(ENTRIES_MAX);
        (0..count).filter_map(|number| self.uncut(&values, number)).find(|uncut| {
            range.is_none_or(|range| range.holds(uncut))
                && self.entry_of(uncut.clone(), key).key == entry
        })
    }

    /// The prefix of the keys of all entries in a range that has one value for each field; for a
    /// unique index, the key of the only entry. `None` for other ranges, and where values are cut,
    /// because only the documents tell then which entries are in the range.
    pub(crate) fn key_of_all(&self, range: &IndexRange) -> Option<Vec<u8>> {
        let is_whole = range.equal.len() == self.fields.len()
            && matches!((&range.low, &range.high), (Bound::Unbounded, Bound::Unbounded));
        if !is_whole {
            return None;
        }
        let mut key = Vec::with_capacity(self.prefix.len() + ENTRY_BYTES);
        key.extend_from_slice(&self.prefix);
        range.equal.iter().for_each(|value| index_key::encode(value.view(), &mut key));
        (key.len() <= self.prefix.len() + FIELDS_KEPT_BYTES).then_some(key)
    }

    /// Makes the error for a unique index in which the document `conflicting` has the same values.
    pub(crate) fn violation(&self, conflicting: &str) -> DocumentError {
        let IndexDefinition { name, kind, fields, .. } = &self.definition;
        let kind = match kind {
            IndexKind::Persistent => "persistent",
            IndexKind::Ttl => "ttl",
            IndexKind::Edge => "edge",
        };
        let fields = fields.join(", ");
        let message = format!(
            "unique constraint violated - in index {name} of type {kind} over '{fields}'; \
             conflicting key: {conflicting}"
        );
        DocumentError::new(ErrorNumber::UNIQUE_CONSTRAINT, message)
    }
}

/// The time of a value in a TTL index, in seconds since 1970. As in ArangoDB, it is `None` for what
/// never expires: a value that is no time, and a time before 1970.
fn time_of(value: Ref<'_>) -> Option<f64> {
    let seconds = match value {
        Ref::Number(number) => number.to_double(),
        Ref::String(text) => parse_date(text)?.div_euclid(1000) as f64,
        _ => return None,
    };
    (seconds >= 0.0).then_some(seconds)
}

/// Checks the fields of a new index.
///
/// # Errors
/// 10 if there are none or too many, or if one is malformed, is named twice or cannot be indexed.
pub(crate) fn check_fields(fields: &[String]) -> Result<()> {
    let bad = |what: &str| Err(DocumentError::new(ErrorNumber::BAD_PARAMETER, what));
    if fields.is_empty() || fields.len() > FIELDS_MAX {
        return bad(&format!("bad parameter: an index has 1 to {FIELDS_MAX} fields"));
    }
    for (place, field) in fields.iter().enumerate() {
        FieldPath::parse(field)?;
        if fields[..place].contains(field) {
            return bad(&format!("bad parameter: the field `{field}` is named twice"));
        }
        if matches!(field.as_str(), "_id" | "_rev") {
            return bad(&format!("bad parameter: `{field}` cannot be indexed"));
        }
    }
    Ok(())
}
