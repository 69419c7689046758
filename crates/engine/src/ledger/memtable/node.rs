//! A node of the memtable: an entry in the arena, and its links.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 16 | the first 16 bytes of the key as two big-endian numbers, zeros behind a shorter one |
//! | 16 | 8 | sequence number |
//! | 24 | 8 | written at |
//! | 32 | 4 | length of the value |
//! | 36 | 2 | length of the key |
//! | 38 | 1 | kind in bits 0–2; bit 3 = expires |
//! | 39 | 1 | height |
//! | 40 | 4 | length of the head |
//! | 44 | 4 × height | links, from the lowest |
//! | | | the key, the head, and 8 bytes expires at, if bit 3 |

use std::cmp::Ordering as Order;
use std::sync::atomic::AtomicU32;

use crate::ledger::{Entry, Kind};

const LINKS_OFFSET: usize = 44;
/// Links of the highest nodes: with one node in four going one higher, enough for 16 million.
pub(super) const HEIGHT_MAX: usize = 12;

const KIND_MASK: u8 = 0b111;
const FLAG_EXPIRES: u8 = 1 << 3;

/// The part of a key that is compared first.
#[inline]
pub(super) fn key_prefix(key: &[u8]) -> u128 {
    if let Some(first) = key.first_chunk::<16>() {
        return u128::from_be_bytes(*first);
    }
    let mut padded = [0; 16];
    padded[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(padded)
}

/// Bytes of a node for `entry`.
#[inline]
pub(super) fn node_size_bytes(entry: &Entry<'_>, height: usize) -> usize {
    let expires = if entry.expires_at_ms == 0 { 0 } else { 8 };
    LINKS_OFFSET + 4 * height + entry.key.len() + entry.head.len() + expires
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
        self.field(16)
    }

    #[inline]
    pub(super) fn entry(self) -> Entry<'a> {
        let key = self.key();
        let head_length = self.field::<u32>(40) as usize;
        // SAFETY: the head stands behind the key, and never changes.
        let head = unsafe { std::slice::from_raw_parts(key.as_ptr().add(key.len()), head_length) };
        let flags = self.field::<u8>(38);
        let expires_at_ms = if flags & FLAG_EXPIRES == 0 {
            0
        } else {
            // SAFETY: nodes with this flag have 8 bytes behind the head, at any alignment.
            unsafe { head.as_ptr().add(head.len()).cast::<u64>().read_unaligned() }
        };
        let is_put = flags & KIND_MASK == Kind::Put as u8;
        Entry {
            key,
            sequence: self.sequence(),
            kind: if is_put { Kind::Put } else { Kind::Delete },
            value_length: self.field(32),
            written_at_ms: self.field(24),
            expires_at_ms,
            head,
        }
    }

    /// Compares the node with a place in the order: key ascending, sequence number descending.
    #[inline]
    pub(super) fn compare(self, prefix: u128, key: &[u8], sequence: u64) -> Order {
        let front = u128::from(self.field::<u64>(0)) << 64 | u128::from(self.field::<u64>(8));
        match front.cmp(&prefix) {
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
    let prefix = key_prefix(entry.key);
    let expires = if entry.expires_at_ms == 0 { 0 } else { FLAG_EXPIRES };
    // SAFETY: every write lies within the node, at the alignment of its field; the caller gives the
    // memory.
    unsafe {
        pointer.cast::<u64>().write((prefix >> 64) as u64);
        pointer.add(8).cast::<u64>().write(prefix as u64);
        pointer.add(16).cast::<u64>().write(entry.sequence);
        pointer.add(24).cast::<u64>().write(entry.written_at_ms);
        pointer.add(32).cast::<u32>().write(entry.value_length);
        pointer.add(36).cast::<u16>().write(key_length);
        pointer.add(38).write(entry.kind as u8 | expires);
        pointer.add(39).write(height as u8);
        pointer.add(40).cast::<u32>().write(head_length);
        for level in 0..height {
            pointer.add(LINKS_OFFSET + 4 * level).cast::<u32>().write(0);
        }
        let key = pointer.add(LINKS_OFFSET + 4 * height);
        std::ptr::copy_nonoverlapping(entry.key.as_ptr(), key, entry.key.len());
        let head = key.add(entry.key.len());
        std::ptr::copy_nonoverlapping(entry.head.as_ptr(), head, entry.head.len());
        if expires != 0 {
            let expires_at_ms = head.add(entry.head.len()).cast::<u64>();
            expires_at_ms.write_unaligned(entry.expires_at_ms);
        }
    }
}
