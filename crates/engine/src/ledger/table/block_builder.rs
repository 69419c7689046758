//! Encoding of data blocks (docs/format.md, Data block and Entry); [`super::block`] decodes them.

use super::block::{BLOCK_HEADER_SIZE_BYTES, FLAG_EXPIRES, FLAG_HEAD, FLAG_STORED, FLAG_VALUE};
use crate::codec::{put_varint, varint_length};
use crate::ledger::Entry;

/// The most entries of a block: their number is stored in 2 bytes.
const BLOCK_ENTRIES_MAX: usize = u16::MAX as usize;

/// The number of leading bytes that two keys share.
fn shared_length(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

struct PendingEntry {
    key_end: usize,
    fields_end: usize,
    sequence: u64,
}

/// Collects the entries of one block. The block is encoded when it is closed, because the common
/// prefix of all keys is known only then.
#[derive(Default)]
pub(super) struct BlockBuilder {
    keys: Vec<u8>,
    /// The encoded fields of the entries behind their sequence numbers.
    fields: Vec<u8>,
    pending: Vec<PendingEntry>,
    shared: usize,
}

impl BlockBuilder {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The number of entries so far.
    #[inline]
    pub(super) fn entries(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.pending.len() == BLOCK_ENTRIES_MAX
    }

    fn first_key(&self) -> &[u8] {
        &self.keys[..self.pending[0].key_end]
    }

    /// The length of the common prefix once `key` is added.
    #[inline]
    fn shared_with(&self, key: &[u8]) -> usize {
        if self.is_empty() {
            return key.len();
        }
        // Nearly always the key begins with the common prefix so far.
        let first = &self.keys[..self.shared];
        if key.starts_with(first) {
            return self.shared;
        }
        shared_length(&key[..self.shared.min(key.len())], self.first_key())
    }

    /// The size of the block once `entry` is added, or a few bytes more.
    pub(super) fn size_with_bytes(&self, entry: &Entry<'_>) -> usize {
        let entries = self.pending.len() + 1;
        let shared = self.shared_with(entry.key);
        let rests = self.keys.len() + entry.key.len() - shared * (entries - 1);
        // Per entry: its offset, its sequence number, and the length of the rest of its key.
        let fixed = entries * (4 + 8 + 1);
        BLOCK_HEADER_SIZE_BYTES + fixed + rests + self.fields.len() + fields_length(entry)
    }

    pub(super) fn add(&mut self, entry: &Entry<'_>) {
        self.shared = self.shared_with(entry.key);
        self.keys.extend_from_slice(entry.key);
        let expires = if entry.expires_at_ms == 0 { 0 } else { FLAG_EXPIRES };
        let head = if entry.head.is_empty() { 0 } else { FLAG_HEAD };
        let value = if entry.value.is_some() { FLAG_VALUE } else { 0 };
        let stored = if entry.stored_length == entry.value_length { 0 } else { FLAG_STORED };
        self.fields.push(entry.kind as u8 | expires | head | value | stored);
        put_varint(&mut self.fields, u64::from(entry.value_length));
        if stored != 0 {
            put_varint(&mut self.fields, u64::from(entry.stored_length));
        }
        put_varint(&mut self.fields, entry.written_at_ms);
        if expires != 0 {
            put_varint(&mut self.fields, entry.expires_at_ms);
        }
        if head != 0 {
            put_varint(&mut self.fields, entry.head.len() as u64);
            self.fields.extend_from_slice(entry.head);
        }
        if let Some(value) = entry.value {
            assert!(value.len() == entry.value_length as usize, "a value is held wholly");
            self.fields.extend_from_slice(value);
        }
        self.pending.push(PendingEntry {
            key_end: self.keys.len(),
            fields_end: self.fields.len(),
            sequence: entry.sequence,
        });
    }

    /// Appends the block to `out`, with zeros in place of its checksum, and starts a new one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        assert!(!self.is_empty(), "a block has at least one entry");
        let begin = out.len();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&(self.pending.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.shared as u16).to_le_bytes());
        let offsets = out.len();
        out.resize(offsets + 4 * self.pending.len(), 0);
        out.extend_from_slice(&self.keys[..self.shared]);
        let (mut key_begin, mut fields_begin) = (0, 0);
        for (index, entry) in self.pending.iter().enumerate() {
            let offset = (out.len() - begin) as u32;
            out[offsets + 4 * index..][..4].copy_from_slice(&offset.to_le_bytes());
            let rest = &self.keys[key_begin + self.shared..entry.key_end];
            put_varint(out, rest.len() as u64);
            out.extend_from_slice(rest);
            out.extend_from_slice(&entry.sequence.to_le_bytes());
            out.extend_from_slice(&self.fields[fields_begin..entry.fields_end]);
            (key_begin, fields_begin) = (entry.key_end, entry.fields_end);
        }
        let length = u32::try_from(out.len() - begin).expect("blocks are below 4 GiB");
        out[begin + 4..begin + 8].copy_from_slice(&length.to_le_bytes());
        self.keys.clear();
        self.fields.clear();
        self.pending.clear();
    }

    /// Sets the length in the header of a finished block to the current length of `block`.
    pub(super) fn note_padding(block: &mut [u8]) {
        let length = u32::try_from(block.len()).expect("blocks are below 4 GiB");
        block[4..8].copy_from_slice(&length.to_le_bytes());
    }
}

fn fields_length(entry: &Entry<'_>) -> usize {
    let mut length =
        1 + varint_length(u64::from(entry.value_length)) + varint_length(entry.written_at_ms);
    if entry.expires_at_ms != 0 {
        length += varint_length(entry.expires_at_ms);
    }
    if !entry.head.is_empty() {
        length += varint_length(entry.head.len() as u64) + entry.head.len();
    }
    if entry.stored_length != entry.value_length {
        length += varint_length(u64::from(entry.stored_length));
    }
    length + entry.value.map_or(0, <[u8]>::len)
}
