//! Provisional revisions: texts in place of the revisions of changes that are not written yet.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use crate::commit::Committed;
use crate::revision::{REVISION_LENGTH, revision_of};

/// The text in place of the revision of a change until it is written. Nobody outside can know it:
/// its middle is chosen anew by each process.
pub(crate) fn provisional_revision(change: usize) -> [u8; REVISION_LENGTH] {
    let mut text = *secret();
    for (place, byte) in text[PROVISIONAL_PREFIX..].iter_mut().rev().enumerate() {
        *byte = b'0' + (change >> (6 * place) & 63) as u8;
    }
    text
}

/// Bytes of a provisional revision that are the same for all of the process.
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

/// Puts the revisions that were written in the place of provisional ones in `text`.
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
