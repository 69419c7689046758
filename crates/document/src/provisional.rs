//! Provisional revisions: placeholders for the revisions of changes that are not committed yet.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use crate::commit::Committed;
use crate::revision::{REVISION_LENGTH, revision_of};

/// The placeholder of the revision of a change, by the change's index in its transaction. It has a
/// random part per process, so that texts of users do not contain it by chance.
pub(crate) fn provisional_revision(change: usize) -> [u8; REVISION_LENGTH] {
    let mut text = *secret();
    for (place, byte) in text[PROVISIONAL_PREFIX..].iter_mut().rev().enumerate() {
        *byte = b'0' + (change >> (6 * place) & 63) as u8;
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

/// Replaces the provisional revisions in `text` by those of the commit.
pub fn settle_revisions(text: &mut [u8], committed: &Committed) {
    let prefix = &secret()[..PROVISIONAL_PREFIX];
    let mut at = 0;
    while let Some(found) = text[at..].windows(PROVISIONAL_PREFIX).position(|part| part == prefix) {
        let begin = at + found;
        let Some(place) = text.get_mut(begin..begin + REVISION_LENGTH) else { return };
        let digits = place[PROVISIONAL_PREFIX..].iter();
        let change =
            digits.fold(0, |change, byte| change << 6 | usize::from(byte.wrapping_sub(b'0')));
        place.copy_from_slice(&revision_of(committed.sequence(change)));
        at = begin + REVISION_LENGTH;
    }
}
