//! Revisions: the values of the attribute `_rev`.
//!
//! A revision is the sequence number of the document's entry in the store. So it is not stored in
//! the document, and the ledger alone tells the newest one. Its text is in base 64 with digits in
//! byte order, so that later revisions are also greater as text.

/// The digits, in the order of their bytes.
pub(crate) const DIGITS: &[u8; 64] =
    b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

/// Bytes of a revision as text: an underscore and ten digits.
pub const REVISION_LENGTH: usize = 11;

/// The bits of ten digits.
const SEQUENCE_BITS: u32 = 60;

/// The revision of a sequence number.
///
/// # Panics
/// If the number has more than 60 bits: a store that writes a million entries a second gets there
/// after 36,000 years.
#[must_use]
pub fn revision_of(sequence: u64) -> [u8; REVISION_LENGTH] {
    assert!(sequence >> SEQUENCE_BITS == 0, "sequence numbers have at most 60 bits");
    let mut text = [b'_'; REVISION_LENGTH];
    for (place, byte) in text[1..].iter_mut().rev().enumerate() {
        *byte = DIGITS[(sequence >> (6 * place)) as usize & 63];
    }
    text
}

/// As [`revision_of`], as a string.
#[must_use]
pub fn revision_text(sequence: u64) -> String {
    String::from_utf8_lossy(&revision_of(sequence)).into_owned()
}

/// The sequence number of a revision; `None` for a text that is no revision, and so matches no
/// document.
#[must_use]
pub fn sequence_of(revision: &[u8]) -> Option<u64> {
    let digits = revision.strip_prefix(b"_")?;
    if digits.len() != REVISION_LENGTH - 1 {
        return None;
    }
    digits.iter().try_fold(0, |sequence, byte| Some(sequence << 6 | digit_of(*byte)? as u64))
}

pub(crate) fn digit_of(byte: u8) -> Option<usize> {
    DIGITS.iter().position(|digit| *digit == byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn revisions_have_the_form_that_drivers_know() {
        assert_eq!(revision_text(0), "_----------");
        assert_eq!(revision_text(64), "_--------0-");
        assert_eq!(sequence_of(b"_l6zhVRe---").map(revision_text).unwrap(), "_l6zhVRe---");
        for other in [&b""[..], b"_", b"12", b"_l6zhVRe--", b"_l6zhVRe----", b"_l6zhVRe--!"] {
            assert_eq!(sequence_of(other), None);
        }
    }

    proptest! {
        #[test]
        fn later_revisions_are_greater(one in 0_u64..1 << 60, other in 0_u64..1 << 60) {
            prop_assert_eq!(sequence_of(&revision_of(one)), Some(one));
            prop_assert_eq!(one.cmp(&other), revision_of(one).cmp(&revision_of(other)));
        }
    }
}
