//! Ranges of keys of an index that a query reads. Long values lie cut in the keys of the store, so
//! that a bound beyond the cut stands for a wider stretch there, and entries in it are looked at
//! again.

use crate::layout::{FIELDS_KEPT_BYTES, end_of_prefix};

/// A range of keys of an index.
#[derive(Debug)]
pub(crate) struct KeyRange {
    /// The first key.
    pub(crate) low: Vec<u8>,
    /// The first key behind the range.
    pub(crate) high: Vec<u8>,
    /// The bounds as they were before the cut, if one of them was cut.
    exact: Option<(Vec<u8>, Vec<u8>)>,
}

impl KeyRange {
    /// The range of the index with this prefix between two bounds of encoded fields, the second of
    /// which lies outside.
    pub(crate) fn new(prefix: &[u8], low: &[u8], high: &[u8]) -> KeyRange {
        let kept = prefix.len() + FIELDS_KEPT_BYTES;
        let low = [prefix, low].concat();
        let high = [prefix, high].concat();
        if low.len() <= kept && high.len() <= kept {
            return KeyRange { low, high, exact: None };
        }
        let cut = |bound: &[u8]| bound[..bound.len().min(kept)].to_vec();
        let behind = if high.len() > kept { end_of_prefix(&cut(&high)) } else { None };
        KeyRange {
            low: cut(&low),
            high: behind.unwrap_or_else(|| high.clone()),
            exact: Some((low, high)),
        }
    }

    /// Entries have to be looked at again by [`Self::holds`].
    pub(crate) fn is_wider(&self) -> bool {
        self.exact.is_some()
    }

    /// An entry lies within the range, given the key that it would have without a cut.
    pub(crate) fn holds(&self, uncut: &[u8]) -> bool {
        self.exact.as_ref().is_none_or(|(low, high)| &low[..] <= uncut && uncut < &high[..])
    }
}
