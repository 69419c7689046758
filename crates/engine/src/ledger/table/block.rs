//! Data blocks: each holds a few neighbouring entries, so that reading one key reads few bytes
//! (docs/format.md, Data block and Entry).
//!
//! Decoding validates everything: a block with a valid checksum may still come from a faulty
//! writer. It must lead to an error with an offset, never to a panic or a wrong answer.

use std::cmp::Ordering as Order;

use crate::codec::{keys_equal, read_u16, read_u32, take_varint};
use crate::ledger::{Entry, EntryKind};

/// Length of a block's header, in bytes.
pub(super) const BLOCK_HEADER_SIZE_BYTES: usize = 12;

const KIND_MASK: u8 = 0b111;
pub(super) const FLAG_EXPIRES: u8 = 1 << 3;
pub(super) const FLAG_HEAD: u8 = 1 << 4;
pub(super) const FLAG_VALUE: u8 = 1 << 5;
pub(super) const FLAG_STORED: u8 = 1 << 6;
const FLAGS_KNOWN: u8 = KIND_MASK | FLAG_EXPIRES | FLAG_HEAD | FLAG_VALUE | FLAG_STORED;

/// A fault in a block, with its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockFault {
    /// The offset within the block.
    pub(crate) offset: u32,
    /// A description of the fault.
    pub(crate) what: &'static str,
}

fn fault<T>(offset: usize, what: &'static str) -> Result<T, BlockFault> {
    Err(BlockFault { offset: offset as u32, what })
}

/// A block whose checksum was verified.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    bytes: &'a [u8],
    entries: usize,
    prefix: &'a [u8],
}

impl<'a> Block<'a> {
    /// Reads the header of a block that fills `bytes`.
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Result<Block<'a>, BlockFault> {
        if bytes.len() < BLOCK_HEADER_SIZE_BYTES {
            return fault(0, "the block is shorter than its header");
        }
        if read_u32(bytes, 4) as usize != bytes.len() {
            return fault(4, "the block has another length than the index says");
        }
        let entries = usize::from(read_u16(bytes, 8));
        let prefix_begin = BLOCK_HEADER_SIZE_BYTES + 4 * entries;
        let prefix_end = prefix_begin + usize::from(read_u16(bytes, 10));
        match bytes.get(prefix_begin..prefix_end) {
            Some(prefix) if entries > 0 => Ok(Block { bytes, entries, prefix }),
            Some(_) => fault(8, "the block has no entry"),
            None => fault(8, "the block is too short for its entries"),
        }
    }

    /// A block whose header was read before, without its prefix.
    #[inline]
    pub(super) fn of_checked(bytes: &'a [u8], entries: usize) -> Block<'a> {
        Block { bytes, entries, prefix: &[] }
    }

    /// The number of entries, at least 1.
    #[inline]
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// The common prefix of all keys of the block.
    #[inline]
    pub(super) fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The bytes of entry `index` with everything behind it, and their offset in the block.
    #[inline]
    fn entry_bytes(&self, index: usize) -> Result<(usize, &'a [u8]), BlockFault> {
        debug_assert!(index < self.entries, "entry {index} of {}", self.entries);
        let place = BLOCK_HEADER_SIZE_BYTES + 4 * index;
        let offset = read_u32(self.bytes, place) as usize;
        match self.bytes.get(offset..) {
            Some(bytes) => Ok((offset, bytes)),
            None => fault(place, "the entry begins beyond the block"),
        }
    }

    /// The key of entry `index` without the common prefix, its sequence number, and the bytes
    /// behind.
    #[inline]
    fn key_at(&self, index: usize) -> Result<(&'a [u8], u64, &'a [u8]), BlockFault> {
        let (offset, mut bytes) = self.entry_bytes(index)?;
        let length = match bytes.split_first() {
            Some((first, rest)) if *first < 0x80 => {
                bytes = rest;
                usize::from(*first)
            }
            _ => match take_varint(&mut bytes).and_then(|length| usize::try_from(length).ok()) {
                Some(length) => length,
                None => return fault(offset, "the length of the key is cut short"),
            },
        };
        let Some((rest, after)) = bytes.split_at_checked(length) else {
            return fault(offset, "the key goes beyond the block");
        };
        match after.split_first_chunk::<8>() {
            Some((sequence, after)) => Ok((rest, u64::from_le_bytes(*sequence), after)),
            None => fault(offset, "the entry is cut short"),
        }
    }

    /// Decodes entry `index`, which must be below the number of entries. Its key lacks the common
    /// prefix of the block ([`Entry::with_key`]).
    #[inline]
    pub(super) fn entry(&self, index: usize) -> Result<Entry<'a>, BlockFault> {
        let (key, sequence, fields) = self.key_at(index)?;
        match decode_fields(key, sequence, fields) {
            Some(entry) => Ok(entry),
            None => fault(
                read_u32(self.bytes, BLOCK_HEADER_SIZE_BYTES + 4 * index) as usize,
                "the fields of the entry make no sense",
            ),
        }
    }

    /// The index of the first entry that is not before (`key`, `sequence`) in the order of
    /// ascending keys and descending sequence numbers; the number of entries if there is none.
    #[inline]
    pub(super) fn search(&self, key: &[u8], sequence: u64) -> Result<usize, BlockFault> {
        let shared = self.prefix.len().min(key.len());
        match self.prefix.cmp(&key[..shared]) {
            Order::Less => return Ok(self.entries),
            Order::Greater => return Ok(0),
            Order::Equal => {}
        }
        let rest = &key[shared..];
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low.midpoint(high);
            let (found, found_sequence, _) = self.key_at(middle)?;
            match found.cmp(rest).then_with(|| sequence.cmp(&found_sequence)) {
                Order::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Decodes entry `index` as [`Block::entry`] does; `None` if its key is not `key`.
    #[inline]
    pub(super) fn entry_of(
        &self,
        index: usize,
        key: &[u8],
    ) -> Result<Option<Entry<'a>>, BlockFault> {
        let entry = self.entry(index)?;
        let is_of_key = key.split_at_checked(self.prefix.len()).is_some_and(|(prefix, rest)| {
            keys_equal(rest, entry.key) && keys_equal(prefix, self.prefix)
        });
        Ok(is_of_key.then_some(entry))
    }
}

fn decode_fields<'a>(key: &'a [u8], sequence: u64, mut fields: &'a [u8]) -> Option<Entry<'a>> {
    let (flags, rest) = fields.split_first()?;
    fields = rest;
    let kind = EntryKind::from_number(flags & KIND_MASK)?;
    if flags & !FLAGS_KNOWN != 0 {
        return None;
    }
    let value_length = u32::try_from(take_varint(&mut fields)?).ok()?;
    let stored_length = match flags & FLAG_STORED {
        0 => value_length,
        _ => u32::try_from(take_varint(&mut fields)?).ok()?,
    };
    let written_at_ms = take_varint(&mut fields)?;
    let expires_at_ms = if flags & FLAG_EXPIRES == 0 { 0 } else { take_varint(&mut fields)? };
    let mut head: &[u8] = &[];
    if flags & FLAG_HEAD != 0 {
        let length = usize::try_from(take_varint(&mut fields)?).ok()?;
        (head, fields) = fields.split_at_checked(length)?;
    }
    let value = match flags & FLAG_VALUE {
        0 => None,
        _ => Some(fields.get(..value_length as usize)?),
    };
    Some(Entry {
        key,
        sequence,
        kind,
        value_length,
        stored_length,
        written_at_ms,
        expires_at_ms,
        head,
        value,
    })
}

/// Checks a block that is not compressed.
pub(super) fn check_entries(bytes: &[u8]) -> Result<(), BlockFault> {
    let block = Block::new(bytes)?;
    let mut before: Option<Entry<'_>> = None;
    for index in 0..block.entries() {
        let entry = block.entry(index)?;
        let ascends = before.is_none_or(|before| {
            let order = before.key.cmp(entry.key);
            order.then_with(|| entry.sequence.cmp(&before.sequence)) == Order::Less
        });
        if !ascends {
            return fault(BLOCK_HEADER_SIZE_BYTES + 4 * index, "the entry is out of order");
        }
        before = Some(entry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::block_builder::BlockBuilder;
    use super::super::block_compression::check_block;
    use super::*;

    type Fields = (bool, u32, u64, u64, (Vec<u8>, Option<Vec<u8>>));
    type Model = BTreeMap<(Vec<u8>, Reverse<u64>), Fields>;

    fn entry_in<'a>(key: &'a (Vec<u8>, Reverse<u64>), fields: &'a Fields) -> Entry<'a> {
        let (head, value) = (&fields.4.0, fields.4.1.as_deref());
        let value_length = value.map_or(fields.1, |value| value.len() as u32);
        Entry {
            key: &key.0,
            sequence: key.1.0,
            kind: if fields.0 { EntryKind::Put } else { EntryKind::Delete },
            value_length,
            stored_length: if fields.0 { value_length } else { fields.1 / 2 },
            written_at_ms: fields.2,
            expires_at_ms: fields.3,
            head,
            value,
        }
    }

    fn build(model: &Model) -> Vec<u8> {
        let mut builder = BlockBuilder::default();
        let mut estimated = 0;
        for (key, fields) in model {
            let entry = entry_in(key, fields);
            estimated = builder.size_with_bytes(&entry);
            builder.add(&entry);
        }
        let mut out = vec![1, 2, 3];
        builder.finish(&mut out);
        let size = out.len() - 3;
        assert!(size <= estimated + 2 * model.len(), "{size} > {estimated}");
        out.split_off(3)
    }

    fn models() -> impl Strategy<Value = Model> {
        let key = (prop::collection::vec(0_u8..3, 1..6), any::<u8>());
        let key =
            (prop::collection::vec(Just(7_u8), 0..4), key).prop_map(|(front, (key, sequence))| {
                ([front, key].concat(), Reverse(u64::from(sequence)))
            });
        let expires = prop_oneof![Just(0), any::<u64>()];
        let head = prop::collection::vec(any::<u8>(), 0..40);
        let head = (head, prop::option::of(prop::collection::vec(any::<u8>(), 0..70)));
        let fields = (any::<bool>(), any::<u32>(), any::<u64>(), expires, head);
        prop::collection::btree_map(key, fields, 1..80)
    }

    proptest! {
        #[test]
        fn a_block_round_trips(
            model in models(),
            sought in prop::collection::vec(0_u8..8, 0..7),
            at in any::<u8>(),
        ) {
            let bytes = build(&model);
            prop_assert_eq!(check_block(&bytes), Ok(()));
            let block = Block::new(&bytes).unwrap();
            prop_assert_eq!(block.entries(), model.len());
            for (index, (key, fields)) in model.iter().enumerate() {
                let found = block.entry_of(index, &key.0).unwrap().expect("it is there");
                prop_assert_eq!(found.with_key(&key.0), entry_in(key, fields));
                prop_assert_eq!(block.search(&key.0, key.1.0).unwrap(), index);
            }
            let place = (sought, Reverse(u64::from(at)));
            let expected = model.range(..place.clone()).count();
            prop_assert_eq!(block.search(&place.0, place.1.0).unwrap(), expected);
        }

        #[test]
        fn changed_bytes_never_panic(
            model in models(),
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
            cut in any::<usize>(),
        ) {
            let mut bytes = build(&model);
            for (at, value) in changes {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            let cut = if cut.is_multiple_of(3) { cut % (bytes.len() + 1) } else { bytes.len() };
            exercise(&bytes[..cut]);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            exercise(&bytes);
        }
    }

    fn exercise(bytes: &[u8]) {
        let sound = check_block(bytes).is_ok();
        let Ok(block) = Block::new(bytes) else {
            assert!(!sound);
            return;
        };
        for index in 0..block.entries() {
            assert!(block.entry(index).is_ok() || !sound);
        }
        let _ = block.search(&[7, 7, 1], 9);
        let _ = block.entry_of(0, &[7, 7, 1]);
    }
}
