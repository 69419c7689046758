//! The footer of a table, which locates the other parts (docs/format.md, Footer of a table).

use super::index::FILTER_ALIGNMENT_BYTES;
use super::{FOOTER_MAGIC, FOOTER_SIZE_BYTES, TableMetadata};
use crate::codec::{FILE_HEADER_LENGTH, checksum, checksum_seed, read_u32, read_u64};

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) offset: usize,
    pub(super) length: usize,
}

impl ByteRange {
    /// The bytes of the part; `bytes` are those of the file.
    #[inline]
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.offset..self.offset + self.length]
    }
}

/// The fields of the footer of a table.
pub(super) struct TableFooter {
    pub(super) offset: usize,
    pub(super) filter: ByteRange,
    pub(super) index: ByteRange,
    pub(super) entries: u64,
    pub(super) lowest_sequence: u64,
    pub(super) highest_sequence: u64,
    pub(super) tombstones: u64,
    pub(super) keys: u64,
    pub(super) stale_at_ms: u64,
}

/// Returns an error if the footer does not agree with the facts in the manifest.
pub(super) fn check_facts(
    facts: &TableMetadata,
    footer: &TableFooter,
    largest: &[u8],
) -> std::result::Result<(), &'static str> {
    if largest != &facts.largest[..] {
        return Err("the largest key is another one than the manifest says");
    }
    let figures = (facts.entries, facts.lowest_sequence, facts.highest_sequence);
    if figures != (footer.entries, footer.lowest_sequence, footer.highest_sequence) {
        return Err("the footer has other figures than the manifest");
    }
    Ok(())
}

/// The offset of the filter according to a footer of which only the magic is checked; `None` if
/// the magic is wrong.
pub(super) fn filter_begin(footer: &[u8; FOOTER_SIZE_BYTES]) -> Option<u64> {
    (footer[92..] == FOOTER_MAGIC).then(|| read_u64(footer, 0))
}

/// Reads the footer of a table that fills `bytes`, and checks that its parts fit together.
pub(super) fn read_footer(
    bytes: &[u8],
    store_identity: u64,
    number: u64,
) -> std::result::Result<TableFooter, (usize, &'static str)> {
    let least = FILE_HEADER_LENGTH + FOOTER_SIZE_BYTES;
    let Some(footer_offset) =
        bytes.len().checked_sub(FOOTER_SIZE_BYTES).filter(|_| bytes.len() >= least)
    else {
        return Err((0, "the file is too short for a table"));
    };
    let footer = &bytes[footer_offset..];
    let sum = checksum(checksum_seed(&[store_identity, number]), &footer[..88]);
    if footer[92..] != FOOTER_MAGIC || read_u32(footer, 88) != sum {
        return Err((footer_offset, "the checksum of the footer is wrong"));
    }
    let field = |index: usize| read_u64(footer, index * 8);
    let (filter_begin, filter_length, index_begin, index_length) =
        (field(0), field(1), field(2), field(3));
    let fits = filter_begin >= FILE_HEADER_LENGTH as u64
        && filter_begin.is_multiple_of(FILTER_ALIGNMENT_BYTES)
        && filter_begin.checked_add(filter_length) == Some(index_begin)
        && index_begin.checked_add(index_length) == Some(footer_offset as u64);
    if !fits {
        return Err((footer_offset, "the parts of the table do not fit together"));
    }
    // All four lie within the file, whose length is a usize.
    Ok(TableFooter {
        offset: footer_offset,
        filter: ByteRange { offset: filter_begin as usize, length: filter_length as usize },
        index: ByteRange { offset: index_begin as usize, length: index_length as usize },
        entries: field(4),
        lowest_sequence: field(5),
        highest_sequence: field(6),
        tombstones: field(7),
        keys: field(9),
        stale_at_ms: field(10),
    })
}

/// Reads the footer at the end of arbitrary bytes, as an opening does.
pub(crate) fn check_footer(bytes: &[u8]) -> std::result::Result<(), (usize, &'static str)> {
    read_footer(bytes, 0, 0).map(|_| ())
}
