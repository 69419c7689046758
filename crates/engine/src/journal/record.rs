//! A record of the journal: its layout and its checks (`docs/format.md`, Record).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::codec::{
    HEAD_LENGTH_MAX, INTERNAL_KEY_LENGTH_MAX, VALUE_LENGTH_HARD_MAX, checksum, keys_equal,
    read_u16, read_u32, read_u64, split_internal_key,
};
use crate::compression::{Compression, unpack, unpacked_length};
use crate::header_form::{HeaderForm, SEQUENCE_END, WRITTEN_AT_MAX_MS};
use crate::ledger::EntryKind;

/// Length of the shortest record, in bytes.
pub(crate) const RECORD_LENGTH_MIN: usize = HeaderForm::Short.length();
/// Length of a sync mark, in bytes.
pub(crate) const SYNC_MARK_LENGTH: u64 = RECORD_LENGTH_MIN as u64 + 8;
/// Length of the fields that are the same in both forms of header: checksum and length, in bytes.
const FRONT_LENGTH: usize = 8;
/// The bit of a short header's first word at which the sequence number ends: then come the record's
/// kind, the flags, and [`MARK_SHORT`]. In a long one there are zeros.
const MARKS_SHIFT: u32 = 56;
/// The highest bit of the marks: the header is a short one. A word with it that were taken for a
/// checksum and a length would be the beginning of a record above 2 GiB. So no two words that
/// follow each other can both look like the beginning of a record, whatever a client writes
/// (below 2³² times 24 records, whose numbers are no lengths), and a search for records has half
/// as much to add up ([`peek`]).
const MARK_SHORT: u8 = 1 << 7;
/// The first bit of the flags within the marks, and the first bit of the key's length within the
/// second word.
const FLAGS_SHIFT: u32 = 2;
const KEY_LENGTH_SHIFT: u32 = 48;
/// Flag bit: the batch continues with the next record.
const FLAG_BATCH_GOES_ON: u8 = 1;
/// The flag bits for the value's compression.
const COMPRESSION_SHIFT: u8 = 1;
const COMPRESSION_MASK: u8 = 0b111;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Put = 1,
    Delete = 2,
    SyncMark = 3,
}

/// A record, borrowed from a writer or from a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The form of the header.
    pub(crate) form: HeaderForm,
    pub(crate) sequence: u64,
    pub(crate) written_at_ms: u64,
    pub(crate) expires_at_ms: u64,
    pub(crate) kind: RecordKind,
    /// True if the batch continues with the next record.
    pub(crate) batch_goes_on: bool,
    pub(crate) key: &'a [u8],
    pub(crate) head: &'a [u8],
    /// The compression of the value.
    pub(crate) compression: Compression,
    /// The value as it is stored: compressed, if `compression` says so.
    pub(crate) value: &'a [u8],
}

/// The reason why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Nothing was written there.
    Nothing,
    /// The length is impossible.
    Length,
    /// The checksum is wrong.
    Checksum,
    /// The checksum is right, but the fields are impossible.
    Fields,
    /// The checksum is right, but the value cannot be decompressed.
    Packed,
}

impl Damage {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Damage::Nothing => "there is no record",
            Damage::Length => "the record's length is impossible",
            Damage::Checksum => "the record's checksum is wrong",
            Damage::Fields => "the record's fields are impossible",
            Damage::Packed => "the record's value cannot be unpacked",
        }
    }
}

/// The length of a record without its padding, and its sequence number, read before its checksum is
/// verified; `None` if the bytes cannot be a record. `bytes` must have at least
/// [`RECORD_LENGTH_MIN`] bytes.
pub(crate) fn peek(bytes: &[u8]) -> Option<(usize, u64)> {
    let first = read_u64(bytes, FRONT_LENGTH);
    form_of((first >> MARKS_SHIFT) as u8)?;
    Some((read_u32(bytes, 4) as usize, first & (SEQUENCE_END - 1)))
}

/// The form of a header with these marks; `None` if the marks are invalid.
#[inline]
fn form_of(marks: u8) -> Option<HeaderForm> {
    match marks {
        0 => Some(HeaderForm::Long),
        MARK_SHORT.. => Some(HeaderForm::Short),
        _ => None,
    }
}

impl From<EntryKind> for RecordKind {
    fn from(kind: EntryKind) -> RecordKind {
        match kind {
            EntryKind::Put => RecordKind::Put,
            EntryKind::Delete => RecordKind::Delete,
        }
    }
}

impl RecordKind {
    fn from_number(number: u8) -> Option<RecordKind> {
        match number {
            1 => Some(RecordKind::Put),
            2 => Some(RecordKind::Delete),
            3 => Some(RecordKind::SyncMark),
            _ => None,
        }
    }
}

/// The fixed fields of a record, for either form of header.
struct Fields {
    form: HeaderForm,
    sequence: u64,
    written_at_ms: u64,
    expires_at_ms: u64,
    key_length: usize,
    head_length: usize,
    kind: u8,
    flags: u8,
}

impl Fields {
    /// Reads the fields at the front of `bytes`, a whole record; `None` if the record is too short
    /// or the form is invalid.
    #[inline]
    fn of(bytes: &[u8]) -> Option<Fields> {
        let first = read_u64(bytes, 8);
        let marks = (first >> MARKS_SHIFT) as u8;
        if form_of(marks)? == HeaderForm::Short {
            let second = read_u64(bytes, 16);
            return Some(Fields {
                form: HeaderForm::Short,
                sequence: first & (SEQUENCE_END - 1),
                written_at_ms: second & WRITTEN_AT_MAX_MS,
                expires_at_ms: 0,
                key_length: (second >> KEY_LENGTH_SHIFT) as usize,
                head_length: 0,
                kind: marks & ((1 << FLAGS_SHIFT) - 1),
                flags: (marks & !MARK_SHORT) >> FLAGS_SHIFT,
            });
        }
        (bytes.len() >= HeaderForm::Long.length()).then(|| Fields {
            form: HeaderForm::Long,
            sequence: first,
            written_at_ms: read_u64(bytes, 16),
            expires_at_ms: read_u64(bytes, 24),
            key_length: usize::from(read_u16(bytes, 32)),
            head_length: read_u32(bytes, 36) as usize,
            kind: bytes[34],
            flags: bytes[35],
        })
    }
}

impl<'a> Record<'a> {
    /// A put of the empty key and value: the fields that the maker of a record does not name.
    pub(crate) const EMPTY: Record<'static> = Record {
        form: HeaderForm::Short,
        sequence: 0,
        written_at_ms: 0,
        expires_at_ms: 0,
        kind: RecordKind::Put,
        batch_goes_on: false,
        key: &[],
        head: &[],
        compression: Compression::None,
        value: &[],
    };

    /// Length of the record with its padding, in bytes.
    #[inline]
    pub(crate) fn padded_length(&self) -> u64 {
        let rest = self.key.len() + self.head.len() + self.value.len();
        self.form.padded_length(rest as u64)
    }

    /// True if the record puts `key` with the sequence number `sequence`.
    #[inline]
    pub(crate) fn puts(&self, sequence: u64, key: &[u8]) -> bool {
        self.sequence == sequence && self.kind == RecordKind::Put && keys_equal(self.key, key)
    }

    /// The fields behind the length, as words; a short header uses two of them.
    #[inline]
    fn words(&self) -> [u64; 4] {
        let key_length = self.key.len() as u64;
        let flags = (u8::from(self.batch_goes_on) * FLAG_BATCH_GOES_ON)
            | (self.compression.number() << COMPRESSION_SHIFT);
        match self.form {
            HeaderForm::Short => {
                let marks = u64::from(MARK_SHORT | self.kind as u8 | (flags << FLAGS_SHIFT));
                let second = self.written_at_ms | (key_length << KEY_LENGTH_SHIFT);
                [self.sequence | (marks << MARKS_SHIFT), second, 0, 0]
            }
            HeaderForm::Long => {
                let marks = u64::from(self.kind as u8) << 16 | u64::from(flags) << 24;
                let last = key_length | marks | (self.head.len() as u64) << 32;
                [self.sequence, self.written_at_ms, self.expires_at_ms, last]
            }
        }
    }

    /// Writes the record at `target`, its length last: a reader that sees the length, even after a
    /// crash of this process, sees the whole record.
    ///
    /// # Safety
    /// `target` is aligned to 8 bytes, and [`Record::padded_length`] zeroed bytes from it on are
    /// writable and touched by nobody else until they are published.
    #[inline]
    pub(crate) unsafe fn lay_down(&self, target: *mut u8, store_seed: u32) {
        assert!(self.sequence < SEQUENCE_END, "a store has fewer writes");
        let fields = self.words().map(u64::to_le_bytes);
        let (short, long) = fields.as_flattened().split_at(2 * size_of::<u64>());
        let length = self.form.length() + self.key.len() + self.head.len() + self.value.len();
        // SAFETY: all parts together lie within the bytes that the caller guarantees.
        let rest = unsafe {
            let mut at = target.add(FRONT_LENGTH);
            // Copies of a constant length need no function call.
            std::ptr::copy_nonoverlapping(short.as_ptr(), at, short.len());
            at = at.add(short.len());
            if self.form == HeaderForm::Long {
                std::ptr::copy_nonoverlapping(long.as_ptr(), at, long.len());
                at = at.add(long.len());
            }
            for part in [self.key, self.head, self.value] {
                std::ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
                at = at.add(part.len());
            }
            std::slice::from_raw_parts(target.add(FRONT_LENGTH), length - FRONT_LENGTH)
        };
        let length = length as u32;
        let sum = checksum(checksum(store_seed, &length.to_le_bytes()), rest);
        let first = u64::from(sum) | u64::from(length) << 32;
        // SAFETY: the caller guarantees the alignment and the bytes.
        let word = unsafe { &*target.cast::<AtomicU64>() };
        word.store(first.to_le(), Ordering::Release);
    }

    /// Reads and validates the record at the front of `bytes`, which may continue behind it.
    #[inline]
    pub(crate) fn decode(bytes: &'a [u8], store_seed: u32) -> Result<Record<'a>, Damage> {
        if bytes.len() < RECORD_LENGTH_MIN {
            return Err(Damage::Nothing);
        }
        let length = read_u32(bytes, 4) as usize;
        if length == 0 {
            return Err(Damage::Nothing);
        }
        if length < RECORD_LENGTH_MIN || length > bytes.len() {
            return Err(Damage::Length);
        }
        if checksum(store_seed, &bytes[4..length]) != read_u32(bytes, 0) {
            return Err(Damage::Checksum);
        }
        Record::of_checked(&bytes[..length]).ok_or(Damage::Fields)
    }

    /// Parses a record whose checksum is right; `None` if its fields do not fit together.
    #[inline]
    fn of_checked(bytes: &'a [u8]) -> Option<Record<'a>> {
        let fields = Fields::of(bytes)?;
        let (kind, flags) = (RecordKind::from_number(fields.kind)?, fields.flags);
        if flags & !(FLAG_BATCH_GOES_ON | (COMPRESSION_MASK << COMPRESSION_SHIFT)) != 0 {
            return None;
        }
        let compression =
            Compression::from_number((flags >> COMPRESSION_SHIFT) & COMPRESSION_MASK)?;
        let rest = &bytes[fields.form.length()..];
        if fields.key_length > INTERNAL_KEY_LENGTH_MAX || fields.head_length > HEAD_LENGTH_MAX {
            return None;
        }
        let (key, rest) = rest.split_at_checked(fields.key_length)?;
        let (head, value) = rest.split_at_checked(fields.head_length)?;
        let well_formed = match kind {
            RecordKind::SyncMark => key.is_empty() && head.is_empty() && value.len() == 8,
            RecordKind::Put | RecordKind::Delete => split_internal_key(key).is_some(),
        };
        let is_sound = match compression {
            Compression::None => true,
            Compression::Lz4 => {
                let length = unpacked_length(value, VALUE_LENGTH_HARD_MAX);
                kind == RecordKind::Put && length.is_some()
            }
        };
        (well_formed && is_sound).then_some(Record {
            form: fields.form,
            sequence: fields.sequence,
            written_at_ms: fields.written_at_ms,
            expires_at_ms: fields.expires_at_ms,
            kind,
            batch_goes_on: flags & FLAG_BATCH_GOES_ON != 0,
            key,
            head,
            compression,
            value,
        })
    }

    /// Length of the decompressed value, in bytes.
    #[inline]
    pub(crate) fn value_length(&self) -> usize {
        match self.compression {
            Compression::None => self.value.len(),
            // A record with an impossible length is neither parsed nor written.
            Compression::Lz4 => unpacked_length(self.value, VALUE_LENGTH_HARD_MAX).unwrap_or(0),
        }
    }

    /// Returns an error if the value is compressed and cannot be decompressed.
    pub(crate) fn check_packed(&self) -> Result<(), Damage> {
        match self.compression {
            Compression::None => Ok(()),
            Compression::Lz4 => self.unpacked().map(|_| ()),
        }
    }

    /// The decompressed value; an error if it cannot be decompressed.
    pub(crate) fn unpacked(&self) -> Result<Arc<[u8]>, Damage> {
        match self.compression {
            Compression::None => Ok(self.value.into()),
            Compression::Lz4 => unpack(self.value, VALUE_LENGTH_HARD_MAX).ok_or(Damage::Packed),
        }
    }

    /// The sequence number up to which a sync mark guarantees durability; `None` for other records.
    pub(crate) fn marked_sequence(&self) -> Option<u64> {
        (self.kind == RecordKind::SyncMark).then(|| read_u64(self.value, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::pack;
    use crate::header_form::RECORD_ALIGNMENT;

    const SEED: u32 = 99;

    /// The record as bytes, padding included.
    fn laid_down(record: &Record<'_>) -> Vec<u8> {
        let mut memory = vec![0_u64; (record.padded_length() / RECORD_ALIGNMENT) as usize];
        // SAFETY: the memory is aligned, zeroed, long enough, and known to nobody else; words are
        // bytes, all of which were written to.
        unsafe {
            record.lay_down(memory.as_mut_ptr().cast(), SEED);
            std::slice::from_raw_parts(memory.as_ptr().cast(), size_of_val(&*memory)).to_vec()
        }
    }

    fn example() -> Record<'static> {
        Record {
            form: HeaderForm::Long,
            sequence: 7,
            written_at_ms: 8,
            expires_at_ms: 9,
            kind: RecordKind::Put,
            batch_goes_on: true,
            key: b"\0\x01key",
            head: b"head",
            compression: Compression::None,
            value: b"the value",
        }
    }

    /// A record without head and expiry, with the largest numbers that fit.
    fn short_example() -> Record<'static> {
        Record {
            form: HeaderForm::Short,
            sequence: SEQUENCE_END - 1,
            written_at_ms: WRITTEN_AT_MAX_MS,
            expires_at_ms: 0,
            head: b"",
            ..example()
        }
    }

    fn check_flips(bytes: &[u8]) {
        let length = read_u32(bytes, 4) as usize;
        for bit in 0..length * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(&flipped, SEED).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_compressed_value_round_trips_and_every_flipped_bit_is_noticed() {
        let value = b"again ".repeat(20);
        let mut packed = Vec::new();
        assert!(pack(&value, &mut packed));
        let compression = Compression::Lz4;
        let record = Record { compression, value: &packed, ..example() };
        let bytes = laid_down(&record);
        let decoded = Record::decode(&bytes, SEED).unwrap();
        assert_eq!(decoded, record);
        assert_eq!(decoded.value_length(), value.len());
        assert_eq!(*decoded.unpacked().unwrap(), value[..]);
        check_flips(&bytes);
    }

    /// A faulty writer may have put a valid checksum on wrong data.
    #[test]
    fn an_invalid_compressed_value_is_damage() {
        let compression = Compression::Lz4;
        let lie = [&u32::MAX.to_le_bytes()[..], b"short"].concat();
        let decode = |value: &[u8]| {
            let bytes = laid_down(&Record { compression, value, ..example() });
            Record::decode(&bytes, SEED).map(|record| record.unpacked())
        };
        assert_eq!(decode(&lie), Err(Damage::Fields));
        assert_eq!(decode(b"abc"), Err(Damage::Fields));
        let nonsense = [&100_u32.to_le_bytes()[..], &[0xff; 40]].concat();
        assert_eq!(decode(&nonsense), Ok(Err(Damage::Packed)));
        let deleted = Record { kind: RecordKind::Delete, compression, value: &lie, ..example() };
        assert_eq!(Record::decode(&laid_down(&deleted), SEED), Err(Damage::Fields));
    }

    #[test]
    fn a_record_round_trips() {
        for record in [example(), short_example()] {
            for kind in [RecordKind::Put, RecordKind::Delete] {
                for batch_goes_on in [false, true] {
                    let record = Record { kind, batch_goes_on, ..record };
                    let bytes = laid_down(&record);
                    assert_eq!(bytes.len() as u64, record.padded_length());
                    assert_eq!(bytes.len() % 8, 0);
                    assert_eq!(Record::decode(&bytes, SEED), Ok(record));
                    let length = record.form.length() + 5 + record.head.len() + 9;
                    assert_eq!(peek(&bytes), Some((length, record.sequence)));
                }
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for record in [example(), short_example()] {
            check_flips(&laid_down(&record));
        }
    }

    #[test]
    fn the_record_of_another_store_is_refused() {
        let bytes = laid_down(&example());
        assert_eq!(Record::decode(&bytes, SEED + 1), Err(Damage::Checksum));
        assert_eq!(Record::decode(&bytes[..16], SEED), Err(Damage::Nothing));
        assert_eq!(Record::decode(&bytes[..24], SEED), Err(Damage::Length));
        assert_eq!(Record::decode(&bytes[..48], SEED), Err(Damage::Length));
    }
}
