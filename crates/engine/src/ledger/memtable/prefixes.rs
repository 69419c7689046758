//! The prefixes that a memtable may hold: a filter, so that a look-up by a prefix that it does not
//! hold neither sorts nor searches its entries.
//!
//! A blocked Bloom filter (Putze, Sanders, Singler 2007) whose blocks are words.

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_io::ZeroedMemory;

/// Bytes of the filter for each key that the memtable is made for: at most half of the keys of a
/// table of documents are index entries, so that a prefix has 16 bits and more.
const BYTES_A_KEY: usize = 1;
/// Bits of a word for each prefix.
const BITS_A_STEM: u32 = 3;
const WORD_BITS: u32 = 6;

/// Words of a filter for a memtable of so many keys.
fn words_for(keys: usize) -> usize {
    (keys * BYTES_A_KEY).div_ceil(size_of::<u64>()).max(8)
}

/// Memory of the filter of a memtable that is made for `keys` keys.
pub(super) fn prefixes_memory_bytes(keys: usize) -> u64 {
    (words_for(keys) * size_of::<u64>()) as u64
}

/// See the module.
pub(super) struct Prefixes {
    memory: ZeroedMemory,
    words: usize,
}

impl Prefixes {
    /// The filter of an empty memtable that is made for `keys` keys.
    pub(super) fn new(keys: usize) -> Prefixes {
        let words = words_for(keys);
        Prefixes { memory: ZeroedMemory::new(words * size_of::<u64>()), words }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.words * size_of::<u64>()) as u64
    }

    /// The word of a prefix and its bits there.
    #[inline]
    fn place(&self, hash: u64) -> (&AtomicU64, u64) {
        let index = (((hash >> 32) * self.words as u64) >> 32) as usize;
        let bit = |number: u32| 1 << (hash >> (number * WORD_BITS) & u64::from(u64::BITS - 1));
        let bits = (0..BITS_A_STEM).fold(0_u64, |bits, number| bits | bit(number));
        // SAFETY: the memory holds `words` words, aligned, zeroed at first, and used as atomics
        // only; the upper half of a hash times a number, without its lower half, is below it.
        (unsafe { &*self.memory.pointer().cast::<AtomicU64>().add(index) }, bits)
    }

    /// Notes a prefix, before the entry that has it is published.
    #[inline]
    pub(super) fn note(&self, hash: u64) {
        let (word, bits) = self.place(hash);
        word.fetch_or(bits, Ordering::Relaxed);
    }

    /// True if an entry with a prefix of this hash may be there, of those that were published.
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
    fn holds_what_was_noted_and_little_else() {
        let prefixes = Prefixes::new(20_000);
        let hash = |number: u32| key_hash(&number.to_le_bytes());
        (0..10_000).for_each(|number| prefixes.note(hash(number)));
        assert!((0..10_000).all(|number| prefixes.may_hold(hash(number))));
        let others = (10_000..110_000).filter(|number| prefixes.may_hold(hash(*number))).count();
        assert!(others < 6_000, "{others} of 100,000");
        assert_eq!(prefixes.memory_bytes(), prefixes_memory_bytes(20_000));
    }
}
