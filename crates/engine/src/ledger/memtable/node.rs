//! A node of the memtable: an entry in the arena, and two places of other nodes.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | sequence number |
//! | 8 | 8 | written at |
//! | 16 | 4 | length of the value |
//! | 20 | 4 | length of the head |
//! | 24 | 4 | place of the next older node of the same key, or zero |
//! | 28 | 4 | place of the node that was added next, or zero; the only field that changes |
//! | 32 | 2 | length of the key |
//! | 34 | 1 | kind in bits 0–2; bits 3, 4 and 5 say what follows the head |
//! | 35 | | the key, the head |
//! | | 8 | expires at, if bit 3 |
//! | | 4 | length of the value as it is stored, if bit 4 |
//! | | | the value, if bit 5 |

use std::sync::atomic::AtomicU32;

use crate::ledger::{Entry, EntryKind};

const NEXT_OFFSET: usize = 28;
const KEY_OFFSET: usize = 35;

const KIND_MASK: u8 = 0b111;
const FLAG_EXPIRES: u8 = 1 << 3;
const FLAG_STORED: u8 = 1 << 4;
const FLAG_VALUE: u8 = 1 << 5;

/// Length of the node for `entry`, in bytes.
#[inline]
pub(super) fn node_size_bytes(entry: &Entry<'_>) -> usize {
    let expires = if entry.expires_at_ms == 0 { 0 } else { 8 };
    let stored = if entry.stored_length == entry.value_length { 0 } else { 4 };
    let value = entry.value.map_or(0, <[u8]>::len);
    KEY_OFFSET + entry.key.len() + entry.head.len() + expires + stored + value
}

/// A node that was completely written.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pointer: *const u8,
    arena: std::marker::PhantomData<&'a super::arena::Arena>,
}

impl<'a> Node<'a> {
    /// The node at `pointer`.
    ///
    /// # Safety
    /// [`write_node`] wrote the node, the write is visible to this thread, and the memory outlives
    /// `'a`.
    #[inline]
    pub(super) unsafe fn new(pointer: *const u8) -> Node<'a> {
        Node { pointer, arena: std::marker::PhantomData }
    }

    /// Reads a field that never changes.
    #[inline]
    fn field<T: Copy>(self, offset: usize) -> T {
        // SAFETY: a node has all its fields at their offsets, and is aligned to 8 bytes by the
        // arena; no field but `next` changes after the node was written.
        unsafe { self.pointer.add(offset).cast::<T>().read() }
    }

    /// The place of the next older node of the same key, or zero.
    #[inline]
    pub(super) fn older(self) -> u32 {
        self.field(24)
    }

    /// The place of the node that was inserted next.
    #[inline]
    pub(super) fn next(self) -> &'a AtomicU32 {
        // SAFETY: the field is 4-byte aligned, and used as an atomic only once the node is written.
        unsafe { &*self.pointer.add(NEXT_OFFSET).cast::<AtomicU32>() }
    }

    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        self.bytes(KEY_OFFSET, usize::from(self.field::<u16>(32)))
    }

    /// A variable part of the node. Each part is derived from the node's own pointer, because a
    /// pointer to another part may only be used within that part.
    #[inline]
    fn bytes(self, offset: usize, length: usize) -> &'a [u8] {
        // SAFETY: the callers ask for parts that the node has, and these never change.
        unsafe { std::slice::from_raw_parts(self.pointer.add(offset), length) }
    }

    #[inline]
    pub(super) fn sequence(self) -> u64 {
        self.field(0)
    }

    #[inline]
    pub(super) fn entry(self) -> Entry<'a> {
        let key = self.key();
        let head = self.bytes(KEY_OFFSET + key.len(), self.field::<u32>(20) as usize);
        let flags = self.field::<u8>(34);
        let is_put = flags & KIND_MASK == EntryKind::Put as u8;
        let value_length = self.field(16);
        let mut entry = Entry {
            key,
            sequence: self.sequence(),
            kind: if is_put { EntryKind::Put } else { EntryKind::Delete },
            value_length,
            stored_length: value_length,
            written_at_ms: self.field(8),
            expires_at_ms: 0,
            head,
            value: None,
        };
        if flags & !KIND_MASK != 0 {
            self.read_rest(&mut entry, flags);
        }
        entry
    }

    /// Reads the fields behind the head of `entry`, which the flags of its node announce.
    fn read_rest(self, entry: &mut Entry<'a>, flags: u8) {
        let mut at = KEY_OFFSET + entry.key.len() + entry.head.len();
        if flags & FLAG_EXPIRES != 0 {
            // SAFETY: nodes with this flag have 8 bytes behind the head, at any alignment.
            entry.expires_at_ms = unsafe { self.pointer.add(at).cast::<u64>().read_unaligned() };
            at += 8;
        }
        if flags & FLAG_STORED != 0 {
            // SAFETY: nodes with this flag have 4 bytes next, at any alignment.
            entry.stored_length = unsafe { self.pointer.add(at).cast::<u32>().read_unaligned() };
            at += 4;
        }
        if flags & FLAG_VALUE != 0 {
            entry.value = Some(self.bytes(at, entry.value_length as usize));
        }
    }
}

/// Writes a node for `entry`; the next older version of its key is at `older`.
///
/// # Safety
/// `pointer` points to [`node_size_bytes`] bytes, aligned to 8, which nothing else uses yet.
#[inline]
pub(super) unsafe fn write_node(pointer: *mut u8, entry: &Entry<'_>, older: u32) {
    let is_whole = entry.value.is_none_or(|value| value.len() == entry.value_length as usize);
    assert!(is_whole, "a value is held wholly or not at all");
    let key_length = u16::try_from(entry.key.len()).expect("keys have at most 2,052 bytes");
    let head_length = u32::try_from(entry.head.len()).expect("heads are below 4 GiB");
    let expires = if entry.expires_at_ms == 0 { 0 } else { FLAG_EXPIRES };
    let stored = if entry.stored_length == entry.value_length { 0 } else { FLAG_STORED };
    let value = if entry.value.is_some() { FLAG_VALUE } else { 0 };
    // SAFETY: every write lies within the node, at the alignment of its field; the caller
    // guarantees the memory.
    unsafe {
        pointer.cast::<u64>().write(entry.sequence);
        pointer.add(8).cast::<u64>().write(entry.written_at_ms);
        pointer.add(16).cast::<u32>().write(entry.value_length);
        pointer.add(20).cast::<u32>().write(head_length);
        pointer.add(24).cast::<u32>().write(older);
        pointer.add(NEXT_OFFSET).cast::<u32>().write(0);
        pointer.add(32).cast::<u16>().write(key_length);
        pointer.add(34).write(entry.kind as u8 | expires | stored | value);
        let key = pointer.add(KEY_OFFSET);
        std::ptr::copy_nonoverlapping(entry.key.as_ptr(), key, entry.key.len());
        let head = key.add(entry.key.len());
        std::ptr::copy_nonoverlapping(entry.head.as_ptr(), head, entry.head.len());
        let mut at = head.add(entry.head.len());
        if expires != 0 {
            at.cast::<u64>().write_unaligned(entry.expires_at_ms);
            at = at.add(8);
        }
        if stored != 0 {
            at.cast::<u32>().write_unaligned(entry.stored_length);
            at = at.add(4);
        }
        if let Some(value) = entry.value {
            std::ptr::copy_nonoverlapping(value.as_ptr(), at, value.len());
        }
    }
}
