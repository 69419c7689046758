//! The memtable: the newest entries, in memory, in order.
//!
//! A skip list whose nodes lie in an arena and link upwards only. One writer (the façade's writer
//! lock sees to it, and a flag asserts it) links each node after it is wholly written, so readers
//! follow links without a lock and see an entry wholly or not at all. A hash table beside it answers
//! point look-ups.

mod arena;
mod node;
mod places;

use std::cmp::Ordering as Order;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use self::arena::Arena;
use self::node::{HEIGHT_MAX, Node, key_prefix, node_size_bytes, write_node};
use self::places::{Lookup, Places};
use super::prefetch::prefetch;
use super::{Entry, Kind};

/// Place of the node before all others; as a link, the end of the list.
const HEAD_PLACE: u32 = 0;
/// Bytes of a node with a short key, from which the number of keys is foretold.
const NODE_SIZE_USUAL_BYTES: u64 = 56;
/// Two random bits decide whether a node goes one level higher.
const HEIGHT_BITS: u32 = 2;

/// Entries in memory.
pub(crate) struct Memtable {
    arena: Arena,
    places: Places,
    /// Levels in use.
    height: AtomicU32,
    random: AtomicU64,
    writing: AtomicBool,
    entries: AtomicU64,
    lowest_sequence: AtomicU64,
    highest_sequence: AtomicU64,
}

impl Memtable {
    /// An empty memtable that will be sealed at about `size_bytes`.
    pub(crate) fn new(size_bytes: u64) -> Memtable {
        let memtable = Memtable {
            arena: Arena::new(),
            places: Places::new((size_bytes / NODE_SIZE_USUAL_BYTES) as usize),
            height: AtomicU32::new(1),
            random: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
            writing: AtomicBool::new(false),
            entries: AtomicU64::new(0),
            lowest_sequence: AtomicU64::new(u64::MAX),
            highest_sequence: AtomicU64::new(0),
        };
        let nothing = Entry {
            key: &[],
            sequence: 0,
            kind: Kind::Put,
            value_length: 0,
            written_at_ms: 0,
            expires_at_ms: 0,
            head: &[],
        };
        // SAFETY: nobody else knows of the arena, and the node is written where it was handed out.
        unsafe {
            let place = memtable.arena.allocate(node_size_bytes(&nothing, HEIGHT_MAX));
            assert_eq!(place, HEAD_PLACE, "the head is the first node");
            write_node(memtable.arena.pointer(place), &nothing, HEIGHT_MAX);
        }
        memtable
    }

    /// Bytes that the entries take, their links included.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.arena.size_bytes()
    }

    /// Number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// The highest sequence number of its entries, 0 if it is empty.
    pub(crate) fn highest_sequence(&self) -> u64 {
        self.highest_sequence.load(Ordering::Relaxed)
    }

    /// Adds an entry. `hash` is that of its key.
    ///
    /// # Panics
    /// If two threads do so at a time.
    pub(crate) fn insert(&self, entry: &Entry<'_>, hash: u64) {
        assert!(!self.writing.swap(true, Ordering::Acquire), "a memtable has one writer at a time");
        let height = self.draw_height();
        let mut before = [HEAD_PLACE; HEIGHT_MAX];
        let prefix = key_prefix(entry.key);
        self.find_before(prefix, entry.key, entry.sequence, &mut before);
        // SAFETY: the flag makes this the only writer, and the node is written before it is linked.
        let place = unsafe {
            let place = self.arena.allocate(node_size_bytes(entry, height));
            write_node(self.arena.pointer(place), entry, height);
            place
        };
        let node = self.node(place);
        for (level, before) in before.iter().enumerate().take(height) {
            let link = self.node(*before).link(level);
            node.link(level).store(link.load(Ordering::Relaxed), Ordering::Relaxed);
            // Release: whoever follows the link sees the node as it was written.
            link.store(place, Ordering::Release);
        }
        self.height.fetch_max(height as u32, Ordering::Release);
        self.note_newest(entry, hash, place);
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.lowest_sequence.fetch_min(entry.sequence, Ordering::Relaxed);
        self.highest_sequence.fetch_max(entry.sequence, Ordering::Relaxed);
        self.writing.store(false, Ordering::Release);
    }

    /// Makes the node the one that look-ups of its key begin with, unless a newer one is there.
    fn note_newest(&self, entry: &Entry<'_>, hash: u64, place: u32) {
        let mut newer = false;
        self.places.set(hash, place, |known| {
            let node = self.node(known);
            let same = node.key() == entry.key;
            newer |= same && node.sequence() > entry.sequence;
            same
        });
        assert!(!newer, "sequence number {} came after a higher one of its key", entry.sequence);
    }

    /// The newest entry of `key` that is not above `at_sequence`. `hash` is that of the key.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], hash: u64, at_sequence: u64) -> Option<Entry<'_>> {
        let mut place = match self.places.find(hash, |place| self.node(place).key() == key) {
            Lookup::At(place) => place,
            Lookup::Missing => return None,
            Lookup::Unknown => self.find(key, at_sequence),
        };
        while place != HEAD_PLACE {
            let node = self.node(place);
            if node.sequence() <= at_sequence {
                return (node.key() == key).then(|| node.entry());
            }
            // Older versions of a key follow the newer ones.
            place = node.link(0).load(Ordering::Acquire);
            if place != HEAD_PLACE && self.node(place).key() != key {
                return None;
            }
        }
        None
    }

    #[inline]
    fn node(&self, place: u32) -> Node<'_> {
        // SAFETY: places come from links and slots, which are stored with release after the node is
        // written and loaded with acquire; the arena lives as long as `self`.
        unsafe { Node::new(self.arena.pointer(place)) }
    }

    /// The first node at or after a place in the order, or the end.
    fn find(&self, key: &[u8], sequence: u64) -> u32 {
        let before = self.find_before(key_prefix(key), key, sequence, &mut [0; HEIGHT_MAX]);
        self.node(before).link(0).load(Ordering::Acquire)
    }

    /// The last node before a place in the order, on each level; returns the one on the lowest.
    #[inline]
    fn find_before(
        &self,
        prefix: u128,
        key: &[u8],
        sequence: u64,
        before: &mut [u32; HEIGHT_MAX],
    ) -> u32 {
        let mut place = HEAD_PLACE;
        // A node that was found to lie behind need not be compared again one level lower.
        let mut behind = HEAD_PLACE;
        for level in (0..self.height.load(Ordering::Acquire) as usize).rev() {
            loop {
                let node = self.node(place);
                let next = node.link(level).load(Ordering::Acquire);
                if next == HEAD_PLACE || next == behind {
                    break;
                }
                if level > 0 {
                    // If the next node lies behind, this one is compared after it.
                    let lower = node.link(level - 1).load(Ordering::Relaxed);
                    prefetch(self.arena.address(lower));
                }
                if self.node(next).compare(prefix, key, sequence) != Order::Less {
                    behind = next;
                    break;
                }
                place = next;
            }
            before[level] = place;
        }
        place
    }

    /// The last node, or the end if there is none.
    fn find_last(&self) -> u32 {
        let mut place = HEAD_PLACE;
        for level in (0..self.height.load(Ordering::Acquire) as usize).rev() {
            loop {
                let next = self.node(place).link(level).load(Ordering::Acquire);
                if next == HEAD_PLACE {
                    break;
                }
                place = next;
            }
        }
        place
    }

    fn draw_height(&self) -> usize {
        let mut random = self.random.load(Ordering::Relaxed);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.store(random, Ordering::Relaxed);
        let climbs = (random >> 16).trailing_zeros() / HEIGHT_BITS;
        (1 + climbs as usize).min(HEIGHT_MAX)
    }
}

/// A place in a memtable that moves over its entries.
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    place: u32,
}

impl MemtableCursor {
    /// A cursor that stands nowhere yet.
    pub(crate) fn new(memtable: Arc<Memtable>) -> MemtableCursor {
        MemtableCursor { memtable, place: HEAD_PLACE }
    }

    /// The entry that the cursor stands on.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        (self.place != HEAD_PLACE).then(|| self.memtable.node(self.place).entry())
    }

    /// Moves to the first entry.
    pub(crate) fn seek_first(&mut self) {
        self.place = self.memtable.node(HEAD_PLACE).link(0).load(Ordering::Acquire);
    }

    /// Moves to the last entry.
    pub(crate) fn seek_last(&mut self) {
        self.place = self.memtable.find_last();
    }

    /// Moves to the first entry whose key is not below `key`.
    pub(crate) fn seek_at_or_after(&mut self, key: &[u8]) {
        self.place = self.memtable.find(key, u64::MAX);
    }

    /// Moves to the last entry whose key is below `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) {
        self.find_before(key_prefix(key), key, u64::MAX);
    }

    /// Moves one entry on.
    #[inline]
    pub(crate) fn next(&mut self) {
        self.place = self.memtable.node(self.place).link(0).load(Ordering::Acquire);
    }

    /// Moves one entry back.
    pub(crate) fn previous(&mut self) {
        let memtable = Arc::clone(&self.memtable);
        let node = memtable.node(self.place);
        self.find_before(key_prefix(node.key()), node.key(), node.sequence());
    }

    fn find_before(&mut self, prefix: u128, key: &[u8], sequence: u64) {
        self.place = self.memtable.find_before(prefix, key, sequence, &mut [0; HEIGHT_MAX]);
    }
}

#[cfg(test)]
mod tests;
