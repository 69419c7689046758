//! A node of the memtable: an entry in the arena, and its links.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | the first 8 bytes of the key as a big-endian number, zeros behind a shorter one |
//! | 8 | 8 | sequence number |
//! | 16 | 8 | written at |
//! | 24 | 8 | expires at |
//! | 32 | 4 | length of the value |
//! | 36 | 2 | length of the key |
//! | 38 | 1 | kind |
//! | 39 | 1 | height |
//! | 40 | 4 | length of the head |
//! | 44 | 4 × height | links, from the lowest |
//! | | | the key, the head |

use std::cmp::Ordering as Order;
use std::sync::atomic::AtomicU32;

use crate::ledger::{Entry, Kind};

const LINKS_OFFSET: usize = 44;
/// Links of the highest nodes: with one node in four going one higher, enough for 16 million.
pub(super) const HEIGHT_MAX: usize = 12;

/// The part of a key that is compared first.
#[inline]
pub(super) fn key_prefix(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(padded)
}

/// Bytes of a node for `entry`.
#[inline]
pub(super) fn node_size_bytes(entry: &Entry<'_>, height: usize) -> usize {
    LINKS_OFFSET + 4 * height + entry.key.len() + entry.head.len()
}

/// A node that was written wholly.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pointer: *const u8,
    arena: std::marker::PhantomData<&'a super::arena::Arena>,
}

impl<'a> Node<'a> {
    /// The node at `pointer`.
    ///
    /// # Safety
    /// [`write_node`] wrote it, that is visible to this thread, and its memory outlives `'a`.
    #[inline]
    pub(super) unsafe fn new(pointer: *const u8) -> Node<'a> {
        Node { pointer, arena: std::marker::PhantomData }
    }

    /// Reads a field that is not a link.
    #[inline]
    fn field<T: Copy>(self, offset: usize) -> T {
        // SAFETY: a node has all its fields at their offsets, aligned as the arena aligns nodes to 8
        // bytes, and none but the links changes after it was written.
        unsafe { self.pointer.add(offset).cast::<T>().read() }
    }

    #[inline]
    fn height(self) -> usize {
        usize::from(self.field::<u8>(39))
    }

    /// The link of `level`, which must be below the node's height.
    #[inline]
    pub(super) fn link(self, level: usize) -> &'a AtomicU32 {
        debug_assert!(level < self.height(), "a node has no link on level {level}");
        // SAFETY: searches follow a link of a level only to nodes that are as high; links are 4-byte
        // aligned and used as atomics only, once the node is written.
        unsafe { &*self.pointer.add(LINKS_OFFSET + 4 * level).cast::<AtomicU32>() }
    }

    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        let length = usize::from(self.field::<u16>(36));
        // SAFETY: the key stands behind the links, and never changes.
        unsafe {
            let key = self.pointer.add(LINKS_OFFSET + 4 * self.height());
            std::slice::from_raw_parts(key, length)
        }
    }

    #[inline]
    pub(super) fn sequence(self) -> u64 {
        self.field(8)
    }

    #[inline]
    pub(super) fn entry(self) -> Entry<'a> {
        let key = self.key();
        let head_length = self.field::<u32>(40) as usize;
        // SAFETY: the head stands behind the key, and never changes.
        let head = unsafe { std::slice::from_raw_parts(key.as_ptr().add(key.len()), head_length) };
        Entry {
            key,
            sequence: self.sequence(),
            kind: if self.field::<u8>(38) == Kind::Put as u8 { Kind::Put } else { Kind::Delete },
            value_length: self.field(32),
            written_at_ms: self.field(16),
            expires_at_ms: self.field(24),
            head,
        }
    }

    /// Compares the node with a place in the order: key ascending, sequence number descending.
    #[inline]
    pub(super) fn compare(self, prefix: u64, key: &[u8], sequence: u64) -> Order {
        match self.field::<u64>(0).cmp(&prefix) {
            Order::Equal => {}
            unequal => return unequal,
        }
        self.key().cmp(key).then_with(|| sequence.cmp(&self.sequence()))
    }
}

/// Writes a node for `entry` with `height` links of zero.
///
/// # Safety
/// `pointer` names [`node_size_bytes`] bytes, aligned to 8, which nobody else uses yet.
pub(super) unsafe fn write_node(pointer: *mut u8, entry: &Entry<'_>, height: usize) {
    let key_length = u16::try_from(entry.key.len()).expect("keys have at most 1,026 bytes");
    let head_length = u32::try_from(entry.head.len()).expect("heads are below 4 GiB");
    // SAFETY: every write lies within the node, at the alignment of its field; the caller gives the
    // memory.
    unsafe {
        pointer.cast::<u64>().write(key_prefix(entry.key));
        pointer.add(8).cast::<u64>().write(entry.sequence);
        pointer.add(16).cast::<u64>().write(entry.written_at_ms);
        pointer.add(24).cast::<u64>().write(entry.expires_at_ms);
        pointer.add(32).cast::<u32>().write(entry.value_length);
        pointer.add(36).cast::<u16>().write(key_length);
        pointer.add(38).write(entry.kind as u8);
        pointer.add(39).write(height as u8);
        pointer.add(40).cast::<u32>().write(head_length);
        for level in 0..height {
            pointer.add(LINKS_OFFSET + 4 * level).cast::<u32>().write(0);
        }
        let key = pointer.add(LINKS_OFFSET + 4 * height);
        std::ptr::copy_nonoverlapping(entry.key.as_ptr(), key, entry.key.len());
        let head = key.add(entry.key.len());
        std::ptr::copy_nonoverlapping(entry.head.as_ptr(), head, entry.head.len());
    }
}
