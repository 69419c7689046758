//! Memory for the nodes of a memtable: allocated front to back, never moved, freed as a whole.
//!
//! Nodes refer to each other by 4-byte places instead of pointers, which halves their links. A
//! place is a chunk number and an offset in units of 8 bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use pellucid_io::ZeroedMemory;
use pellucid_thread::Mutex;

use super::pool::MemoryPool;

/// The allocation unit in bytes: every allocation begins at a multiple of it.
pub(super) const UNIT_SIZE_BYTES: usize = 8;
/// The size of the largest chunk is that of a large page.
const CHUNK_UNITS_BITS: u32 = 18;
const CHUNK_SIZE_MAX_BYTES: usize = UNIT_SIZE_BYTES << CHUNK_UNITS_BITS;
const CHUNK_SIZE_MIN_BYTES: usize = 4 << 10;
/// The expected size consists of at least this many chunks.
const CHUNKS_EXPECTED_MIN: usize = 4;
/// The first chunk is one in this many of a usual one, so that an empty memtable costs little.
const FIRST_CHUNK_SHARE: usize = 32;
/// The most chunks, 8 GiB in full ones: far above any size at which a memtable is sealed.
const CHUNKS_MAX: usize = 4096;

/// A bump allocator with one writer and any number of readers.
pub(super) struct Arena {
    /// The first byte of each chunk; each is set once.
    pointers: Box<[AtomicPtr<u8>]>,
    chunks: Mutex<Vec<ZeroedMemory>>,
    pool: Arc<MemoryPool>,
    /// The current chunk, and the number of its units that are taken and that it has.
    chunk: AtomicU32,
    taken_units: AtomicU32,
    chunk_units: AtomicU32,
    size_bytes: AtomicU64,
    /// The size of all chunks, in bytes.
    memory_bytes: AtomicU64,
    /// The size of a chunk until the expected size is reached; later chunks have the largest size.
    chunk_size_bytes: usize,
    expected_bytes: u64,
}

/// The size of the chunks of an arena that is expected to grow to `expected_bytes`.
fn chunk_size_bytes(expected_bytes: u64) -> usize {
    let share = (expected_bytes as usize / CHUNKS_EXPECTED_MIN).max(1);
    (1 << share.ilog2()).clamp(CHUNK_SIZE_MIN_BYTES, CHUNK_SIZE_MAX_BYTES)
}

/// The memory of an arena that has grown to the size that was expected, in bytes.
pub(super) fn arena_memory_bytes(expected_bytes: u64) -> u64 {
    let chunk = chunk_size_bytes(expected_bytes);
    (chunk / FIRST_CHUNK_SHARE) as u64 + expected_bytes.next_multiple_of(chunk as u64)
}

// SAFETY: the raw pointers refer to memory that belongs to the arena alone; the contracts of
// `allocate` and `pointer` say which thread may write which part.
unsafe impl Send for Arena {}
// SAFETY: as above; all mutable state is atomic or behind the mutex.
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
        };
        arena.add_chunk(chunk_size_bytes / FIRST_CHUNK_SHARE);
        arena
    }

    /// The pool from which the memory comes.
    pub(super) fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    /// The size of all allocations so far, in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// The memory of the arena, including free memory, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Allocates `size_bytes` bytes and returns their place. They are not initialised.
    ///
    /// # Safety
    /// Only one thread at a time may call it.
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
        // A chunk above the usual size is taken as a whole, so that no place beyond the usual range
        // is needed.
        let after = (taken as usize + units).min(1 << CHUNK_UNITS_BITS) as u32;
        self.taken_units.store(after, Ordering::Relaxed);
        let size_bytes = self.size_bytes() + (units * UNIT_SIZE_BYTES) as u64;
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        (self.chunk.load(Ordering::Relaxed) << CHUNK_UNITS_BITS) | taken
    }

    /// The first byte of the allocation at `place`.
    ///
    /// # Safety
    /// `place` came from `allocate` of this arena, and was passed to this thread with a
    /// happens-before relation.
    #[inline]
    pub(super) unsafe fn pointer(&self, place: u32) -> *mut u8 {
        let chunk = (place >> CHUNK_UNITS_BITS) as usize;
        let units = (place & ((1 << CHUNK_UNITS_BITS) - 1)) as usize;
        // SAFETY: the chunk number of a place is below the number of chunks, by `add_chunk`.
        let base = unsafe { self.pointers.get_unchecked(chunk) }.load(Ordering::Relaxed);
        // SAFETY: the place was allocated within this chunk.
        unsafe { base.add(units * UNIT_SIZE_BYTES) }
    }

    /// The address of a place, for a prefetch only: if this thread does not see the chunk yet, the
    /// address is invalid.
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
        let mut chunks = self.chunks.lock();
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
        let chunks = self.chunks.get_mut();
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
    fn allocations_never_overlap() {
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
            // SAFETY: `size` bytes were allocated there.
            unsafe { begin.write_bytes(size as u8, size) };
            handed_out.push((begin as usize, begin as usize + size));
        }
        handed_out.sort_unstable();
        assert!(handed_out.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        let exact: usize = sizes.iter().map(|size| size.next_multiple_of(8)).sum();
        assert_eq!(arena.size_bytes(), exact as u64);
        assert!(arena.memory_bytes() >= exact as u64);
    }

    /// The memory budget relies on the estimate.
    #[test]
    fn memory_is_at_most_the_estimate() {
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
