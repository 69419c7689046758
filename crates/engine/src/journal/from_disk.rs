//! Reading records that are not in memory: each by one call, and not through the map, so that a
//! record that reaches over the border of two pages costs one disk read and not two.

use std::sync::atomic::Ordering;

use pellucid_io::{File, FileSystem};

use super::record::{Record, RecordKind};
use super::segment::DiskFiles;
use super::{Journal, Segment};
use crate::error::{Error, Result};
use crate::object::{Head, Value};
use crate::resident::is_required;
use crate::tally::{Count, Counting};

/// Records up to this length, in bytes, are read by one call when they are not in memory.
const READ_MAX: usize = 128 << 10;
/// Of so many records that are read from the disk, one stays in the page cache.
const STAYS_ONE_IN: u32 = 16;

/// How a record is read from the disk: where its file is found, the files that are held open, and
/// whether its pages stay in the page cache.
pub(super) type How<'a> = (&'a dyn FileSystem, &'a DiskFiles, bool);

impl Journal {
    /// Reads a record from the disk, if it is not in memory.
    ///
    /// One record in [`STAYS_ONE_IN`] stays in the page cache. Where records are asked for at
    /// random out of more than there is memory for, caching each one would do nothing but push out
    /// the ledger's blocks, and a GET would cost two disk reads; what is asked for often gets its
    /// turn to stay soon. This is bimodal insertion (Qureshi et al., ISCA 2007).
    #[cold]
    pub(super) fn read_slowly(
        &self,
        segment: &Segment,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
    ) -> Result<Option<Value>> {
        segment.read_from_disk(sequence, key, expected_length, self.next_slow_turn())
    }

    fn next_slow_turn(&self) -> How<'_> {
        let turn = self.slow_turns.fetch_add(1, Ordering::Relaxed);
        (&*self.file_system, &self.disk_files, turn.is_multiple_of(STAYS_ONE_IN))
    }

    /// As [`Journal::read_named`], while records have to be fetched from the disk. That the
    /// ledger's block is left out counts twice then: where memory is short, its blocks need not be
    /// cached, and there is room for more records. The steps are timed if `counting` says so.
    #[cold]
    pub(super) fn read_named_slowly(
        &self,
        segment: &Segment,
        sequence: u64,
        key: &[u8],
        counting: Option<Counting<'_>>,
    ) -> Option<(Head, Value)> {
        let begun = counting.map(|counting| counting.now());
        let (offset, length) = segment.place_and_length(sequence)?;
        let is_resident = segment.shared.map.is_resident(offset as usize, length);
        let Some((counting, begun)) = counting.zip(begun) else {
            let how = self.next_slow_turn();
            return segment.read_named_at(sequence, key, (offset, length, is_resident), how);
        };
        let begun = counting.add_since(Count::PlaceTicks, begun);
        counting.add(Count::PlaceSamples, 1);
        let how = self.next_slow_turn();
        let read = segment.read_named_at(sequence, key, (offset, length, is_resident), how)?;
        let (samples, ticks) = match is_resident {
            true => (Count::CachedSamples, Count::CachedTicks),
            false => (Count::DiskSamples, Count::DiskTicks),
        };
        counting.add_since(ticks, begun);
        counting.add(samples, 1);
        Some(read)
    }
}

impl Segment {
    /// Where the record with this sequence number is, and up to how many bytes long: as far as to
    /// the next one. Only where that is known without a search, and of a sealed segment.
    pub(super) fn place_and_length(&self, sequence: u64) -> Option<(u64, usize)> {
        let offset = self.place(sequence)?;
        let end = self.end_of(sequence)?;
        Some((offset, end.checked_sub(offset)? as usize))
    }

    /// The head and the value of `key`, if the record with this sequence number, which is at so
    /// many bytes from an offset on, in memory or not, is one of it that puts them.
    pub(super) fn read_named_at(
        &self,
        sequence: u64,
        key: &[u8],
        (offset, length, is_resident): (u64, usize, bool),
        (files, count, stays): How<'_>,
    ) -> Option<(Head, Value)> {
        if is_resident {
            return self.read_named(sequence, key);
        }
        // The entry has to be asked: then it is told that the read would wait, or read by the map.
        if is_required() || length > READ_MAX {
            return None;
        }
        let file = self.shared.disk_file(files, count).ok()?;
        let read = self.fetch(&*file, (sequence, offset), key, length, |record| {
            let value = self.unpacked(record, offset).ok()?;
            Some((record.head_of_put(), value))
        });
        if !stays {
            file.drop_cached(offset, length);
        }
        read.ok().flatten().flatten()
    }

    /// As [`Segment::read`], for a record that is not in memory: by one call that reads all of it.
    /// Unless it is to stay, its pages are given up right after. `None` if the map is to be asked.
    pub(super) fn read_from_disk(
        &self,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
        (files, count, stays): How<'_>,
    ) -> Result<Option<Value>> {
        let (Some(footer), Some(offset)) = (self.footer(), self.place(sequence)) else {
            return Ok(None);
        };
        let length = expected_length.min(footer.offset.saturating_sub(offset) as usize);
        let is_resident = self.shared.map.is_resident(offset as usize, length);
        if !is_resident && is_required() {
            return Err(Error::NotInMemory);
        }
        if length > READ_MAX || is_resident {
            return Ok(None);
        }
        // One that was collected may be gone by its name, and is still mapped.
        let Ok(file) = self.shared.disk_file(files, count) else { return Ok(None) };
        let value = self.read_by_call(&*file, (sequence, offset), key, length);
        if !stays {
            file.drop_cached(offset, length);
        }
        value
    }

    /// Reads the record with this sequence number at this offset by one call.
    pub(super) fn read_by_call(
        &self,
        file: &dyn File,
        (sequence, offset): (u64, u64),
        key: &[u8],
        length: usize,
    ) -> Result<Option<Value>> {
        let unpack = |record: &Record<'_>| self.unpacked(record, offset);
        self.fetch(file, (sequence, offset), key, length, unpack)?.transpose()
    }

    /// Reads that record by one call, and has `make` make something of it. Whatever is unexpected
    /// is looked at, and reported, through the map.
    fn fetch<T>(
        &self,
        file: &dyn File,
        (sequence, offset): (u64, u64),
        key: &[u8],
        length: usize,
        make: impl FnOnce(&Record<'_>) -> T,
    ) -> Result<Option<T>> {
        let mut bytes = vec![0; length];
        let read = file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| Error::io("read", &self.shared.path, error))?;
        let record = Record::decode(&bytes, self.shared.store_seed).ok().filter(|record| {
            record.sequence == sequence && record.key == key && record.kind == RecordKind::Put
        });
        Ok(record.map(|record| make(&record)))
    }
}
