//! The manifest lists the files that make up the store (docs/format.md, Manifest).
//!
//! It is always replaced as a whole: a new file is written next to the old one, synced, and renamed
//! over it; then the folder is synced and the manifest is read back. Files that only the old
//! manifest lists are removed after that.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use pellucid_io::{File, FileSystem};

use crate::codec::{
    FILE_HEADER_LENGTH, FileHeader, FileKind, INTERNAL_KEY_LENGTH_MAX, checksum, checksum_seed,
};
use crate::error::{Error, Result};
use crate::ledger::{LEVELS, TableMetadata};

const MANIFEST_NAME: &str = "manifest";
const MANIFEST_NEW_NAME: &str = "manifest.new";
/// The file that is there while a store is being copied to its directory, and has no manifest yet.
pub(crate) const INCOMPLETE_FILE: &str = "incomplete";
/// The maximum size of a valid manifest: 1 GiB has space for about 10 million tables.
const MANIFEST_SIZE_MAX_BYTES: u64 = 1 << 30;

/// The entry of a journal segment in the manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentMetadata {
    /// The segment's number.
    pub(crate) number: u64,
    /// The segment's first sequence number.
    pub(crate) first_sequence: u64,
    /// The segment's last sequence number, 0 until it is sealed.
    pub(crate) last_sequence: u64,
    /// The size of the segment's file in bytes.
    pub(crate) size_bytes: u64,
    /// The size of the dead records: no entry of the ledger refers to them, and they are not needed
    /// otherwise.
    pub(crate) dead_bytes: u64,
    /// The size of the markers (tombstones, expired values) that no entry of the ledger refers to.
    pub(crate) marker_bytes: u64,
}

impl SegmentMetadata {
    /// Returns the segment's first and last sequence numbers.
    pub(crate) fn sequences(&self) -> (u64, u64) {
        (self.first_sequence, self.last_sequence)
    }
}

/// The files of a store at one time, and the counters that continue from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The identity of the store.
    pub(crate) store_identity: u64,
    /// The version of the manifest, incremented with each write.
    pub(crate) edition: u64,
    /// The highest sequence number up to which all records are in the tables; replay starts after
    /// it.
    pub(crate) flushed_sequence: u64,
    /// The number of the next table file.
    pub(crate) next_file_number: u64,
    /// The time up to which entries have expired: it never goes back, even if the clock does.
    pub(crate) time_mark_ms: u64,
    /// The tables and their levels.
    pub(crate) tables: Vec<(u8, TableMetadata)>,
    /// The segments of the journal.
    pub(crate) segments: Vec<SegmentMetadata>,
}

/// The failure to write a manifest.
pub(crate) struct WriteFailure {
    /// The cause of the failure.
    pub(crate) error: Error,
    /// True if the next open may find the new manifest.
    pub(crate) may_be_in_place: bool,
}

/// Returns the path of the manifest in the folder of a store.
pub(crate) fn manifest_path(directory: &Path) -> PathBuf {
    directory.join(MANIFEST_NAME)
}

impl Manifest {
    /// Returns the manifest of an empty store, which is not written in this form.
    pub(crate) fn empty(store_identity: u64) -> Manifest {
        Manifest { store_identity, next_file_number: 1, ..Manifest::default() }
    }

    /// Returns the total size of the table files in bytes.
    pub(crate) fn tables_bytes(&self) -> u64 {
        self.tables.iter().map(|(_, facts)| facts.size_bytes).sum()
    }

    /// Reads the manifest of the store in `directory`; `None` if there is no such file.
    pub(crate) fn read(fs: &dyn FileSystem, directory: &Path) -> Result<Option<Manifest>> {
        let path = manifest_path(directory);
        let file = fs.open(&path, false).map_err(|error| Error::io("read", &path, error));
        match file.and_then(|file| read_all(&*file, &path)) {
            Ok(bytes) => Manifest::decode(&bytes, &path).map(Some),
            Err(error) if !error.is_missing() => Err(error),
            _ if fs.exists(&directory.join(INCOMPLETE_FILE)) => {
                Err(Error::Incomplete { directory: directory.to_path_buf() })
            }
            _ => Ok(None),
        }
    }

    /// Reads the manifest of a store that must have one; otherwise like [`Manifest::read`].
    pub(crate) fn read_existing(fs: &dyn FileSystem, directory: &Path) -> Result<Manifest> {
        let missing = || Error::ManifestMissing { directory: directory.to_path_buf() };
        Manifest::read(fs, directory)?.ok_or_else(missing)
    }

    /// Writes this as the manifest of the store in `directory`.
    pub(crate) fn write(
        &self,
        fs: &dyn FileSystem,
        directory: &Path,
    ) -> std::result::Result<(), WriteFailure> {
        let bytes = self.encode();
        let path = manifest_path(directory);
        let new_path = directory.join(MANIFEST_NEW_NAME);
        if bytes.len() as u64 > MANIFEST_SIZE_MAX_BYTES {
            let what = format!("it has {} bytes, at most {MANIFEST_SIZE_MAX_BYTES}", bytes.len());
            let error =
                Error::io("write", &new_path, io::Error::new(ErrorKind::FileTooLarge, what));
            return Err(WriteFailure { error, may_be_in_place: false });
        }
        let prepared = (|| {
            let file = fs.create(&new_path)?;
            file.write_all_at(&bytes, 0)?;
            file.sync()?;
            Ok(file)
        })();
        let file = prepared.map_err(|error| WriteFailure {
            error: Error::io("write", &new_path, error),
            may_be_in_place: false,
        })?;
        let put_in_place = fs.rename(&new_path, &path).and_then(|()| fs.sync_directory(directory));
        put_in_place
            .map_err(|error| Error::io("put in place", &path, error))
            // Read through the open file: no descriptor may be available for another one.
            .and_then(|()| read_all(&*file, &path))
            .and_then(|found| {
                if found == bytes {
                    return Ok(());
                }
                Err(Error::corruption(&path, 0, "what was read back is not what was written"))
            })
            .map_err(|error| WriteFailure { error, may_be_in_place: true })
    }

    /// Removes the files that an interrupted write, or a copy that had its manifest already, left
    /// behind.
    pub(crate) fn remove_unfinished(fs: &dyn FileSystem, directory: &Path) -> Result<()> {
        for path in [MANIFEST_NEW_NAME, INCOMPLETE_FILE].map(|name| directory.join(name)) {
            if fs.exists(&path) {
                fs.remove(&path).map_err(|error| Error::io("remove", &path, error))?;
            }
        }
        Ok(())
    }

    fn seed(store_identity: u64, edition: u64) -> u32 {
        checksum_seed(&[store_identity, edition])
    }

    /// Encodes the manifest as the bytes of its file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let header = FileHeader::new(FileKind::Manifest, self.store_identity, self.edition);
        let mut out = header.encode().to_vec();
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        put(&self.flushed_sequence.to_le_bytes());
        put(&self.next_file_number.to_le_bytes());
        put(&self.time_mark_ms.to_le_bytes());
        put(&(self.tables.len() as u32).to_le_bytes());
        put(&(self.segments.len() as u32).to_le_bytes());
        for (level, table) in &self.tables {
            put(&[*level, 0, 0, 0, 0, 0, 0, 0]);
            let numbers = [
                table.number, table.size_bytes, table.entries, table.lowest_sequence,
                table.highest_sequence,
            ];
            numbers.iter().for_each(|number| put(&number.to_le_bytes()));
            for key in [&table.smallest, &table.largest] {
                put(&(key.len() as u16).to_le_bytes());
                put(key);
            }
        }
        for segment in &self.segments {
            let numbers = [
                segment.number, segment.first_sequence, segment.last_sequence, segment.size_bytes,
                segment.dead_bytes, segment.marker_bytes,
            ];
            numbers.iter().for_each(|number| put(&number.to_le_bytes()));
        }
        let sum =
            checksum(Manifest::seed(self.store_identity, self.edition), &out[FILE_HEADER_LENGTH..]);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the bytes of the file at `path`.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Manifest> {
        let header = FileHeader::decode(bytes, FileKind::Manifest, path)?;
        let seed = Manifest::seed(header.store_identity, header.number);
        let body = bytes[FILE_HEADER_LENGTH..].split_last_chunk::<4>();
        let Some((body, _)) =
            body.filter(|(body, sum)| u32::from_le_bytes(**sum) == checksum(seed, body))
        else {
            let what = "the checksum of the manifest is wrong";
            return Err(Error::corruption(path, FILE_HEADER_LENGTH as u64, what));
        };
        let mut reader = Reader::new(body);
        let decoded = reader.manifest(&header);
        let offset_of = |rest: usize| (FILE_HEADER_LENGTH + body.len() - rest) as u64;
        match decoded {
            Some(manifest) if reader.rest.is_empty() => Ok(manifest),
            Some(_) => {
                let at = offset_of(reader.rest.len());
                Err(Error::corruption(path, at, "there are bytes behind the manifest"))
            }
            None => {
                let at = offset_of(reader.entry_rest);
                Err(Error::corruption(path, at, "an entry of the manifest is invalid"))
            }
        }
    }
}

fn read_all(file: &dyn File, path: &Path) -> Result<Vec<u8>> {
    let read = || {
        let length = file.length()?;
        if length > MANIFEST_SIZE_MAX_BYTES {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(bytes))
    };
    let bytes = read().map_err(|error| Error::io("read", path, error))?;
    bytes.ok_or_else(|| Error::corruption(path, 0, "the file is too large for a manifest"))
}

/// A reader of fields from a byte slice; it returns `None` if the bytes end or are invalid.
struct Reader<'a> {
    rest: &'a [u8],
    /// The length of `rest` at the start of the current entry.
    entry_rest: usize,
}

impl Reader<'_> {
    fn new(bytes: &[u8]) -> Reader<'_> {
        Reader { rest: bytes, entry_rest: bytes.len() }
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*chunk)
    }

    fn number(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    fn key(&mut self) -> Option<Box<[u8]>> {
        let length = usize::from(u16::from_le_bytes(self.chunk()?));
        if length == 0 || length > INTERNAL_KEY_LENGTH_MAX {
            return None;
        }
        let (key, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(key.into())
    }

    /// Reads an entry of a table, whose number and sequence numbers have to be within these bounds.
    fn table(
        &mut self,
        next_file_number: u64,
        flushed_sequence: u64,
    ) -> Option<(u8, TableMetadata)> {
        self.entry_rest = self.rest.len();
        let [level, zeros @ ..] = self.chunk::<8>()?;
        if usize::from(level) >= LEVELS || zeros != [0; 7] {
            return None;
        }
        let facts = TableMetadata {
            number: self.number()?,
            size_bytes: self.number()?,
            entries: self.number()?,
            lowest_sequence: self.number()?,
            highest_sequence: self.number()?,
            smallest: self.key()?,
            largest: self.key()?,
        };
        let is_sound = facts.smallest <= facts.largest
            && facts.lowest_sequence <= facts.highest_sequence
            && facts.entries > 0
            && facts.number < next_file_number
            && facts.highest_sequence <= flushed_sequence;
        is_sound.then_some((level, facts))
    }

    fn segment(&mut self) -> Option<SegmentMetadata> {
        self.entry_rest = self.rest.len();
        Some(SegmentMetadata {
            number: self.number()?,
            first_sequence: self.number()?,
            last_sequence: self.number()?,
            size_bytes: self.number()?,
            dead_bytes: self.number()?,
            marker_bytes: self.number()?,
        })
    }

    fn manifest(&mut self, header: &FileHeader) -> Option<Manifest> {
        let flushed_sequence = self.number()?;
        let next_file_number = self.number()?;
        let time_mark_ms = self.number()?;
        let (tables, segments) = (self.count()?, self.count()?);
        // The counts may be wrong, so no memory is reserved from them.
        let tables: Option<Vec<_>> =
            (0..tables).map(|_| self.table(next_file_number, flushed_sequence)).collect();
        let tables = tables?;
        let segments: Option<Vec<_>> = (0..segments).map(|_| self.segment()).collect();
        let segments = segments?;
        Some(Manifest {
            store_identity: header.store_identity,
            edition: header.number,
            flushed_sequence,
            next_file_number,
            time_mark_ms,
            tables,
            segments,
        })
    }
}

/// Decodes arbitrary bytes as a manifest; returns true if they are valid.
pub(crate) fn check_manifest(bytes: &[u8]) -> bool {
    // The body is decoded even if its checksum is wrong; otherwise a fuzzer would never reach it.
    let header = FileHeader::new(FileKind::Manifest, 1, 1);
    let _ = Reader::new(bytes).manifest(&header);
    Manifest::decode(bytes, Path::new(MANIFEST_NAME)).is_ok()
}

#[cfg(test)]
mod tests {
    use pellucid_io::SystemFileSystem;
    use proptest::prelude::*;

    use super::*;

    fn manifests() -> impl Strategy<Value = Manifest> {
        let key = || prop::collection::vec(any::<u8>(), 1..40);
        let table = (0..LEVELS as u8, any::<[u32; 3]>(), any::<[u16; 2]>(), key(), key()).prop_map(
            |(level, [number, size, entries], [one, other], key, other_key)| {
                let facts = TableMetadata {
                    number: u64::from(number),
                    size_bytes: u64::from(size),
                    entries: u64::from(entries) + 1,
                    lowest_sequence: u64::from(one.min(other)),
                    highest_sequence: u64::from(one.max(other)),
                    smallest: key.clone().min(other_key.clone()).into(),
                    largest: key.max(other_key).into(),
                };
                (level, facts)
            },
        );
        let segment = any::<[u64; 6]>().prop_map(|numbers| SegmentMetadata {
            number: numbers[0],
            first_sequence: numbers[1],
            last_sequence: numbers[2],
            size_bytes: numbers[3],
            dead_bytes: numbers[4],
            marker_bytes: numbers[5],
        });
        let tables = prop::collection::vec(table, 0..8);
        let segments = prop::collection::vec(segment, 0..8);
        (any::<[u64; 2]>(), tables, segments).prop_map(|([identity, edition], tables, segments)| {
            Manifest {
                store_identity: identity,
                edition,
                flushed_sequence: 1 << 16,
                next_file_number: 1 << 32,
                time_mark_ms: 1 << 40,
                tables,
                segments,
            }
        })
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(manifest in manifests()) {
            let bytes = manifest.encode();
            prop_assert!(check_manifest(&bytes));
            prop_assert_eq!(Manifest::decode(&bytes, Path::new("manifest")).unwrap(), manifest);
        }

        #[test]
        fn every_changed_byte_is_noticed(
            manifest in manifests(),
            at in any::<usize>(),
            change in 1_u8..,
        ) {
            let mut bytes = manifest.encode();
            let at = at % bytes.len();
            bytes[at] ^= change;
            let refused = Manifest::decode(&bytes, Path::new("folder/manifest")).unwrap_err();
            prop_assert!(refused.to_string().contains("folder/manifest"), "{refused}");
            bytes.truncate(at);
            prop_assert!(Manifest::decode(&bytes, Path::new("folder/manifest")).is_err());
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(!check_manifest(&bytes));
        }
    }

    /// Regression: the error of an invalid entry had the offset of the end of the file.
    #[test]
    fn an_invalid_entry_is_named_by_its_offset() {
        let facts = |number| TableMetadata {
            number,
            size_bytes: 1,
            entries: 1,
            lowest_sequence: 1,
            highest_sequence: 1,
            smallest: b"a".as_slice().into(),
            largest: b"b".as_slice().into(),
        };
        let mut manifest = Manifest::empty(7);
        (manifest.flushed_sequence, manifest.next_file_number) = (1, 4);
        manifest.segments = vec![SegmentMetadata::default(); 2];
        manifest.tables = vec![(0, facts(1)), (0, facts(2)), (0, facts(3))];
        let offset_of_second = {
            let one =
                Manifest { tables: vec![(0, facts(1))], segments: vec![], ..manifest.clone() };
            one.encode().len() as u64 - 4
        };
        manifest.tables[1].1.number = manifest.next_file_number;
        let refused = Manifest::decode(&manifest.encode(), Path::new("manifest")).unwrap_err();
        assert!(
            matches!(refused, Error::Corruption { offset, .. } if offset == offset_of_second),
            "{refused} and not at {offset_of_second}"
        );
    }

    #[test]
    fn a_manifest_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SystemFileSystem;
        assert_eq!(Manifest::read(&fs, folder.path()).unwrap(), None);
        for edition in 1..=2 {
            let manifest = Manifest {
                edition,
                time_mark_ms: 4,
                segments: vec![SegmentMetadata { number: edition, ..SegmentMetadata::default() }],
                ..Manifest::empty(7)
            };
            assert!(manifest.write(&fs, folder.path()).is_ok());
            assert_eq!(Manifest::read(&fs, folder.path()).unwrap(), Some(manifest));
        }
        assert_eq!(fs.list(folder.path()).unwrap(), ["manifest"]);
    }
}
