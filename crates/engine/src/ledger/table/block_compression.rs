//! Compressed blocks (docs/format.md, Packed block): they are decompressed when they are opened,
//! and kept in a cache within the memory of tables.
//!
//! A block that is not compressed is read directly from the mapped file. The feature costs it only
//! one comparison with a number that is read anyway.

use std::sync::Arc;

use super::block::{BLOCK_HEADER_SIZE_BYTES, Block, BlockFault, check_entries};
use crate::codec::{read_u16, read_u32};
use crate::compression::{Compression, pack, unpack};

/// The largest block that is compressed, in bytes: it has room for an entry with the longest key,
/// head and held value, and for some others. A decompressed block is never larger.
const UNPACKED_MAX_BYTES: usize = 256 << 10;

/// The bytes of an opened block.
pub(super) enum BlockBytes<'a> {
    /// A block as it is in the mapped file.
    Mapped(&'a [u8]),
    /// A decompressed block.
    Unpacked(Arc<[u8]>),
}

impl BlockBytes<'_> {
    /// The block.
    #[inline]
    pub(super) fn block(&self) -> Result<Block<'_>, BlockFault> {
        match self {
            BlockBytes::Mapped(bytes) => Block::new(bytes),
            BlockBytes::Unpacked(bytes) => Block::new(bytes),
        }
    }
}

/// True if `bytes`, a block of a file, are compressed: the header of such a block has zero entries.
#[inline]
pub(super) fn is_packed(bytes: &[u8]) -> bool {
    bytes.len() >= BLOCK_HEADER_SIZE_BYTES && read_u16(bytes, 8) == 0
}

/// Compresses the block from `begin` to the end of `out` in place, if that saves at least an
/// eighth. `scratch` is overwritten.
pub(super) fn pack_block(
    out: &mut Vec<u8>,
    begin: usize,
    compression: Compression,
    scratch: &mut Vec<u8>,
) {
    let block = &out[begin..];
    if compression == Compression::None || block.len() > UNPACKED_MAX_BYTES {
        return;
    }
    scratch.clear();
    scratch.extend_from_slice(&[0; 10]);
    scratch.extend_from_slice(&u16::from(compression.number()).to_le_bytes());
    if pack(block, scratch) {
        let length = scratch.len() as u32;
        scratch[4..8].copy_from_slice(&length.to_le_bytes());
        out.truncate(begin);
        out.extend_from_slice(scratch);
    }
}

/// Decompresses a block for which [`is_packed`] holds. The result must be a block that is not
/// compressed.
pub(super) fn unpack_block(bytes: &[u8]) -> Result<Arc<[u8]>, BlockFault> {
    let fault = |offset, what| Err(BlockFault { offset, what });
    if read_u32(bytes, 4) as usize != bytes.len() {
        return fault(4, "the block has another length than the index says");
    }
    match u8::try_from(read_u16(bytes, 10)).ok().and_then(Compression::from_number) {
        None => fault(10, "the block is compressed in a way that this build does not know"),
        Some(Compression::None) => fault(8, "the block has no entry"),
        Some(Compression::Lz4) => {
            match unpack(&bytes[BLOCK_HEADER_SIZE_BYTES..], UNPACKED_MAX_BYTES) {
                Some(unpacked) => Ok(unpacked),
                None => fault(BLOCK_HEADER_SIZE_BYTES as u32, "the block cannot be unpacked"),
            }
        }
    }
}

/// Checks everything about a block except its checksum: every entry decodes, and the order is
/// right.
pub(crate) fn check_block(bytes: &[u8]) -> Result<(), BlockFault> {
    if is_packed(bytes) {
        // An offset in the decompressed block is no offset in the file.
        let unpacked = unpack_block(bytes)?;
        return check_entries(&unpacked).map_err(|fault| BlockFault { offset: 0, ..fault });
    }
    check_entries(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::table::block_builder::BlockBuilder;
    use crate::ledger::{Entry, EntryKind};

    fn plain(entries: u64) -> Vec<u8> {
        let mut builder = BlockBuilder::default();
        for sequence in 0..entries {
            let key = [&[0, 1][..], &sequence.to_be_bytes()].concat();
            builder.add(&Entry {
                key: &key,
                sequence,
                kind: EntryKind::Put,
                value_length: 7,
                stored_length: 7,
                written_at_ms: 1_700_000_000_000,
                expires_at_ms: 0,
                head: b"a head that is often the same",
                value: Some(b"a value"),
            });
        }
        let mut out = Vec::new();
        builder.finish(&mut out);
        out
    }

    fn packed(block: &[u8]) -> Vec<u8> {
        let mut out = [b"before", block].concat();
        pack_block(&mut out, 6, Compression::Lz4, &mut Vec::new());
        assert_eq!(&out[..6], b"before");
        out.split_off(6)
    }

    #[test]
    fn a_packed_block_is_smaller_and_round_trips() {
        let block = plain(60);
        let packed = packed(&block);
        assert!(packed.len() < block.len() / 2, "{} of {}", packed.len(), block.len());
        assert!(is_packed(&packed) && !is_packed(&block));
        assert_eq!(*unpack_block(&packed).unwrap(), block[..]);
        assert_eq!(check_block(&packed), Ok(()));
        let tiny = plain(1);
        assert_eq!(super::tests::packed(&tiny), tiny, "nothing would be saved");
    }

    proptest! {
        #[test]
        fn changed_bytes_never_panic(
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
            cut in any::<usize>(),
        ) {
            let mut bytes = packed(&plain(40));
            for (at, value) in changes {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            if cut.is_multiple_of(3) {
                bytes.truncate(cut % (bytes.len() + 1));
            }
            let _ = check_block(&bytes);
        }
    }
}
