//! Provisional revisions: placeholders for the revisions of changes that are not committed yet.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use crate::commit::CommitSequences;
use crate::revision::{DIGITS, REVISION_LENGTH, digit_of, revision_of};

/// The placeholder of the revision of a change, by the change's index in its transaction. It has a
/// random part per process, so that texts of users do not contain it by chance.
pub(crate) fn provisional_revision(change: usize) -> [u8; REVISION_LENGTH] {
    let mut text = *secret();
    for (place, byte) in text[PROVISIONAL_PREFIX..].iter_mut().rev().enumerate() {
        *byte = DIGITS[change >> (6 * place) & 63];
    }
    text
}

/// The first bytes of provisional revisions, which are the same in all of one process.
const PROVISIONAL_PREFIX: usize = 7;

fn secret() -> &'static [u8; REVISION_LENGTH] {
    static SECRET: OnceLock<[u8; REVISION_LENGTH]> = OnceLock::new();
    SECRET.get_or_init(|| {
        let random = RandomState::new().hash_one(std::process::id());
        let mut text = *b"~~~~~~~~~~~";
        for (place, byte) in text[1..PROVISIONAL_PREFIX].iter_mut().enumerate() {
            *byte = b'A' + (random >> (8 * place)) as u8 % 26;
        }
        text
    })
}

/// True if `bytes` contain a provisional revision, or its beginning.
pub(crate) fn has_provisional(bytes: &[u8]) -> bool {
    let prefix = &secret()[..PROVISIONAL_PREFIX];
    // Few texts have a tilde, and it is found fast.
    memchr::memchr(prefix[0], bytes).is_some()
        && bytes.windows(PROVISIONAL_PREFIX).any(|part| part == prefix)
}

/// Replaces the provisional revisions in `text` by those of the commit. In JSON they have no
/// escapes, so each is replaced in place. If a query has cut one, its beginning is replaced, so
/// that nobody learns the random part.
pub fn settle_revisions(text: &mut [u8], committed: &CommitSequences) {
    let prefix = &secret()[..PROVISIONAL_PREFIX];
    let mut at = 0;
    while let Some(found) = text[at..].windows(PROVISIONAL_PREFIX).position(|part| part == prefix) {
        let begin = at + found;
        let (mut change, mut length) = (0, PROVISIONAL_PREFIX);
        while length < REVISION_LENGTH
            && let Some(digit) = text.get(begin + length).and_then(|byte| digit_of(*byte))
        {
            length += 1;
            change |= digit << (6 * (REVISION_LENGTH - length));
        }
        at = begin + length;
        text[begin..at].copy_from_slice(&revision_of(committed.sequence(change))[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::revision_text;

    /// The text of a provisional revision, cut to `length` bytes, in JSON and settled.
    fn settled(change: usize, length: usize) -> Result<(String, String), serde_json::Error> {
        let provisional = String::from_utf8(provisional_revision(change).to_vec()).unwrap();
        let mut json = serde_json::to_vec(&(&provisional[..length], "next")).unwrap();
        settle_revisions(&mut json, &CommitSequences::nothing());
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
        for length in PROVISIONAL_PREFIX..REVISION_LENGTH {
            let expected = (revision_text(0)[..length].to_owned(), "next".to_owned());
            assert_eq!(settled(1, length).unwrap(), expected);
        }
        let mut end = secret()[..PROVISIONAL_PREFIX].to_vec();
        assert!(has_provisional(&end));
        settle_revisions(&mut end, &CommitSequences::nothing());
        assert_eq!(end, revision_of(0)[..PROVISIONAL_PREFIX]);
        assert!(!has_provisional(&end));
    }
}
