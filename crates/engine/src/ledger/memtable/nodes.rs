//! The nodes of a memtable, linked in the order of their insertion.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::arena::Arena;
use super::node::{Node, node_size_bytes, write_node};
use super::pool::MemoryPool;
use crate::ledger::{Entry, prefetch_to_write};

/// The place of the node before all others; as a link, it marks the end.
pub(super) const HEAD_PLACE: u32 = 0;

/// A list of nodes that one writer appends to, and any number of readers follow.
pub(super) struct Nodes {
    arena: Arena,
    /// The node that was linked last.
    last: AtomicU32,
    count: AtomicU64,
}

impl Nodes {
    /// A list with only the head node, in an arena for about `size_bytes`.
    pub(super) fn new(size_bytes: u64, pool: &Arc<MemoryPool>) -> Nodes {
        let nodes = Nodes {
            arena: Arena::new(size_bytes, pool),
            last: AtomicU32::new(HEAD_PLACE),
            count: AtomicU64::new(0),
        };
        // SAFETY: nothing else knows the arena, and the node is written into its own allocation.
        unsafe {
            let place = nodes.arena.allocate(node_size_bytes(&Entry::NOTHING));
            assert_eq!(place, HEAD_PLACE, "the head is the first node");
            write_node(nodes.arena.pointer(place), &Entry::NOTHING, HEAD_PLACE);
        }
        nodes
    }

    /// The pool from which the memory comes.
    pub(super) fn pool(&self) -> &MemoryPool {
        self.arena.pool()
    }

    /// The size of the nodes with their links, in bytes.
    #[inline]
    pub(super) fn size_bytes(&self) -> u64 {
        self.arena.size_bytes()
    }

    /// The memory of the nodes, including free memory, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.arena.memory_bytes()
    }

    /// The number of linked nodes.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Writes a node for `entry` and returns its place; the next older version is at `older`.
    ///
    /// # Safety
    /// Only one thread at a time may call it.
    #[inline]
    pub(super) unsafe fn write(&self, entry: &Entry<'_>, older: u32) -> u32 {
        // SAFETY: the caller is the only writer, and the node is written into its own allocation
        // before anything refers to it.
        unsafe {
            let size_bytes = node_size_bytes(entry);
            let place = self.arena.allocate(size_bytes);
            let pointer = self.arena.pointer(place);
            write_node(pointer, entry, older);
            // The end of the next node, if that is as long: a cache line that was not touched yet.
            prefetch_to_write(pointer.wrapping_add(2 * size_bytes));
            place
        }
    }

    /// Links the node at `place` behind the others.
    ///
    /// # Safety
    /// Called once, by the thread that wrote the node there.
    #[inline]
    pub(super) unsafe fn link(&self, place: u32) {
        // Release: a reader that follows the link sees the node as it was written.
        self.node(self.last.load(Ordering::Relaxed)).next().store(place, Ordering::Release);
        self.last.store(place, Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The node at `place`, which came from a link or from a slot of the same memtable.
    #[inline]
    pub(super) fn node(&self, place: u32) -> Node<'_> {
        // SAFETY: places come from links and slots, which are stored with release after the node is
        // written and loaded with acquire; the arena lives as long as `self`.
        unsafe { Node::new(self.arena.pointer(place)) }
    }

    /// The address of a node, for a prefetch only.
    #[inline]
    pub(super) fn address(&self, place: u32) -> *const u8 {
        self.arena.address(place)
    }
}
