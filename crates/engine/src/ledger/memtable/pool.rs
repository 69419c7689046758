//! Memory of dropped memtables, kept for new ones.
//!
//! A memtable takes some megabytes every few hundred thousand writes. If the machine's memory is
//! full of cached files, the kernel takes milliseconds to find large pages, on the thread of the
//! writer that first touches them. So memory is reused. It is cleared when it is given back, on the
//! thread that flushed the memtable.

use std::collections::VecDeque;

use pellucid_io::ZeroedMemory;
use pellucid_thread::Mutex;

use super::sort_item::SortItem;

/// A pool of memory for reuse. It keeps the pieces of at most one memtable, so that memory in use
/// and kept together never exceed the peak use, and the longest buffer of a sort.
pub(crate) struct MemoryPool {
    pieces: Mutex<Pieces>,
    /// Empty, with room for the next sort.
    sort_items: Mutex<Vec<SortItem>>,
    limit_bytes: u64,
}

#[derive(Default)]
struct Pieces {
    /// The kept pieces; the one that was given back last is at the back.
    kept: VecDeque<ZeroedMemory>,
    bytes: u64,
}

impl MemoryPool {
    /// An empty pool that keeps up to `limit_bytes`.
    pub(crate) fn new(limit_bytes: u64) -> MemoryPool {
        MemoryPool { pieces: Mutex::default(), sort_items: Mutex::default(), limit_bytes }
    }

    /// Returns `length` bytes of zeroed memory.
    pub(super) fn take(&self, length: usize) -> ZeroedMemory {
        let mut pieces = self.pieces.lock();
        let Some(at) = pieces.kept.iter().position(|piece| piece.length() == length) else {
            drop(pieces);
            return ZeroedMemory::new(length);
        };
        let piece = pieces.kept.remove(at);
        pieces.bytes -= length as u64;
        piece.expect("the position was found in the same list")
    }

    /// Keeps `piece` for reuse; drops the oldest pieces if the limit is exceeded. Memtables reuse
    /// pieces whose length is a power of two; other lengths were allocated for a single large
    /// entry.
    pub(super) fn give_back(&self, mut piece: ZeroedMemory) {
        let length = piece.length() as u64;
        if length > self.limit_bytes || !length.is_power_of_two() {
            return;
        }
        piece.clear();
        let mut gone = Vec::new();
        let mut pieces = self.pieces.lock();
        pieces.bytes += length;
        pieces.kept.push_back(piece);
        while pieces.bytes > self.limit_bytes {
            let oldest = pieces.kept.pop_front().expect("what is counted is kept");
            pieces.bytes -= oldest.length() as u64;
            gone.push(oldest);
        }
        // Freeing memory may take the kernel long, so it happens outside the lock.
        drop(pieces);
        drop(gone);
    }

    /// Returns an empty list for a sort.
    pub(super) fn take_sort_items(&self) -> Vec<SortItem> {
        std::mem::take(&mut self.sort_items.lock())
    }

    /// Keeps the memory of `items` for reuse, unless it exceeds the limit or longer memory is kept.
    pub(super) fn give_back_sort_items(&self, mut items: Vec<SortItem>) {
        items.clear();
        if size_bytes(&items) <= self.limit_bytes {
            let mut kept = self.sort_items.lock();
            if kept.capacity() < items.capacity() {
                std::mem::swap(&mut *kept, &mut items);
            }
        }
    }

    /// The memory that is kept, in bytes.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let sort_bytes = size_bytes(&self.sort_items.lock());
        self.pieces.lock().bytes + sort_bytes
    }
}

/// The memory of a list, in bytes.
fn size_bytes(items: &Vec<SortItem>) -> u64 {
    (items.capacity() * size_of::<SortItem>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_memory_is_zeroed_and_has_the_requested_length() {
        let pool = MemoryPool::new(10_000);
        for length in [4_096, 128, 4_096] {
            let piece = pool.take(length);
            // SAFETY: the range is the memory, and nothing else has it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(piece.pointer(), length) };
            assert!(piece.length() == length && bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            pool.give_back(piece);
        }
        assert_eq!(pool.kept_bytes(), 4_096 + 128);
    }

    #[test]
    fn the_longest_memory_of_a_sort_is_kept_within_the_limit() {
        let pool = MemoryPool::new(100 * size_of::<SortItem>() as u64);
        for (given, kept) in [(40, 40), (60, 60), (50, 60), (101, 60)] {
            pool.give_back_sort_items(Vec::with_capacity(given));
            assert_eq!(pool.kept_bytes(), (kept * size_of::<SortItem>()) as u64);
        }
        assert_eq!((pool.take_sort_items().capacity(), pool.kept_bytes()), (60, 0));
    }

    #[test]
    fn the_limit_is_kept_and_the_oldest_piece_goes_first() {
        let pool = MemoryPool::new(10_000);
        pool.give_back(ZeroedMemory::new(16_384));
        pool.give_back(ZeroedMemory::new(5_000));
        assert_eq!(pool.kept_bytes(), 0, "too long, and of an unusual length");
        for length in [4_096, 1_024, 2_048, 4_096] {
            pool.give_back(ZeroedMemory::new(length));
        }
        assert_eq!(pool.kept_bytes(), 1_024 + 2_048 + 4_096);
        drop(pool.take(4_096));
        assert_eq!(pool.kept_bytes(), 1_024 + 2_048);
        drop(pool.take(4_096));
        assert_eq!(pool.kept_bytes(), 1_024 + 2_048, "that one was new");
    }
}
