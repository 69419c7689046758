//! Where the newest node of a key is: a hash table beside the list, so that a GET from a memtable is
//! one or two cache misses, and a key that is not there is one.
//!
//! It has a fixed number of slots. Once they are nearly all taken, further keys are found by the
//! list alone.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Share of the slots that may be taken, in eighths.
const LOAD_MAX_EIGHTHS: usize = 6;
const SLOTS_MIN: usize = 64;

/// The places of the newest nodes, by the hash of their key.
pub(super) struct Places {
    /// Upper half: upper half of the hash. Lower half: place of the node, zero where the slot is free.
    slots: Box<[AtomicU64]>,
    taken: AtomicUsize,
    overflowed: AtomicBool,
}

/// What the table knows of a key.
pub(super) enum Lookup {
    /// The newest node of a key with this hash.
    At(u32),
    /// No node has this key.
    Missing,
    /// The table is too full to know.
    Unknown,
}

impl Places {
    /// A table for about `keys` keys.
    pub(super) fn new(keys: usize) -> Places {
        let slots = (keys * 8 / LOAD_MAX_EIGHTHS).next_power_of_two().max(SLOTS_MIN);
        Places {
            slots: zeroed_slots(slots),
            taken: AtomicUsize::new(0),
            overflowed: AtomicBool::new(false),
        }
    }

    /// The node of the key with this hash for which `is_key` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_key: impl FnMut(u32) -> bool) -> Lookup {
        match self.probe(hash, is_key) {
            (_, Some(place)) => Lookup::At(place),
            // The flag is set before a key is left out, and the reader came to know of that key later.
            _ if self.overflowed.load(Ordering::Acquire) => Lookup::Unknown,
            _ => Lookup::Missing,
        }
    }

    /// Makes `place` the newest node of its key. One thread at a time.
    pub(super) fn set(&self, hash: u64, place: u32, is_key: impl FnMut(u32) -> bool) {
        let (slot, known) = self.probe(hash, is_key);
        if known.is_none() {
            let taken = self.taken.load(Ordering::Relaxed);
            if taken >= self.slots.len() / 8 * LOAD_MAX_EIGHTHS {
                self.overflowed.store(true, Ordering::Release);
                return;
            }
            self.taken.store(taken + 1, Ordering::Relaxed);
        }
        let value = (hash & 0xffff_ffff_0000_0000) | u64::from(place);
        // Release: whoever finds the place also sees the node.
        self.slots[slot].store(value, Ordering::Release);
    }

    /// The slot of the key, or the free one where it would be. There always is a free one.
    #[inline]
    fn probe(&self, hash: u64, mut is_key: impl FnMut(u32) -> bool) -> (usize, Option<u32>) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let value = self.slots[slot].load(Ordering::Acquire);
            let place = value as u32;
            if place == 0 {
                return (slot, None);
            }
            if value >> 32 == hash >> 32 && is_key(place) {
                return (slot, Some(place));
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// Slots of zero. Asked for as zeroed memory, so that the pages come as they are touched.
fn zeroed_slots(count: usize) -> Box<[AtomicU64]> {
    let slots: Box<[u64]> = vec![0; count].into_boxed_slice();
    let slots = Box::into_raw(slots) as *mut [AtomicU64];
    // SAFETY: an AtomicU64 has the size and, on every machine that Rust's standard library offers it
    // with this layout, the alignment of a u64; the assertion below holds the latter.
    const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
    // SAFETY: as above; the box was just given up.
    unsafe { Box::from_raw(slots) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_missing_until_it_overflows() {
        let places = Places::new(1);
        let hash_of = |key: u32| crate::codec::key_hash(&key.to_le_bytes());
        assert!(matches!(places.find(hash_of(1), |place| place == 1), Lookup::Missing));
        for key in 1..=200_u32 {
            places.set(hash_of(key), key, |place| place == key);
        }
        assert!(matches!(places.find(hash_of(1), |place| place == 1), Lookup::At(1)));
        assert!(matches!(places.find(hash_of(200), |place| place == 200), Lookup::Unknown));
        places.set(hash_of(1), 900, |place| place == 1);
        assert!(matches!(places.find(hash_of(1), |place| place == 900), Lookup::At(900)));
    }
}
