//! One bit for each record of a segment that is known to be unneeded: garbage collection need not
//! read these records. In a store that is overwritten, they are most of the records that it would
//! read.
//!
//! The bits record what the ledger has dropped since the store was opened. A record without a bit
//! may be needed or not, and has to be read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The most segments that have bits at a time: the bits of this many segments take as much memory
/// as the offsets of one.
pub(crate) const UNNEEDED_SEGMENTS_MAX: usize = 32;

/// The number of segments that have bits.
pub(super) type UnneededCount = Arc<AtomicUsize>;

/// The bits of one segment, allocated when the first is set.
#[derive(Default)]
pub(crate) struct UnneededRecords(OnceLock<Bits>);

struct Bits {
    words: Box<[AtomicU64]>,
    count: UnneededCount,
}

impl Drop for Bits {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl UnneededRecords {
    /// Notes that record `number` of a segment with at most `records` is unneeded. Does nothing if
    /// enough other segments have bits.
    pub(super) fn note(&self, number: u64, records: usize, count: &UnneededCount) {
        if self.0.get().is_none() {
            if count.fetch_add(1, Ordering::Relaxed) >= UNNEEDED_SEGMENTS_MAX {
                count.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            let words = (0..records.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
            // If another thread was faster, this one is dropped, and its count with it.
            let _ = self.0.set(Bits { words, count: Arc::clone(count) });
        }
        let word = self.0.get().and_then(|bits| bits.words.get(number as usize / 64));
        if let Some(word) = word {
            word.fetch_or(1 << (number % 64), Ordering::Relaxed);
        }
    }

    /// True if record `number` was noted.
    #[inline]
    pub(super) fn contains(&self, number: u64) -> bool {
        let word = self.0.get().and_then(|bits| bits.words.get(number as usize / 64));
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (number % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_noted_records_are_unneeded() {
        let (unneeded, count) = (UnneededRecords::default(), UnneededCount::default());
        assert!(!unneeded.contains(0));
        let noted = [0, 1, 63, 64, 99];
        noted.iter().for_each(|number| unneeded.note(*number, 100, &count));
        // A number beyond the records is ignored.
        unneeded.note(1_000, 100, &count);
        let held: Vec<u64> = (0..2_000).filter(|number| unneeded.contains(*number)).collect();
        assert_eq!(held, noted);
    }

    #[test]
    fn the_number_of_segments_with_bits_is_limited() {
        let count = UnneededCount::default();
        let mut segments: Vec<UnneededRecords> =
            (0..=UNNEEDED_SEGMENTS_MAX).map(|_| UnneededRecords::default()).collect();
        segments.iter().for_each(|unneeded| unneeded.note(7, 10, &count));
        let held = segments.iter().filter(|unneeded| unneeded.contains(7)).count();
        assert_eq!(
            (held, count.load(Ordering::Relaxed)),
            (UNNEEDED_SEGMENTS_MAX, UNNEEDED_SEGMENTS_MAX)
        );
        // A segment that is dropped makes room for another.
        segments.remove(0);
        let last = segments.last().unwrap();
        last.note(7, 10, &count);
        assert!(last.contains(7));
        drop(segments);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}
