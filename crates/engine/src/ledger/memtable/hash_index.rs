//! The newest node of each key: a hash table, so that a GET from a memtable costs one or two cache
//! misses, and one for a key that is not there.
//!
//! There is one writer and any number of readers. When the table grows, readers that loaded the old
//! slots continue there; everything that was published to them is still in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use pellucid_io::ZeroedMemory;
use pellucid_thread::Mutex;

use super::pool::MemoryPool;
use crate::prefetch::prefetch;

/// The share of slots that may be taken, in eighths.
const LOAD_MAX_EIGHTHS: usize = 6;
const SLOTS_MIN: usize = 64;
/// A table is nearly full when at most one in this many of its slots can still be taken.
const NEARLY_SHARE: usize = 64;
const SLOT_SIZE_BYTES: usize = size_of::<AtomicU64>();

/// Slots; each is zero, or holds the upper half of the hash and, in its lower half, the place of
/// the node.
struct Slots {
    memory: ZeroedMemory,
    mask: usize,
}

impl Slots {
    fn new(count: usize, pool: &MemoryPool) -> Slots {
        assert!(count.is_power_of_two(), "a mask selects the slot");
        Slots { memory: pool.take(count * SLOT_SIZE_BYTES), mask: count - 1 }
    }

    #[inline]
    fn slot(&self, index: usize) -> &AtomicU64 {
        let index = index & self.mask;
        // SAFETY: the memory holds `mask + 1` aligned slots, initially zero, and used only as
        // atomics.
        unsafe { &*self.memory.pointer().cast::<AtomicU64>().add(index) }
    }

    /// The slot of the key, or the free slot where it would be inserted. There always is a free
    /// one.
    #[inline]
    fn probe(&self, hash: u64, mut is_key: impl FnMut(u32) -> bool) -> (usize, Option<u32>) {
        let mut index = (hash >> 32) as usize;
        loop {
            let value = self.slot(index).load(Ordering::Acquire);
            let place = value as u32;
            if place == 0 {
                return (index, None);
            }
            if value >> 32 == hash >> 32 && is_key(place) {
                return (index, Some(place));
            }
            index = (index + 1) & self.mask;
        }
    }
}

/// The initial number of slots of a table for about `keys` keys.
fn slots_for(keys: usize) -> usize {
    (keys * 8 / LOAD_MAX_EIGHTHS).next_power_of_two().max(SLOTS_MIN)
}

/// The memory of a table for about `keys` keys that did not have to grow, in bytes.
pub(super) fn places_memory_bytes(keys: usize) -> u64 {
    (slots_for(keys) * SLOT_SIZE_BYTES) as u64
}

/// The places of the newest nodes, by the hashes of their keys.
pub(super) struct HashIndex {
    current: AtomicPtr<Slots>,
    /// All slots that ever were current, the newest last: readers may still use older ones. They
    /// are not boxes, because moving a box invalidates other pointers into it.
    all: Mutex<Vec<Arc<Slots>>>,
    taken: AtomicUsize,
    pool: Arc<MemoryPool>,
}

impl HashIndex {
    /// A table for about `keys` keys; it grows if there are more.
    pub(super) fn new(keys: usize, pool: &Arc<MemoryPool>) -> HashIndex {
        let count = slots_for(keys);
        let places = HashIndex {
            current: AtomicPtr::new(std::ptr::null_mut()),
            all: Mutex::new(Vec::new()),
            taken: AtomicUsize::new(0),
            pool: Arc::clone(pool),
        };
        places.make_current(Slots::new(count, pool));
        places
    }

    fn make_current(&self, slots: Slots) {
        let mut all = self.all.lock();
        let slots = Arc::new(slots);
        let pointer = Arc::as_ptr(&slots).cast_mut();
        all.push(slots);
        // Release: a thread that finds these slots sees everything that was moved into them.
        self.current.store(pointer, Ordering::Release);
    }

    /// True if a few more keys would make the table grow.
    #[inline]
    pub(super) fn is_nearly_full(&self) -> bool {
        let slots = self.current().mask + 1;
        self.taken.load(Ordering::Relaxed) + slots / NEARLY_SHARE >= slots / 8 * LOAD_MAX_EIGHTHS
    }

    /// The memory of all slots, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let all = self.all.lock();
        all.iter().map(|slots| slots.memory.length() as u64).sum()
    }

    #[inline]
    fn current(&self) -> &Slots {
        // SAFETY: `new` made slots current, and no slots are freed before `self` is.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// Prefetches the cache line of the slot for this hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let slot: *const AtomicU64 = self.current().slot((hash >> 32) as usize);
        prefetch(slot.cast());
    }

    /// The newest node of the key with this hash for which `is_key` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        self.current().probe(hash, is_key).1
    }

    /// Makes the place that `place_of` returns the newest node of its key, and returns it;
    /// `place_of` gets the previous one. Only one thread at a time may call it.
    #[inline]
    pub(super) fn replace(
        &self,
        hash: u64,
        is_key: impl FnMut(u32) -> bool,
        place_of: impl FnOnce(Option<u32>) -> u32,
    ) -> u32 {
        let slots = self.current();
        let (index, known) = slots.probe(hash, is_key);
        let place = place_of(known);
        let value = (hash & 0xffff_ffff_0000_0000) | u64::from(place);
        // Release: a thread that finds the place also sees the node.
        slots.slot(index).store(value, Ordering::Release);
        if known.is_none() {
            let taken = self.taken.load(Ordering::Relaxed) + 1;
            self.taken.store(taken, Ordering::Relaxed);
            if taken >= (slots.mask + 1) / 8 * LOAD_MAX_EIGHTHS {
                self.grow(slots);
            }
        }
        place
    }

    #[cold]
    fn grow(&self, old: &Slots) {
        let slots = Slots::new((old.mask + 1) * 2, &self.pool);
        for index in 0..=old.mask {
            let value = old.slot(index).load(Ordering::Relaxed);
            if value != 0 {
                let (free, _) = slots.probe(value, |_| false);
                slots.slot(free).store(value, Ordering::Relaxed);
            }
        }
        self.make_current(slots);
    }
}

impl Drop for HashIndex {
    fn drop(&mut self) {
        let all = self.all.get_mut();
        for slots in all.drain(..).filter_map(Arc::into_inner) {
            self.pool.give_back(slots.memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_found_after_growth() {
        let places = HashIndex::new(1, &Arc::new(MemoryPool::new(0)));
        let hash_of = |key: u32| crate::codec::key_hash(&key.to_le_bytes());
        assert_eq!(places.find(hash_of(1), |place| place == 1), None);
        for key in 1..=20_000_u32 {
            places.replace(
                hash_of(key),
                |place| place == key,
                |known| {
                    assert_eq!(known, None);
                    key
                },
            );
        }
        assert!((1..=20_000_u32).all(|key| places.find(hash_of(key), |at| at == key) == Some(key)));
        assert_eq!(places.find(hash_of(20_001), |place| place == 20_001), None);
        places.replace(
            hash_of(1),
            |place| place == 1,
            |known| {
                assert_eq!(known, Some(1));
                90_000
            },
        );
        assert_eq!(places.find(hash_of(1), |place| place == 90_000), Some(90_000));
    }
}
