//! The memtable: the newest entries, in memory.
//!
//! Nodes are stored in an arena in the order of their insertion, and a hash table serves point
//! reads. They are sorted only when a scan or the flush needs an order ([`order`]). So a write
//! costs one look-up in the hash table; in a skip list it would cost a dozen cache misses.
//!
//! There is one writer at a time: the engine's writer lock ensures it, and a flag asserts it. It
//! links each node after the node is completely written, so readers follow links without a lock,
//! and see an entry completely or not at all.

mod arena;
mod cursor;
mod hash_index;
mod node;
mod nodes;
mod order;
mod pool;
mod prefix_filter;
mod sort_item;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use self::cursor::MemtableCursor;
pub(crate) use self::pool::MemoryPool;

use self::arena::arena_memory_bytes;
use self::hash_index::{HashIndex, places_memory_bytes};
use self::nodes::{HEAD_PLACE, Nodes};
use self::order::Order;
use self::prefix_filter::{PrefixFilter, prefixes_memory_bytes};
use super::Entry;
use crate::codec::keys_equal;

/// Length of a node with a short key, in bytes, from which the number of keys is estimated.
const NODE_SIZE_USUAL_BYTES: u64 = 48;

/// Length of an entry's place in the order, in bytes.
const ORDER_SIZE_BYTES: u64 = 4;

#[cfg(test)]
thread_local! {
    /// The number of versions that look-ups of this thread have examined in memtables.
    pub(crate) static VERSIONS_LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The number of keys of usual size for which a memtable of `size_bytes` is made.
fn keys_expected(size_bytes: u64) -> usize {
    (size_bytes / NODE_SIZE_USUAL_BYTES) as usize
}

/// The memory that a memtable takes when it is sealed at `size_bytes`.
pub(crate) fn memtable_memory_bytes(size_bytes: u64) -> u64 {
    let keys = keys_expected(size_bytes);
    let beside = places_memory_bytes(keys) + prefixes_memory_bytes(keys);
    arena_memory_bytes(size_bytes) + beside + keys as u64 * ORDER_SIZE_BYTES
}

/// Entries in memory.
pub(crate) struct Memtable {
    nodes: Nodes,
    places: HashIndex,
    order: Order,
    /// The prefixes of the keys, if tables have prefix rules.
    prefixes: Option<PrefixFilter>,
    writing: AtomicBool,
    lowest_sequence: AtomicU64,
    highest_sequence: AtomicU64,
}

impl Memtable {
    /// An empty memtable that will be sealed at about `size_bytes`, with memory from `pool`. It
    /// keeps the prefixes of its keys if `knows_prefixes`.
    pub(crate) fn new(size_bytes: u64, knows_prefixes: bool, pool: &Arc<MemoryPool>) -> Memtable {
        Memtable {
            nodes: Nodes::new(size_bytes, pool),
            places: HashIndex::new(keys_expected(size_bytes), pool),
            order: Order::default(),
            prefixes: knows_prefixes.then(|| PrefixFilter::new(keys_expected(size_bytes))),
            writing: AtomicBool::new(false),
            lowest_sequence: AtomicU64::new(u64::MAX),
            highest_sequence: AtomicU64::new(0),
        }
    }

    /// The size of the entries with their links, in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.nodes.size_bytes()
    }

    /// True if the memtable should be sealed: its entries take the `size_bytes` for which it was
    /// made, or they are so many that the hash table would have to grow.
    #[inline]
    pub(crate) fn is_full(&self, size_bytes: u64) -> bool {
        self.size_bytes() >= size_bytes || self.places.is_nearly_full()
    }

    /// The memory of the memtable, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let prefixes = self.prefixes.as_ref().map_or(0, PrefixFilter::memory_bytes);
        self.nodes.memory_bytes()
            + self.places.memory_bytes()
            + self.order.memory_bytes()
            + prefixes
    }

    /// The number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.nodes.count()
    }

    /// The highest sequence number of the entries; 0 if there are none.
    pub(crate) fn highest_sequence(&self) -> u64 {
        self.highest_sequence.load(Ordering::Relaxed)
    }

    /// Inserts an entry; `hash` is the hash of its key.
    ///
    /// # Panics
    /// If two threads insert at a time, or if the sequence number is not above that of the newest
    /// entry of the same key.
    pub(crate) fn insert(&self, entry: &Entry<'_>, hash: u64) {
        assert!(!self.writing.swap(true, Ordering::Acquire), "a memtable has one writer at a time");
        let is_key = |place| keys_equal(self.nodes.node(place).key(), entry.key);
        let place = self.places.replace(hash, is_key, |known| {
            let older = known.unwrap_or(HEAD_PLACE);
            let is_newer = |known| self.nodes.node(known).sequence() < entry.sequence;
            let in_order = known.is_none_or(is_newer);
            assert!(in_order, "sequence {} came after a higher one of its key", entry.sequence);
            // SAFETY: the flag makes this the only writer.
            unsafe { self.nodes.write(entry, older) }
        });
        // SAFETY: as above; the node was written.
        unsafe { self.nodes.link(place) };
        let lowest = self.lowest_sequence.load(Ordering::Relaxed).min(entry.sequence);
        self.lowest_sequence.store(lowest, Ordering::Relaxed);
        let highest = self.highest_sequence.load(Ordering::Relaxed).max(entry.sequence);
        self.highest_sequence.store(highest, Ordering::Relaxed);
        self.writing.store(false, Ordering::Release);
    }

    /// Notes the hash of an entry's prefix. Called before the entry is inserted.
    #[inline]
    pub(crate) fn note_prefix(&self, hash: u64) {
        if let Some(prefixes) = &self.prefixes {
            prefixes.note(hash);
        }
    }

    /// True if there may be keys with the prefix of this hash.
    #[inline]
    pub(crate) fn may_hold_prefix(&self, hash: u64) -> bool {
        self.prefixes.as_ref().is_none_or(|prefixes| prefixes.may_hold(hash))
    }

    /// Prefetches the memory that inserting an entry accesses first; `hash` is the hash of its key.
    #[inline]
    pub(crate) fn prefetch_slot(&self, hash: u64) {
        self.places.prefetch(hash);
    }

    /// True if all entries are above `at_sequence`, so that a reader there sees none of them.
    #[inline]
    pub(crate) fn is_newer_than(&self, at_sequence: u64) -> bool {
        // All entries that a reader may see were counted before they were published.
        self.lowest_sequence.load(Ordering::Relaxed) > at_sequence
    }

    /// The newest entry of `key` at or below `at_sequence`; `hash` is the hash of the key.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], hash: u64, at_sequence: u64) -> Option<Entry<'_>> {
        // A reader at an older sequence number need not walk the versions of the key, which may be
        // hundreds of thousands.
        if self.is_newer_than(at_sequence) {
            return None;
        }
        let is_key = |place| keys_equal(self.nodes.node(place).key(), key);
        let mut place = self.places.find(hash, is_key)?;
        while place != HEAD_PLACE {
            #[cfg(test)]
            VERSIONS_LOOKED_AT.with(|count| count.set(count.get() + 1));
            let node = self.nodes.node(place);
            if node.sequence() <= at_sequence {
                return Some(node.entry());
            }
            place = node.older();
        }
        None
    }
}

#[cfg(test)]
mod tests;
