//! The parts that all files on disk are made of (`docs/format.md`): file header, checksums, varints
//! and internal keys.

use std::mem::MaybeUninit;
use std::path::Path;

use crate::error::{Error, Result};

/// The format version that this build writes, and the highest that it reads.
pub(crate) const FORMAT_VERSION: u16 = 1;
/// Length of the header that every file starts with, in bytes.
pub(crate) const FILE_HEADER_LENGTH: usize = 64;
/// The longest user key, in bytes.
pub const KEY_LENGTH_MAX: usize = 1024;
/// The longest head, in bytes.
pub const HEAD_LENGTH_MAX: usize = 64 << 10;
/// The longest value that any setting allows, in bytes.
pub const VALUE_LENGTH_HARD_MAX: usize = (4 << 30) - (1 << 20);
/// The longest term of an index entry, in bytes.
pub const TERM_LENGTH_MAX: usize = 512;
/// The longest key of an index entry, in bytes: a term of which every byte is escaped, the mark
/// that ends the term, and the key of an object.
pub(crate) const INDEX_KEY_LENGTH_MAX: usize = 2 * TERM_LENGTH_MAX + 2 + KEY_LENGTH_MAX;
/// Length of the table number that precedes the user's key in an internal key, in bytes.
pub(crate) const TABLE_PREFIX_LENGTH: usize = 2;
/// The longest internal key, in bytes.
pub(crate) const INTERNAL_KEY_LENGTH_MAX: usize = TABLE_PREFIX_LENGTH + INDEX_KEY_LENGTH_MAX;
/// The longest varint, in bytes.
pub(crate) const VARINT_LENGTH_MAX: usize = 10;

/// The kind of a file, which its header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Manifest,
    Journal,
    Table,
}

impl FileKind {
    fn magic(self) -> [u8; 8] {
        match self {
            FileKind::Manifest => *b"PLCDMANI",
            FileKind::Journal => *b"PLCDJRNL",
            FileKind::Table => *b"PLCDTABL",
        }
    }
}

/// The first 64 bytes of every file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) kind: FileKind,
    /// The format version of the file.
    pub(crate) version: u16,
    pub(crate) store_identity: u64,
    /// Number of the segment or table; for a manifest its version counter.
    pub(crate) number: u64,
    /// Journal: the segment's first sequence number; otherwise zero.
    pub(crate) first_sequence: u64,
    /// Journal: identity of the mount of the file system in which the segment was made; otherwise
    /// zero.
    pub(crate) mount_identity: [u8; 16],
}

impl FileHeader {
    /// The header of a manifest or table that is being written.
    pub(crate) fn new(kind: FileKind, store_identity: u64, number: u64) -> FileHeader {
        FileHeader {
            kind,
            version: FORMAT_VERSION,
            store_identity,
            number,
            first_sequence: 0,
            mount_identity: [0; 16],
        }
    }

    pub(crate) fn encode(&self) -> [u8; FILE_HEADER_LENGTH] {
        let mut bytes = [0; FILE_HEADER_LENGTH];
        bytes[0..8].copy_from_slice(&self.kind.magic());
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.store_identity.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first_sequence.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.mount_identity);
        let sum = checksum(0, &bytes[..60]);
        bytes[60..64].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes the header of `path` and checks that it announces a file of `kind`.
    pub(crate) fn decode(bytes: &[u8], kind: FileKind, path: &Path) -> Result<FileHeader> {
        let Some(bytes) = bytes.first_chunk::<FILE_HEADER_LENGTH>() else {
            return Err(Error::corruption(path, 0, "shorter than a file header"));
        };
        if bytes[0..8] != kind.magic() {
            return Err(Error::corruption(path, 0, "the magic of the file is wrong"));
        }
        // The checksum has its place in every version. It is checked first, so that a damaged
        // version is not mistaken for a newer one.
        if read_u32(bytes, 60) != checksum(0, &bytes[..60]) {
            return Err(Error::corruption(path, 0, "the checksum of the file header is wrong"));
        }
        let version = read_u16(bytes, 8);
        if version == 0 {
            return Err(Error::corruption(path, 8, "the file header has no format version"));
        }
        if version > FORMAT_VERSION {
            return Err(Error::Version { path: path.to_path_buf(), found: version });
        }
        let mut mount_identity = [0; 16];
        mount_identity.copy_from_slice(&bytes[40..56]);
        Ok(FileHeader {
            kind,
            version,
            store_identity: read_u64(bytes, 16),
            number: read_u64(bytes, 24),
            first_sequence: read_u64(bytes, 32),
            mount_identity,
        })
    }

    /// Decodes as [`FileHeader::decode`] does, and checks that the header has this store identity
    /// and file number.
    pub(crate) fn decode_expected(
        bytes: &[u8],
        kind: FileKind,
        store_identity: u64,
        number: u64,
        path: &Path,
    ) -> Result<FileHeader> {
        let header = FileHeader::decode(bytes, kind, path)?;
        if header.store_identity != store_identity {
            return Err(Error::Foreign { path: path.to_path_buf() });
        }
        if header.number != number {
            let what = format!("the header says file {}, not {number}", header.number);
            return Err(Error::corruption(path, 24, what));
        }
        Ok(header)
    }
}

pub(crate) use crate::bytes::{read_u16, read_u32, read_u64};
pub(crate) use crate::crc::checksum;

/// The initial CRC of a checksum that also covers `numbers` (store identity, file number, offset):
/// the crc32c of their little-endian bytes.
#[inline]
pub(crate) fn checksum_seed(numbers: &[u64]) -> u32 {
    numbers.iter().fold(0, |seed, number| checksum(seed, &number.to_le_bytes()))
}

/// Appends `value` as a varint: 7 bits per byte, least significant first.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The bytes that `value` takes as a varint.
#[inline]
pub(crate) fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Takes a varint from the front of `bytes`; `None` if it is cut short or has more than 64 bits.
#[inline]
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    if first < 0x80 {
        *bytes = &bytes[1..];
        return Some(u64::from(first));
    }
    // Up to 8 bytes in one read: every look-up decodes several varints.
    if let Some(word) = bytes.first_chunk::<8>().map(|word| u64::from_le_bytes(*word)) {
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            // Keep the bits up to the first byte whose upper bit is clear, and drop the bytes
            // behind it.
            let word = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
            let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
            let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
            let word = (word & 0x0000_0000_0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4;
            *bytes = &bytes[ends.trailing_zeros() as usize / 8 + 1..];
            return Some(word);
        }
    }
    take_long_varint(bytes)
}

/// Decodes as [`take_varint`] does, byte by byte.
fn take_long_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(VARINT_LENGTH_MAX).enumerate() {
        if index == VARINT_LENGTH_MAX - 1 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

/// True if two keys are equal. Keys are short, and calling the library's comparison costs more than
/// comparing.
#[inline]
pub(crate) fn keys_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (Some(one_last), Some(other_last)) = (one.last_chunk::<8>(), other.last_chunk::<8>())
    else {
        return one.iter().zip(other).all(|(one, other)| one == other);
    };
    // The last 8 bytes may overlap the chunks that were compared; keys shorter than 8 were handled
    // above.
    let (one, other) = (one.chunks_exact(8), other.chunks_exact(8));
    one.zip(other).all(|(one, other)| read_u64(one, 0) == read_u64(other, 0))
        && u64::from_le_bytes(*one_last) == u64::from_le_bytes(*other_last)
}

/// The 64-bit hash of an internal key, for the filters of tables.
#[inline]
pub(crate) fn key_hash(internal_key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(internal_key)
}

/// A buffer on the stack for an internal key: the table number, then the user's key. The key is set
/// in place, because returning it by value would copy the whole buffer.
pub(crate) struct InternalKey {
    bytes: [MaybeUninit<u8>; INTERNAL_KEY_LENGTH_MAX],
    length: usize,
}

impl InternalKey {
    /// A buffer without a key.
    #[inline]
    pub(crate) fn empty() -> InternalKey {
        InternalKey { bytes: [const { MaybeUninit::uninit() }; INTERNAL_KEY_LENGTH_MAX], length: 0 }
    }

    /// Sets this to the internal key of an object's `key` in `table`.
    #[inline]
    pub(crate) fn set(&mut self, table: u16, key: &[u8]) -> Result<()> {
        self.set_up_to(table, key, KEY_LENGTH_MAX)
    }

    /// Sets this to the internal key of an object or of an index entry, which may be longer.
    #[inline]
    pub(crate) fn set_entry(&mut self, table: u16, key: &[u8]) -> Result<()> {
        self.set_up_to(table, key, INDEX_KEY_LENGTH_MAX)
    }

    #[inline]
    fn set_up_to(&mut self, table: u16, key: &[u8], limit: usize) -> Result<()> {
        let limit = limit.min(INDEX_KEY_LENGTH_MAX);
        if key.is_empty() || key.len() > limit {
            return Err(Error::KeyLength { length: key.len(), limit });
        }
        let [high, low] = table.to_be_bytes();
        self.bytes[0].write(high);
        self.bytes[1].write(low);
        // SAFETY: the key's length was checked to fit behind the prefix, and nothing else borrows
        // the buffer.
        unsafe {
            let rest = self.bytes.as_mut_ptr().add(TABLE_PREFIX_LENGTH).cast::<u8>();
            std::ptr::copy_nonoverlapping(key.as_ptr(), rest, key.len());
        }
        self.length = TABLE_PREFIX_LENGTH + key.len();
        Ok(())
    }

    /// The internal key.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: the first `length` bytes were written when `length` was set.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast::<u8>(), self.length) }
    }
}

/// The table number and the user's key of an internal key; `None` if it is too short for both.
#[inline]
pub(crate) fn split_internal_key(internal_key: &[u8]) -> Option<(u16, &[u8])> {
    let (prefix, key) = internal_key.split_first_chunk::<TABLE_PREFIX_LENGTH>()?;
    (!key.is_empty()).then_some((u16::from_be_bytes(*prefix), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_bad_ones_are_refused() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes.len(), varint_length(value));
            let mut rest = &bytes[..];
            assert_eq!(take_varint(&mut rest), Some(value));
            assert!(rest.is_empty());
            let mut cut = &bytes[..bytes.len() - 1];
            assert_eq!(take_varint(&mut cut), None);
        }
        for bits in 0..64 {
            let (value, mut bytes) = (u64::MAX >> bits ^ 0x55, Vec::new());
            put_varint(&mut bytes, value);
            bytes.extend([0xff; 9]);
            let mut rest = &bytes[..];
            assert_eq!(take_varint(&mut rest), Some(value));
            assert_eq!(rest, [0xff; 9]);
        }
        assert_eq!(take_varint(&mut &[0xff; 11][..]), None);
        assert_eq!(
            take_varint(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..]),
            None
        );
    }

    /// Regression: one flipped bit of the version was reported as a file of a newer release.
    #[test]
    fn a_header_round_trips_and_every_flipped_bit_is_damage() {
        let path = Path::new("journal/1");
        let header = FileHeader {
            kind: FileKind::Journal,
            version: FORMAT_VERSION,
            store_identity: 77,
            number: 3,
            first_sequence: 9,
            mount_identity: [5; 16],
        };
        let bytes = header.encode();
        let decoded = FileHeader::decode_expected(&bytes, FileKind::Journal, 77, 3, path);
        assert_eq!(decoded.unwrap(), header);
        for bit in 0..FILE_HEADER_LENGTH * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let refused = FileHeader::decode(&flipped, FileKind::Journal, path);
            assert!(matches!(refused, Err(Error::Corruption { .. })), "bit {bit}");
        }
        let foreign = FileHeader::decode_expected(&bytes, FileKind::Journal, 78, 3, path);
        assert!(matches!(foreign, Err(Error::Foreign { .. })));
        let newer = FileHeader { version: FORMAT_VERSION + 1, ..header }.encode();
        let refused = FileHeader::decode(&newer, FileKind::Journal, path);
        assert!(matches!(refused, Err(Error::Version { found: 2, .. })));
    }

    #[test]
    fn keys_of_all_lengths_are_compared_in_full() {
        for length in 0..40 {
            let key: Vec<u8> = (0..length).collect();
            assert!(keys_equal(&key, &key.clone()));
            assert!(!keys_equal(&key, &[&key[..], &[0]].concat()));
            for at in 0..key.len() {
                let mut other = key.clone();
                other[at] ^= 0x80;
                assert!(!keys_equal(&key, &other), "byte {at} of {length}");
            }
        }
    }

    #[test]
    fn internal_keys_sort_by_table_first() {
        let (mut low, mut high) = (InternalKey::empty(), InternalKey::empty());
        low.set(1, b"z").unwrap();
        high.set(256, b"a").unwrap();
        assert!(low.as_bytes() < high.as_bytes());
        assert_eq!(split_internal_key(high.as_bytes()), Some((256, &b"a"[..])));
        assert!(high.set(1, &[0; KEY_LENGTH_MAX + 1]).is_err());
        assert!(high.set_entry(1, &[0; INDEX_KEY_LENGTH_MAX]).is_ok());
        assert!(high.set_entry(1, &[0; INDEX_KEY_LENGTH_MAX + 1]).is_err());
        assert!(high.set(1, b"").is_err());
        high.set(1, b"b").unwrap();
        assert_eq!(high.as_bytes(), b"\0\x01b");
    }
}
