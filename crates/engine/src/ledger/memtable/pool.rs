//! Memory of dropped memtables, kept for new ones.
//!
//! A memtable takes some megabytes every few hundred thousand writes. If the machine's memory is
//! full of cached files, the kernel takes milliseconds to find large pages, on the thread of the
//! writer that first touches them. So memory is reused. It is cleared when it is given back, on the
//! thread that flushed the memtable.

use std::collections::VecDeque;

use pellucid_io::ZeroedMemory;
use pellucid_thread::Mutex;

/// The size of sort buffers is a multiple of this, in bytes, so that a buffer also fits the next
/// memtable, which may have a few more entries. Shorter buffers are cheap to allocate.
const ROOM_STEP_BYTES: usize = 2 << 20;

/// A pool of memory for reuse. It keeps the pieces of at most one memtable, so that memory in use
/// and kept together never exceed the peak use, and the buffer in which the entries of the last
/// memtable were sorted.
pub(crate) struct MemoryPool {
    pieces: Mutex<Pieces>,
    room: Mutex<Option<ZeroedMemory>>,
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
        MemoryPool { pieces: Mutex::default(), room: Mutex::default(), limit_bytes }
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

    /// Returns a sort buffer of at least `length` bytes, with undefined content.
    pub(super) fn take_room(&self, length: usize) -> ZeroedMemory {
        let kept = self.room.lock().take();
        kept.filter(|room| room.length() >= length).unwrap_or_else(|| {
            let is_long = length >= ROOM_STEP_BYTES;
            ZeroedMemory::new(if is_long {
                length.next_multiple_of(ROOM_STEP_BYTES)
            } else {
                length
            })
        })
    }

    /// Keeps a sort buffer for reuse, if it is large enough to be worth it.
    pub(super) fn give_back_room(&self, room: ZeroedMemory) {
        if room.length() >= ROOM_STEP_BYTES && room.length() as u64 <= self.limit_bytes {
            let mut kept = self.room.lock();
            let other = kept.replace(room);
            drop(kept);
            drop(other);
        }
    }

    /// The memory that is kept, in bytes.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let room = self.room.lock();
        let room_bytes = room.as_ref().map_or(0, |room| room.length() as u64);
        drop(room);
        self.pieces.lock().bytes + room_bytes
    }
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
    fn a_sort_buffer_is_kept_and_reused_if_it_fits() {
        let pool = MemoryPool::new(6 << 20);
        pool.give_back_room(pool.take_room(1_000));
        assert_eq!(pool.kept_bytes(), 0, "a short one is not kept");
        let room = pool.take_room(3 << 20);
        let first = room.pointer();
        assert_eq!(room.length(), 4 << 20);
        pool.give_back_room(room);
        assert_eq!(pool.kept_bytes(), 4 << 20);
        let again = pool.take_room((3 << 20) + 5);
        assert_eq!((again.pointer(), pool.kept_bytes()), (first, 0));
        pool.give_back_room(again);
        pool.give_back_room(pool.take_room(7 << 20));
        assert_eq!(pool.kept_bytes(), 0, "too short for that, which is too long to be kept");
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
