//! The index of a table: the places of its blocks, and the last key of each (docs/format.md,
//! Index).
//!
//! In addition, 16 bytes per block are held in memory if the budget has room for them: the place of
//! the block, and the 8 bytes of its last key behind the common prefix of all keys of the table. A
//! search runs over this dense array, and compares whole keys only where these bytes are equal. If
//! they are equal for many blocks, because one kind of keys among several has a longer common
//! prefix, the 8 bytes behind the common prefix of those blocks are held, too. Without room in the
//! budget, searches use the index in the mapped file.

use std::sync::Arc;

use super::memory::TableMemory;
use super::memory_reservation::MemoryReservation;
use crate::codec::{read_u32, read_u64};

pub(super) const INDEX_HEADER_SIZE_BYTES: usize = 16;
const PLACE_SIZE_BYTES: usize = 16;
/// The filter, which follows the blocks, begins at a multiple of this, in bytes.
pub(super) const FILTER_ALIGNMENT_BYTES: u64 = 64;

/// Collects the places and last keys of a table's blocks.
#[derive(Default)]
pub(super) struct IndexBuilder {
    places: Vec<(u64, u32, usize)>,
    keys: Vec<u8>,
}

impl IndexBuilder {
    /// Notes a block of `length` bytes at `offset` whose last key is `last_key`.
    pub(super) fn add(&mut self, offset: u64, length: u32, last_key: &[u8]) {
        self.places.push((offset, length, self.keys.len()));
        self.keys.extend_from_slice(&(last_key.len() as u16).to_le_bytes());
        self.keys.extend_from_slice(last_key);
    }

    /// The number of blocks so far.
    #[inline]
    pub(super) fn blocks(&self) -> usize {
        self.places.len()
    }

    /// The memory of the builder, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.places.len() * size_of::<(u64, u32, usize)>() + self.keys.len()) as u64
    }

    /// Appends the index to `out`, with zeros in place of its checksum.
    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        let keys_begin = INDEX_HEADER_SIZE_BYTES + PLACE_SIZE_BYTES * self.places.len();
        let length = u32::try_from(keys_begin + self.keys.len()).expect("an index is below 4 GiB");
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(self.places.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for (offset, length, key) in &self.places {
            out.extend_from_slice(&offset.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&((keys_begin + key) as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.keys);
    }
}

/// The place of a block according to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockLocation {
    offset: u64,
    length: u32,
}

/// The part of an index that is in memory. The index was validated, and its bytes never change.
pub(super) struct TableIndex {
    /// The number of blocks.
    blocks: usize,
    /// The common prefix of all keys of the table.
    shared: Box<[u8]>,
    even: Option<EvenBlocks>,
    held: Option<HeldIndex>,
}

/// Blocks that all have the same length, except perhaps the last: their places need no look-up.
struct EvenBlocks {
    begin: usize,
    step: usize,
    /// The end of the last block.
    end: usize,
}

impl EvenBlocks {
    /// Detects even blocks in a valid index.
    fn of(bytes: &[u8], blocks: usize) -> Option<EvenBlocks> {
        let (first, last) = (place_at(bytes, 0), place_at(bytes, blocks - 1));
        let is_even = (0..blocks - 1).all(|block| place_at(bytes, block).length == first.length);
        is_even.then(|| EvenBlocks {
            begin: first.offset as usize,
            step: first.length as usize,
            end: last.offset as usize + last.length as usize,
        })
    }
}

/// The part that is held only if the budget has room for it.
struct HeldIndex {
    /// For the last key of each block, the 8 bytes behind the common prefix, as a big-endian
    /// number.
    fronts: Box<[u64]>,
    /// The beginning of each block, and the end of the last one, so that the index itself is not
    /// read. Empty if the blocks are even.
    offsets: Box<[u64]>,
    /// The stretches of blocks with equal fronts, in order.
    stretches: Box<[BlockRun]>,
    _taken: MemoryReservation,
}

/// The fewest consecutive blocks with the same front for which more of their keys is held; for
/// fewer, whole keys are compared.
const STRETCH_BLOCKS_MIN: usize = 8;

/// Consecutive blocks whose last keys have the same front.
struct BlockRun {
    /// The common front.
    front: u64,
    /// The index of the first block.
    begin: usize,
    /// The common prefix of the last keys.
    shared: Box<[u8]>,
    /// For each last key, the 8 bytes behind the common prefix, as a big-endian number.
    fronts: Box<[u64]>,
}

impl BlockRun {
    /// Finds the stretches among blocks with these fronts.
    fn all(bytes: &[u8], fronts: &[u64]) -> Box<[BlockRun]> {
        let mut begin = 0;
        let runs = fronts.chunk_by(|one, other| one == other).map(|run| {
            let place = begin..begin + run.len();
            begin = place.end;
            place
        });
        // Equal fronts are adjacent, because fronts ascend as keys do.
        runs.filter(|run| run.len() >= STRETCH_BLOCKS_MIN)
            .map(|run| {
                let key = |block| key_at(bytes, block).unwrap_or_default();
                let (first, last) = (key(run.start), key(run.end - 1));
                let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
                let front = |block| key(block).get(shared..).map_or(0, front_of);
                let (begin, shared) = (run.start, first[..shared].into());
                let rests = run.map(front).collect();
                BlockRun { front: fronts[begin], begin, shared, fronts: rests }
            })
            .collect()
    }

    fn size_bytes(&self) -> usize {
        size_of::<BlockRun>() + self.shared.len() + self.fronts.len() * size_of::<u64>()
    }

    /// The range of blocks in which the first block whose last key is not below `key` must be
    /// searched: the last keys of blocks before it are below `key`, those of blocks behind it are
    /// not.
    #[inline]
    fn narrow(&self, key: &[u8]) -> (usize, usize) {
        let (begin, end) = (self.begin, self.begin + self.fronts.len());
        let shared = self.shared.len().min(key.len());
        match key[..shared].cmp(&self.shared[..]) {
            std::cmp::Ordering::Less => (begin, begin),
            std::cmp::Ordering::Greater => (end, end),
            std::cmp::Ordering::Equal => {
                let (low, high) = equal_fronts(&self.fronts, front_of(&key[shared..]));
                (begin + low, begin + high)
            }
        }
    }
}

/// The range of fronts that are equal to `front`.
#[inline]
fn equal_fronts(fronts: &[u64], front: u64) -> (usize, usize) {
    let low = fronts.partition_point(|other| *other < front);
    if fronts.get(low) != Some(&front) {
        return (low, low);
    }
    (low, low + fronts[low..].partition_point(|other| *other == front))
}

/// The first 8 bytes of `rest`, padded with zeros, as a number that orders as the bytes do.
#[inline]
fn front_of(rest: &[u8]) -> u64 {
    if let Some(first) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(padded)
}

impl TableIndex {
    /// Reads and validates an index that fills `bytes`. The smallest key of the table is
    /// `smallest`, and its blocks are between `blocks_begin` and `blocks_end`, where the filter
    /// begins. An error has the offset and the description of the fault.
    pub(super) fn read(
        bytes: &[u8],
        smallest: &[u8],
        blocks_begin: u64,
        blocks_end: u64,
    ) -> Result<TableIndex, (usize, &'static str)> {
        if bytes.len() < INDEX_HEADER_SIZE_BYTES || read_u32(bytes, 4) as usize != bytes.len() {
            return Err((4, "the index has another length than the footer says"));
        }
        let blocks = read_u32(bytes, 8) as usize;
        if blocks == 0 || blocks > (bytes.len() - INDEX_HEADER_SIZE_BYTES) / PLACE_SIZE_BYTES {
            return Err((8, "the number of blocks does not fit the index"));
        }
        check_places(bytes, blocks, smallest, blocks_begin, blocks_end)?;
        let largest = key_at(bytes, blocks - 1).unwrap_or_default();
        let shared = smallest.iter().zip(largest).take_while(|(a, b)| a == b).count();
        let even = EvenBlocks::of(bytes, blocks);
        Ok(TableIndex { blocks, shared: smallest[..shared].into(), even, held: None })
    }

    /// Holds the data that makes searches fast, if `memory` has room for it. `bytes` is the index
    /// from which this was read.
    pub(super) fn hold(&mut self, bytes: &[u8], memory: &Arc<TableMemory>) {
        let offsets = if self.even.is_some() { 0 } else { self.blocks + 1 };
        let shared = self.shared.len();
        let fronts = (0..self.blocks).map(|block| {
            key_at(bytes, block).and_then(|key| key.get(shared..)).map_or(0, front_of)
        });
        let fronts: Box<[u64]> = fronts.collect();
        let stretches = BlockRun::all(bytes, &fronts);
        let size_bytes = (self.blocks + offsets) * size_of::<u64>()
            + stretches.iter().map(BlockRun::size_bytes).sum::<usize>();
        let Some(taken) = memory.take(size_bytes as u64) else { return };
        let last = place_at(bytes, self.blocks - 1);
        let offsets = (0..self.blocks).map(|block| place_at(bytes, block).offset);
        let offsets = offsets.chain([last.offset + u64::from(last.length)]);
        let offsets = if self.even.is_some() { Box::default() } else { offsets.collect() };
        self.held = Some(HeldIndex { fronts, offsets, stretches, _taken: taken });
    }

    /// The number of blocks.
    #[inline]
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The range of block `block` in the file, which is within the file because the index is valid.
    #[inline]
    pub(super) fn place(&self, bytes: &[u8], block: usize) -> std::ops::Range<usize> {
        if let Some(even) = &self.even {
            assert!(block < self.blocks, "block {block} is none of the table");
            let begin = even.begin + block * even.step;
            return begin..if block + 1 == self.blocks { even.end } else { begin + even.step };
        }
        match &self.held {
            Some(held) => held.offsets[block] as usize..held.offsets[block + 1] as usize,
            None => {
                let place = place_at(bytes, block);
                place.offset as usize..place.offset as usize + place.length as usize
            }
        }
    }

    /// The last key of block `block`. `bytes` is the index from which this was read.
    pub(super) fn last_key<'a>(&self, bytes: &'a [u8], block: usize) -> Option<&'a [u8]> {
        key_at(bytes, block)
    }

    /// The bytes held in memory.
    #[cfg(test)]
    pub(super) fn size_bytes(&self) -> usize {
        let Some(held) = &self.held else { return 0 };
        let stretches = held.stretches.iter().map(BlockRun::size_bytes).sum::<usize>();
        (held.fronts.len() + held.offsets.len()) * size_of::<u64>() + stretches
    }

    /// The first block whose last key is not below `key`; the number of blocks if there is none.
    /// `bytes` is the index from which this was read.
    #[inline]
    pub(super) fn search(&self, bytes: &[u8], key: &[u8]) -> usize {
        let shared = self.shared.len().min(key.len());
        match key[..shared].cmp(&self.shared[..]) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return self.blocks(),
            std::cmp::Ordering::Equal => {}
        }
        let (mut low, mut high) = (0, self.blocks);
        if let Some(held) = &self.held {
            let front = front_of(&key[shared..]);
            // There are few stretches, and most blocks are in one.
            let stretch = held.stretches.binary_search_by_key(&front, |stretch| stretch.front);
            (low, high) = match stretch {
                Ok(at) => held.stretches[at].narrow(key),
                Err(_) => equal_fronts(&held.fronts, front),
            };
        }
        while low < high {
            let middle = low.midpoint(high);
            match key_at(bytes, middle) {
                Some(last) if last < key => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }
}

fn place_at(bytes: &[u8], block: usize) -> BlockLocation {
    let begin = INDEX_HEADER_SIZE_BYTES + PLACE_SIZE_BYTES * block;
    BlockLocation { offset: read_u64(bytes, begin), length: read_u32(bytes, begin + 8) }
}

/// The last key of block `block`, if it lies within the index.
#[inline]
fn key_at(bytes: &[u8], block: usize) -> Option<&[u8]> {
    let begin = INDEX_HEADER_SIZE_BYTES + PLACE_SIZE_BYTES * block;
    let key = bytes.get(read_u32(bytes, begin + 12) as usize..)?;
    let (length, key) = key.split_first_chunk::<2>()?;
    key.get(..usize::from(u16::from_le_bytes(*length)))
}

fn check_places(
    bytes: &[u8],
    blocks: usize,
    smallest: &[u8],
    blocks_begin: u64,
    blocks_end: u64,
) -> Result<(), (usize, &'static str)> {
    let mut expected_offset = blocks_begin;
    let mut before = smallest;
    for block in 0..blocks {
        let begin = INDEX_HEADER_SIZE_BYTES + PLACE_SIZE_BYTES * block;
        let place = place_at(bytes, block);
        if place.offset != expected_offset || place.length == 0 {
            return Err((begin, "the block does not follow the one before it"));
        }
        expected_offset += u64::from(place.length);
        if expected_offset > blocks_end {
            return Err((begin, "the block goes beyond the blocks"));
        }
        let Some(key) = key_at(bytes, block) else {
            return Err((begin, "the last key of the block goes beyond the index"));
        };
        if key < before {
            return Err((begin, "the last key of the block is out of order"));
        }
        before = key;
    }
    if expected_offset.next_multiple_of(FILTER_ALIGNMENT_BYTES) != blocks_end {
        return Err((8, "there are more blocks than the index names"));
    }
    Ok(())
}

/// The largest key of the table, from a valid index.
pub(super) fn largest_key(bytes: &[u8], blocks: usize) -> &[u8] {
    key_at(bytes, blocks - 1).unwrap_or_default()
}

/// Checks an index as the opening of a table does, except for its checksum.
pub(crate) fn check_index(bytes: &[u8], blocks_end: u64) -> Result<(), (usize, &'static str)> {
    let shape = TableIndex::read(bytes, &[], 64, blocks_end)?;
    shape.search(bytes, &[1, 2, 3]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Regression: with keys of an index among keys of documents, all fronts were equal, and each
    /// search compared whole keys in the file.
    #[test]
    fn blocks_with_equal_fronts_are_searched_by_the_bytes_behind() {
        let mut builder = IndexBuilder::default();
        let key = |number: u32| [&b"all alike so far"[..], &number.to_be_bytes()].concat();
        builder.add(64, 100, b"aa");
        (1..40).for_each(|number| builder.add(64 + 100 * u64::from(number), 100, &key(number)));
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let end = (64_u64 + 100 * 40).next_multiple_of(64);
        let mut shape = TableIndex::read(&bytes, b"aa", 64, end).unwrap();
        shape.hold(&bytes, &TableMemory::new(1 << 20));
        let held = shape.held.as_ref().unwrap();
        assert_eq!((held.stretches.len(), held.stretches[0].begin), (1, 1));
        assert_eq!(held.stretches[0].narrow(&key(7)), (7, 8));
        assert_eq!(held.stretches[0].narrow(b"all alike"), (1, 1));
        assert_eq!(held.stretches[0].narrow(b"all alike to"), (40, 40));
    }

    #[test]
    fn even_blocks_have_the_same_places_as_by_the_index() {
        for lengths in [vec![100; 9], vec![100, 100, 40], vec![100, 90, 100], vec![7, 9], vec![7]] {
            let mut builder = IndexBuilder::default();
            let (mut begin, mut places) = (64, Vec::new());
            for (index, length) in lengths.iter().enumerate() {
                builder.add(begin, *length, &[index as u8]);
                places.push(begin as usize..begin as usize + *length as usize);
                begin += u64::from(*length);
            }
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            let shape = TableIndex::read(&bytes, &[0], 64, begin.next_multiple_of(64)).unwrap();
            let found: Vec<_> =
                (0..lengths.len()).map(|block| shape.place(&bytes, block)).collect();
            assert_eq!(found, places);
        }
    }

    proptest! {
        #[test]
        fn a_search_finds_the_block(
            keys in prop::collection::btree_set(prop::collection::vec(0_u8..3, 1..14), 1..60),
            front in prop::collection::vec(Just(5_u8), 0..12),
            sought in prop::collection::vec(0_u8..7, 0..16),
            is_of_two_kinds in any::<bool>(),
        ) {
            let sought = if is_of_two_kinds { [&front[..], &sought].concat() } else { sought };
            let keys = keys.into_iter().map(|key| [front.clone(), key].concat());
            let mut keys: Vec<Vec<u8>> = keys.collect();
            // With this key, all keys together share a shorter prefix than the others alone.
            keys.extend(is_of_two_kinds.then(|| vec![5, 9]));
            keys.sort();
            let mut builder = IndexBuilder::default();
            for (index, key) in keys.iter().enumerate() {
                builder.add(64 + 100 * index as u64, 100, key);
            }
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            let end = (64 + 100 * keys.len() as u64).next_multiple_of(64);
            let shape = TableIndex::read(&bytes, &keys[0], 64, end).unwrap();
            prop_assert_eq!(shape.blocks(), keys.len());
            let mut held = TableIndex::read(&bytes, &keys[0], 64, end).unwrap();
            held.hold(&bytes, &TableMemory::new(1 << 20));
            prop_assert!(held.size_bytes() > 0);
            prop_assert_eq!(largest_key(&bytes, keys.len()), &keys[keys.len() - 1][..]);
            for key in keys.iter().chain([&sought]) {
                let expected = keys.partition_point(|last| last < key);
                prop_assert_eq!(shape.search(&bytes, key), expected);
                prop_assert_eq!(held.search(&bytes, key), expected);
                let block = expected.min(keys.len() - 1);
                prop_assert_eq!(shape.place(&bytes, block), held.place(&bytes, block));
            }
            prop_assert!(TableIndex::read(&bytes, &keys[0], 64, end + 64).is_err());
            prop_assert!(TableIndex::read(&bytes, &keys[0], 128, end).is_err());
        }

        #[test]
        fn changed_bytes_never_panic(
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..5),
        ) {
            let mut builder = IndexBuilder::default();
            for index in 0..9_u8 {
                builder.add(64 + 100 * u64::from(index), 100, &[index, 1]);
            }
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            for (at, value) in changes {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            let _ = check_index(&bytes, 1024);
        }
    }
}
