//! Memory for the nodes of a memtable: handed out front to back, never moved, freed as a whole.
//!
//! Nodes name each other by 4-byte places instead of pointers, which halves their links. A place is
//! a chunk number and an offset in units of 8 bytes.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use pellucid_io::ZeroedMemory;
use pellucid_thread::Mutex;

use super::pool::MemoryPool;

/// Bytes of a unit: everything handed out begins at a multiple of it.
pub(super) const UNIT_SIZE_BYTES: usize = 8;
/// The largest chunk is a large page.
const CHUNK_UNITS_BITS: u32 = 18;
const CHUNK_SIZE_MAX_BYTES: usize = UNIT_SIZE_BYTES << CHUNK_UNITS_BITS;
const CHUNK_SIZE_MIN_BYTES: usize = 4 << 10;
/// The expected size is made up of at least so many chunks.
const CHUNKS_EXPECTED_MIN: usize = 4;
/// The first chunk is smaller, so that an empty memtable costs little.
const FIRST_CHUNK_SHARE: usize = 32;
/// At most 8 GiB in full chunks: far above any size at which a memtable is sealed.
const CHUNKS_MAX: usize = 4096;

/// A bump allocator with one writer and any number of readers.
pub(super) struct Arena {
    /// The first byte of each chunk, set once.
    pointers: Box<[AtomicPtr<u8>]>,
    chunks: Mutex<Vec<ZeroedMemory>>,
    pool: Arc<MemoryPool>,
    /// The chunk in use, and how many of its units are taken and there.
    chunk: AtomicU32,
    taken_units: AtomicU32,
    chunk_units: AtomicU32,
    size_bytes: AtomicU64,
    /// Bytes of all chunks.
    memory_bytes: AtomicU64,
    /// Size of a chunk until the expected size is reached; what is beyond comes in the largest.
    chunk_size_bytes: usize,
    expected_bytes: u64,
    last_place: AtomicU32,
}

/// Size of the chunks of an arena that is expected to grow to `expected_bytes`.
fn chunk_size_bytes(expected_bytes: u64) -> usize {
    let share = (expected_bytes as usize / CHUNKS_EXPECTED_MIN).max(1);
    (1 << share.ilog2()).clamp(CHUNK_SIZE_MIN_BYTES, CHUNK_SIZE_MAX_BYTES)
}

/// Memory of an arena that has grown to `expected_bytes`, as it was told.
pub(super) fn arena_memory_bytes(expected_bytes: u64) -> u64 {
    let chunk = chunk_size_bytes(expected_bytes);
    (chunk / FIRST_CHUNK_SHARE) as u64 + expected_bytes.next_multiple_of(chunk as u64)
}

// SAFETY: the raw pointers name memory that belongs to the arena alone; which part of it is written
// by whom is the contract of `allocate` and `pointer`.
unsafe impl Send for Arena {}
// SAFETY: as above; all state that changes is atomic or behind the mutex.
unsafe impl Sync for Arena {}

impl Arena {
    /// An empty arena that is expected to grow to about `expected_bytes`.
    pub(super) fn new(expected_bytes: u64, pool: &Arc<MemoryPool>) -> Arena {
        let chunk_size_bytes = chunk_size_bytes(expected_bytes);
        let arena = Arena {
            pointers: (0..CHUNKS_MAX).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect(),
            chunks: Mutex::new(Vec::new()),
            pool: Arc::clone(pool),
            chunk: AtomicU32::new(0),
            taken_units: AtomicU32::new(0),
            chunk_units: AtomicU32::new(0),
            size_bytes: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            chunk_size_bytes,
            expected_bytes,
            last_place: AtomicU32::new(0),
        };
        arena.add_chunk(chunk_size_bytes / FIRST_CHUNK_SHARE);
        arena
    }

    /// The source of its memory.
    pub(super) fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    /// Bytes handed out so far.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memory, those that are not handed out yet included.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Hands out `size_bytes` bytes and returns their place. They hold nothing yet.
    ///
    /// # Safety
    /// One thread at a time.
    pub(super) unsafe fn allocate(&self, size_bytes: usize) -> u32 {
        let units = size_bytes.div_ceil(UNIT_SIZE_BYTES);
        let taken = self.taken_units.load(Ordering::Relaxed);
        let free = self.chunk_units.load(Ordering::Relaxed) - taken;
        if units > free as usize {
            let is_beyond = self.size_bytes() > self.expected_bytes;
            let usual = if is_beyond { CHUNK_SIZE_MAX_BYTES } else { self.chunk_size_bytes };
            self.add_chunk((units * UNIT_SIZE_BYTES).max(usual));
        }
        let taken = self.taken_units.load(Ordering::Relaxed);
        // A chunk above the usual size is taken whole, so that no place beyond the usual is needed.
        let after = (taken as usize + units).min(1 << CHUNK_UNITS_BITS) as u32;
        self.taken_units.store(after, Ordering::Relaxed);
        let size_bytes = self.size_bytes() + (units * UNIT_SIZE_BYTES) as u64;
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        let place = (self.chunk.load(Ordering::Relaxed) << CHUNK_UNITS_BITS) | taken;
        self.last_place.store(place, Ordering::Relaxed);
        place
    }

    /// The place that was handed out last, for the thread that took it.
    #[inline]
    pub(super) fn last_place(&self) -> u32 {
        self.last_place.load(Ordering::Relaxed)
    }

    /// The first byte of what was handed out at `place`.
    ///
    /// # Safety
    /// `place` came from `allocate` of this arena, and reached this thread in a way that orders the
    /// two.
    #[inline]
    pub(super) unsafe fn pointer(&self, place: u32) -> *mut u8 {
        let chunk = (place >> CHUNK_UNITS_BITS) as usize;
        let units = (place & ((1 << CHUNK_UNITS_BITS) - 1)) as usize;
        // SAFETY: places hold chunk numbers below the number of chunks, by `add_chunk`.
        let base = unsafe { self.pointers.get_unchecked(chunk) }.load(Ordering::Relaxed);
        // SAFETY: the place was handed out within this chunk.
        unsafe { base.add(units * UNIT_SIZE_BYTES) }
    }

    /// The address of a place, to be asked for ahead of its use and never to be read: a chunk that
    /// this thread does not know yet gives an address of nothing.
    #[inline]
    pub(super) fn address(&self, place: u32) -> *const u8 {
        let chunk = (place >> CHUNK_UNITS_BITS) as usize;
        let units = (place & ((1 << CHUNK_UNITS_BITS) - 1)) as usize;
        let base = self.pointers[chunk].load(Ordering::Relaxed);
        base.wrapping_add(units * UNIT_SIZE_BYTES)
    }

    fn add_chunk(&self, size_bytes: usize) {
        let chunk = self.pool.take(size_bytes);
        let pointer = chunk.pointer();
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        self.memory_bytes.fetch_add(size_bytes as u64, Ordering::Relaxed);
        let number = chunks.len();
        assert!(number < CHUNKS_MAX, "a memtable grew to {CHUNKS_MAX} chunks: it was never sealed");
        chunks.push(chunk);
        self.pointers[number].store(pointer, Ordering::Relaxed);
        self.chunk.store(number as u32, Ordering::Relaxed);
        self.taken_units.store(0, Ordering::Relaxed);
        let units = (size_bytes / UNIT_SIZE_BYTES).min(u32::MAX as usize) as u32;
        self.chunk_units.store(units.min(1 << CHUNK_UNITS_BITS), Ordering::Relaxed);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let chunks = self.chunks.get_mut().unwrap_or_else(PoisonError::into_inner);
        chunks.drain(..).for_each(|chunk| self.pool.give_back(chunk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(expected_bytes: u64) -> Arena {
        Arena::new(expected_bytes, &Arc::new(MemoryPool::new(1 << 20)))
    }

    #[test]
    fn what_is_handed_out_never_overlaps() {
        for expected_bytes in [8 << 20, 10_000, 0] {
            check_hand_outs(&arena(expected_bytes));
        }
    }

    fn check_hand_outs(arena: &Arena) {
        let max = CHUNK_SIZE_MAX_BYTES;
        let sizes = [1, 8, 9, 64 << 10, max - 8, max + 5, 24, 3 << 20, 8];
        let mut handed_out = Vec::new();
        for size in sizes {
            // SAFETY: one thread.
            let place = unsafe { arena.allocate(size) };
            // SAFETY: the place came from this arena.
            let begin = unsafe { arena.pointer(place) };
            // SAFETY: `size` bytes were handed out there.
            unsafe { begin.write_bytes(size as u8, size) };
            handed_out.push((begin as usize, begin as usize + size));
        }
        handed_out.sort_unstable();
        assert!(handed_out.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        let exact: usize = sizes.iter().map(|size| size.next_multiple_of(8)).sum();
        assert_eq!(arena.size_bytes(), exact as u64);
        assert!(arena.memory_bytes() >= exact as u64);
    }

    /// The budget counts on it.
    #[test]
    fn memory_is_as_foretold() {
        for expected_bytes in [4 << 10, 100_000, 1 << 20, 8 << 20] {
            let arena = arena(expected_bytes);
            while arena.size_bytes() < expected_bytes {
                // SAFETY: one thread.
                unsafe { arena.allocate(48) };
            }
            assert!(arena.memory_bytes() <= arena_memory_bytes(expected_bytes));
        }
    }
}
