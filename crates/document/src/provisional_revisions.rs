//! Provisional revisions: placeholders for the revisions of changes that are not committed yet.

use std::hash::{BuildHasher, RandomState};

use crate::revision::{DIGITS, REVISION_LENGTH, digit_of, revision_of};

/// The length of the part that all provisional revisions of a transaction have in common.
const PREFIX_LENGTH: usize = 7;

/// The placeholders of one transaction. They have a random part, which is drawn for each
/// transaction, so that no text of a user contains it, even if a query discloses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProvisionalRevisions {
    prefix: [u8; PREFIX_LENGTH],
}

impl ProvisionalRevisions {
    pub(crate) fn draw() -> ProvisionalRevisions {
        let random = RandomState::new().hash_one(PREFIX_LENGTH);
        let mut prefix = [b'~'; PREFIX_LENGTH];
        for (place, byte) in prefix[1..].iter_mut().enumerate() {
            *byte = b'A' + (random >> (8 * place)) as u8 % 26;
        }
        ProvisionalRevisions { prefix }
    }

    /// The placeholder of a change, by its index in the transaction.
    pub(crate) fn of(&self, change: usize) -> [u8; REVISION_LENGTH] {
        let mut text = [0; REVISION_LENGTH];
        let (prefix, digits) = text.split_at_mut(PREFIX_LENGTH);
        prefix.copy_from_slice(&self.prefix);
        for (place, byte) in digits.iter_mut().rev().enumerate() {
            *byte = DIGITS[change >> (6 * place) & 63];
        }
        text
    }

    /// True if `bytes` contain a placeholder, or its beginning.
    pub(crate) fn are_in(&self, bytes: &[u8]) -> bool {
        self.position(bytes).is_some()
    }

    /// The place of the next placeholder, or its beginning.
    fn position(&self, bytes: &[u8]) -> Option<usize> {
        // Few texts have a tilde, and it is found fast.
        memchr::memchr_iter(self.prefix[0], bytes)
            .find(|place| bytes[*place..].starts_with(&self.prefix))
    }

    /// Replaces the placeholders in `text` by the revisions of the changes with these sequence
    /// numbers. In JSON they have no escapes, so each is replaced in place. If a query has cut one,
    /// its beginning is replaced.
    pub(crate) fn settle(&self, text: &mut [u8], sequence: impl Fn(usize) -> u64) {
        let mut at = 0;
        while let Some(place) = self.position(&text[at..]) {
            let begin = at + place;
            let (mut change, mut length) = (0, PREFIX_LENGTH);
            while length < REVISION_LENGTH
                && let Some(digit) = text.get(begin + length).and_then(|byte| digit_of(*byte))
            {
                length += 1;
                change |= digit << (6 * (REVISION_LENGTH - length));
            }
            at = begin + length;
            text[begin..at].copy_from_slice(&revision_of(sequence(change))[..length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::revision_text;

    /// The text of a provisional revision, cut to `length` bytes, in JSON and settled.
    fn settled(change: usize, length: usize) -> Result<(String, String), serde_json::Error> {
        let drawn = ProvisionalRevisions::draw();
        let provisional = String::from_utf8(drawn.of(change).to_vec()).unwrap();
        let mut json = serde_json::to_vec(&(&provisional[..length], "next")).unwrap();
        drawn.settle(&mut json, |change| change as u64);
        serde_json::from_slice(&json)
    }

    /// Regression: the digits had a backslash among them, whose escape in JSON was taken for more
    /// digits, so that a query that wrote 45 documents and returned their revisions broke its JSON.
    #[test]
    fn every_revision_is_settled_in_json() {
        for change in (0..300).chain([4_095, 4_096, 1 << 18, (1 << 24) - 1]) {
            let expected = (revision_text(change as u64), "next".to_owned());
            assert_eq!(settled(change, REVISION_LENGTH).unwrap(), expected, "change {change}");
        }
    }

    /// Regression: a cut revision was replaced together with the JSON behind it, or was sent with
    /// its random part if it was the last.
    #[test]
    fn a_cut_revision_is_replaced_within_its_string() {
        for length in PREFIX_LENGTH..REVISION_LENGTH {
            let expected = (revision_text(0)[..length].to_owned(), "next".to_owned());
            assert_eq!(settled(1, length).unwrap(), expected);
        }
        let drawn = ProvisionalRevisions::draw();
        let mut end = drawn.prefix.to_vec();
        assert!(drawn.are_in(&end));
        drawn.settle(&mut end, |change| change as u64);
        assert_eq!(end, revision_of(0)[..PREFIX_LENGTH]);
        assert!(!drawn.are_in(&end));
    }
}
