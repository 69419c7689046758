//! The prefixes that a memtable may hold, as a filter: a scan by a prefix that it does not hold
//! neither sorts nor searches its entries.
//!
//! It is a blocked Bloom filter (Putze, Sanders, Singler 2007) whose blocks are 64-bit words.

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_io::ZeroedMemory;

/// Filter bytes for each key that the memtable is made for. In a table of documents at most half of
/// the keys are index entries, so a prefix has at least 16 bits.
const BYTES_A_KEY: usize = 1;
/// The bits that a prefix sets in its word.
const BITS_PER_PREFIX: u32 = 3;
const WORD_BITS: u32 = 6;

/// The number of words of the filter for a memtable of `keys` keys.
fn words_for(keys: usize) -> usize {
    (keys * BYTES_A_KEY).div_ceil(size_of::<u64>()).max(8)
}

/// The memory of the filter of a memtable that is made for `keys` keys, in bytes.
pub(super) fn prefixes_memory_bytes(keys: usize) -> u64 {
    (words_for(keys) * size_of::<u64>()) as u64
}

/// The filter of a memtable's prefixes.
pub(super) struct PrefixFilter {
    memory: ZeroedMemory,
    words: usize,
}

impl PrefixFilter {
    /// The filter of an empty memtable that is made for `keys` keys.
    pub(super) fn new(keys: usize) -> PrefixFilter {
        let words = words_for(keys);
        PrefixFilter { memory: ZeroedMemory::new(words * size_of::<u64>()), words }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.words * size_of::<u64>()) as u64
    }

    /// The word of a prefix, and its bits in the word.
    #[inline]
    fn place(&self, hash: u64) -> (&AtomicU64, u64) {
        let index = (((hash >> 32) * self.words as u64) >> 32) as usize;
        let bit = |number: u32| 1 << (hash >> (number * WORD_BITS) & u64::from(u64::BITS - 1));
        let bits = (0..BITS_PER_PREFIX).fold(0_u64, |bits, number| bits | bit(number));
        // SAFETY: the memory holds `words` aligned words, initially zero, and used only as atomics.
        // The index is below `words`: it is the upper half of the product of a 32-bit number and
        // `words`.
        (unsafe { &*self.memory.pointer().cast::<AtomicU64>().add(index) }, bits)
    }

    /// Notes a prefix. Called before the entry that has it is published.
    #[inline]
    pub(super) fn note(&self, hash: u64) {
        let (word, bits) = self.place(hash);
        word.fetch_or(bits, Ordering::Relaxed);
    }

    /// True if a published entry may have a prefix of this hash.
    #[inline]
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let (word, bits) = self.place(hash);
        word.load(Ordering::Relaxed) & bits == bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::key_hash;

    #[test]
    fn noted_prefixes_are_held_and_few_others() {
        let prefixes = PrefixFilter::new(20_000);
        let hash = |number: u32| key_hash(&number.to_le_bytes());
        (0..10_000).for_each(|number| prefixes.note(hash(number)));
        assert!((0..10_000).all(|number| prefixes.may_hold(hash(number))));
        let others = (10_000..110_000).filter(|number| prefixes.may_hold(hash(*number))).count();
        assert!(others < 6_000, "{others} of 100,000");
        assert_eq!(prefixes.memory_bytes(), prefixes_memory_bytes(20_000));
    }
}
