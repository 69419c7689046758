//! Ranges of internal keys.

use std::ops::Bound;

use crate::ledger::KeyRange;

/// A range of internal keys, with owned bounds.
pub(crate) struct OwnedKeyRange {
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
}

impl OwnedKeyRange {
    pub(crate) fn as_key_range(&self) -> KeyRange<'_> {
        KeyRange {
            start: self.start.as_ref().map(Vec::as_slice),
            end: self.end.as_ref().map(Vec::as_slice),
        }
    }
}

/// The range of internal keys for these bounds on user keys of `table`.
pub(crate) fn internal_range(
    table: u16,
    (start, end): (Bound<&[u8]>, Bound<&[u8]>),
) -> OwnedKeyRange {
    let internal = |key: &[u8]| [&table.to_be_bytes()[..], key].concat();
    let start = match start {
        Bound::Unbounded => Bound::Included(internal(&[])),
        bound => bound.map(internal),
    };
    let end = match (end, table.checked_add(1)) {
        (Bound::Unbounded, Some(next)) => Bound::Excluded(next.to_be_bytes().to_vec()),
        (bound, _) => bound.map(internal),
    };
    OwnedKeyRange { start, end }
}
