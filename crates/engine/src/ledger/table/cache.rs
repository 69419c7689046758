//! A cache of decompressed blocks.
//!
//! The cache has shards, each with a lock that is held only for a look-up or an insertion. A shard
//! has two generations: a block found in the old one moves to the young one. When the young one has
//! reached its size, it becomes the old one, and the blocks of the previous old one are dropped. So
//! blocks in use stay, without a list that every look-up would have to change.

use std::collections::HashMap;
use std::sync::Arc;

use pellucid_thread::Mutex;

use super::memory_reservation::MemoryReservation;

const SHARDS: usize = 16;
/// The cache may take one in this many of the bytes of the tables' memory.
const CACHE_SHARE: u64 = 4;
/// The memory overhead of a cached block, in bytes.
const ENTRY_SIZE_BYTES: u64 = 96;

/// The key of a block: the number of its table, and its index in the table.
type Key = (u64, usize);

struct CachedBlock {
    bytes: Arc<[u8]>,
    /// The memory of the block, released together with it.
    _taken: MemoryReservation,
}

impl CachedBlock {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64 + ENTRY_SIZE_BYTES
    }
}

#[derive(Default)]
struct Shard {
    young: HashMap<Key, CachedBlock>,
    young_bytes: u64,
    old: HashMap<Key, CachedBlock>,
}

impl Shard {
    fn get(&mut self, key: Key, generation_max_bytes: u64) -> Option<Arc<[u8]>> {
        if let Some(cached) = self.young.get(&key) {
            return Some(Arc::clone(&cached.bytes));
        }
        let cached = self.old.remove(&key)?;
        let bytes = Arc::clone(&cached.bytes);
        self.insert(key, cached, generation_max_bytes);
        Some(bytes)
    }

    fn insert(&mut self, key: Key, cached: CachedBlock, generation_max_bytes: u64) {
        let size_bytes = cached.size_bytes();
        if self.young_bytes + size_bytes > generation_max_bytes {
            self.age();
        }
        self.young_bytes += size_bytes;
        if let Some(former) = self.young.insert(key, cached) {
            self.young_bytes -= former.size_bytes();
        }
    }

    /// Makes the young generation the old one, and drops the old one.
    fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
        self.young_bytes = 0;
    }
}

/// A cache of the decompressed blocks of all tables of a store.
pub(super) struct BlockCache {
    shards: [Mutex<Shard>; SHARDS],
    generation_max_bytes: u64,
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCache").finish_non_exhaustive()
    }
}

impl BlockCache {
    /// A cache for tables whose memory limit is `limit_bytes`.
    pub(super) fn new(limit_bytes: u64) -> BlockCache {
        BlockCache {
            shards: std::array::from_fn(|_| Mutex::default()),
            generation_max_bytes: limit_bytes / CACHE_SHARE / SHARDS as u64 / 2,
        }
    }

    /// Returns block `block` of table `table` from the cache, or else from `unpack`; the latter is
    /// cached if `take` finds room for it.
    pub(super) fn get<E>(
        &self,
        (table, block): Key,
        take: impl Fn(u64) -> Option<MemoryReservation>,
        unpack: impl FnOnce() -> Result<Arc<[u8]>, E>,
    ) -> Result<Arc<[u8]>, E> {
        let key = (table, block);
        let shard = &self.shards[(table as usize).wrapping_mul(31).wrapping_add(block) % SHARDS];
        let lock = || shard.lock();
        if let Some(bytes) = lock().get(key, self.generation_max_bytes) {
            return Ok(bytes);
        }
        // Not under the lock, so that other look-ups can go on.
        let bytes = unpack()?;
        let size_bytes = bytes.len() as u64 + ENTRY_SIZE_BYTES;
        if size_bytes <= self.generation_max_bytes {
            let mut shard = lock();
            let taken = take(size_bytes).or_else(|| {
                shard.age();
                take(size_bytes)
            });
            if let Some(taken) = taken {
                let cached = CachedBlock { bytes: Arc::clone(&bytes), _taken: taken };
                shard.insert(key, cached, self.generation_max_bytes);
            }
        }
        Ok(bytes)
    }

    /// Drops the blocks of table `table`, which was removed.
    pub(super) fn forget(&self, table: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.old.retain(|key, _| key.0 != table);
            shard.young.retain(|key, _| key.0 != table);
            shard.young_bytes = shard.young.values().map(CachedBlock::size_bytes).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::TableMemory;
    use super::*;

    #[test]
    fn blocks_in_use_stay_cached_and_memory_is_bounded() {
        let memory = TableMemory::new(1 << 20);
        let limit_bytes = (1 << 20) / CACHE_SHARE;
        let ask = |table: u64, block: usize| {
            let mut is_new = false;
            let bytes = memory.cached_block((table, block), || {
                is_new = true;
                Ok::<_, ()>(Arc::from(vec![block as u8; 900]))
            });
            assert_eq!(*bytes.unwrap(), vec![block as u8; 900]);
            is_new
        };
        assert!(ask(1, 7) && !ask(1, 7));
        let mut asked_anew = 0;
        for block in 0..5_000 {
            ask(2, block);
            asked_anew += u64::from(ask(1, 7));
            assert!(memory.used_bytes() <= limit_bytes, "{}", memory.used_bytes());
        }
        assert_eq!(asked_anew, 0, "a block in use stays");
        assert!(ask(2, 0), "an unused block is dropped");
        memory.forget_blocks(2);
        memory.forget_blocks(1);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn without_memory_nothing_is_cached() {
        let memory = TableMemory::new(10);
        for _ in 0..3 {
            let bytes = memory.cached_block((1, 1), || Ok::<_, ()>(Arc::from(vec![1; 900])));
            assert_eq!(bytes.unwrap().len(), 900);
        }
        assert_eq!(memory.used_bytes(), 0);
    }
}
