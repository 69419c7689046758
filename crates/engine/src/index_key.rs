//! The key of an index entry: a term, then the key of its object.
//!
//! Entries are ordered by term, and within a term by the object's key, whatever bytes a term
//! contains. So a zero byte of the term is encoded as 0x00 0xff, and the term ends with 0x00 0x00:
//! the end of a term sorts below anything that could follow in its place (`docs/format.md`, Index
//! entry).

use std::ops::Bound;

use crate::codec::{KEY_LENGTH_MAX, TERM_LENGTH_MAX};
use crate::error::{Error, Result};

/// The byte behind a zero byte that belongs to the term.
const ESCAPED_ZERO: u8 = 0xff;
/// The end of a term.
const TERM_END: [u8; 2] = [0, 0];
/// A suffix that sorts above every key of a term with [`TERM_END`], and below every longer term.
const BEHIND_TERM: [u8; 2] = [0, 1];

/// Appends `term`, escaped, without its end.
fn put_term(out: &mut Vec<u8>, term: &[u8]) {
    for byte in term {
        out.push(*byte);
        if *byte == 0 {
            out.push(ESCAPED_ZERO);
        }
    }
}

/// Appends the key of the index entry for `term` and the object's `key`.
pub(crate) fn put_index_key(out: &mut Vec<u8>, term: &[u8], key: &[u8]) -> Result<()> {
    if term.len() > TERM_LENGTH_MAX {
        return Err(Error::TermLength { length: term.len(), limit: TERM_LENGTH_MAX });
    }
    if key.is_empty() || key.len() > KEY_LENGTH_MAX {
        return Err(Error::KeyLength { length: key.len(), limit: KEY_LENGTH_MAX });
    }
    put_term(out, term);
    out.extend_from_slice(&TERM_END);
    out.extend_from_slice(key);
    Ok(())
}

/// Splits the key of an index entry: puts the term into `term` and returns the object's key. `None`
/// if it is not a valid key of an entry.
pub(crate) fn split_index_key<'a>(index_key: &'a [u8], term: &mut Vec<u8>) -> Option<&'a [u8]> {
    term.clear();
    let mut rest = index_key;
    loop {
        let zero = rest.iter().position(|byte| *byte == 0)?;
        term.extend_from_slice(&rest[..zero]);
        let (after, key) = rest[zero + 1..].split_first()?;
        rest = key;
        match *after {
            0 => break,
            ESCAPED_ZERO => term.push(0),
            _ => return None,
        }
    }
    let is_entry = term.len() <= TERM_LENGTH_MAX && (1..=KEY_LENGTH_MAX).contains(&rest.len());
    is_entry.then_some(rest)
}

/// The bounds on keys of entries that are equivalent to these bounds on terms.
pub(crate) fn term_bounds(
    start: Bound<&[u8]>,
    end: Bound<&[u8]>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let key = |term: &[u8], end: [u8; 2]| {
        let mut key = Vec::with_capacity(term.len() + end.len());
        put_term(&mut key, term);
        key.extend_from_slice(&end);
        key
    };
    let start = match start {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(term) => Bound::Included(key(term, TERM_END)),
        Bound::Excluded(term) => Bound::Included(key(term, BEHIND_TERM)),
    };
    let end = match end {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(term) => Bound::Excluded(key(term, BEHIND_TERM)),
        Bound::Excluded(term) => Bound::Excluded(key(term, TERM_END)),
    };
    (start, end)
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use super::*;
    use crate::codec::INDEX_KEY_LENGTH_MAX;

    const TERMS: [&[u8]; 12] = [
        b"", b"\0", b"\0\0", b"\0\x01", b"\0\xff", b"\x01", b"a", b"a\0", b"a\0\0b", b"a\x01",
        b"ab", b"\xff\xff",
    ];
    const KEYS: [&[u8]; 7] = [b"\0", b"\0\0", b"\x01", b"k", b"k\0", b"\xff", b"\xff\xff"];

    fn index_key(term: &[u8], key: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_index_key(&mut out, term, key).unwrap();
        out
    }

    #[test]
    fn keys_of_entries_keep_the_order_and_round_trip() {
        let mut previous = None;
        let mut found = Vec::new();
        for (term, key) in TERMS.iter().flat_map(|term| KEYS.map(|key| (*term, key))) {
            let entry = index_key(term, key);
            assert!(previous.is_none_or(|previous| previous < entry), "{term:?} {key:?}");
            assert_eq!(split_index_key(&entry, &mut found), Some(key));
            assert_eq!(found, term);
            previous = Some(entry);
        }
    }

    #[test]
    fn bounds_on_terms_select_all_entries_of_a_term_or_none() {
        for (low, high) in TERMS.iter().flat_map(|low| TERMS.map(|high| (*low, high))) {
            let starts = [Bound::Unbounded, Bound::Included(low), Bound::Excluded(low)];
            let ends = [Bound::Unbounded, Bound::Included(high), Bound::Excluded(high)];
            for (start, end) in starts.iter().flat_map(|start| ends.map(|end| (*start, end))) {
                let bounds = term_bounds(start, end);
                for (term, key) in TERMS.iter().flat_map(|term| KEYS.map(|key| (*term, key))) {
                    let is_meant = (start, end).contains(term);
                    assert_eq!(bounds.contains(&index_key(term, key)), is_meant);
                }
            }
        }
    }

    #[test]
    fn limits_are_kept_and_invalid_keys_are_refused() {
        let longest = index_key(&[0; TERM_LENGTH_MAX], &[1; KEY_LENGTH_MAX]);
        assert_eq!(longest.len(), INDEX_KEY_LENGTH_MAX);
        let mut term = Vec::new();
        assert!(split_index_key(&longest, &mut term).is_some());
        let refused = put_index_key(&mut term, &[1; TERM_LENGTH_MAX + 1], b"k");
        assert!(matches!(refused, Err(Error::TermLength { length: 513, limit: 512 })));
        let refused = put_index_key(&mut term, b"", &[1; KEY_LENGTH_MAX + 1]);
        assert!(matches!(refused, Err(Error::KeyLength { .. })));
        for strange in [&b""[..], b"term", b"t\0", b"t\0\0", b"t\0\x01k", b"t\0\xff"] {
            assert_eq!(split_index_key(strange, &mut term), None, "{strange:?}");
        }
    }
}
