//! Ranges of keys of an index that a query reads. Long values are cut in the store's keys. If a
//! bound is longer than the cut, the range of keys is wider than the wanted one, and each entry in
//! it has to be checked again with its document.

use pellucid_store::end_of_prefix;

use crate::layout::FIELDS_KEPT_BYTES;

/// A range of keys of an index.
#[derive(Debug)]
pub(crate) struct KeyRange {
    /// The first key.
    pub(crate) low: Vec<u8>,
    /// The end of the range, which is not in it.
    pub(crate) high: Vec<u8>,
    /// The bounds before the cut, if one of them was cut.
    exact: Option<(Vec<u8>, Vec<u8>)>,
}

impl KeyRange {
    /// The range of keys of the index with this prefix, from the encoded fields `low` (included) to
    /// the encoded fields `high` (excluded).
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

    /// True if entries have to be checked again by [`Self::holds`].
    pub(crate) fn is_wider(&self) -> bool {
        self.exact.is_some()
    }

    /// True if an entry is within the exact range; `uncut` is the key that it would have without a
    /// cut.
    pub(crate) fn holds(&self, uncut: &[u8]) -> bool {
        self.exact.as_ref().is_none_or(|(low, high)| &low[..] <= uncut && uncut < &high[..])
    }
}
