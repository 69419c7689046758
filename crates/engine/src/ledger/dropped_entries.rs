//! The entries that a flush or merge drops, in a bounded amount of memory.
//!
//! A merge of a store that is overwritten drops millions of entries, and each has to be reported to
//! the journal once the manifest without it is committed. They are packed to some 7 bytes each.
//! Beyond a limit they are spilled to a file, which is not part of the store.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_io::{File, FileSystem, Map, MapMode};

use super::Entry;
use crate::codec::{checksum, put_varint, take_varint};
use crate::error::{Error, Result};
use crate::header_form::{HeaderForm, RECORD_ALIGNMENT};

/// The verdict on an entry in a flush or merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The entry may still be needed.
    Kept,
    /// The entry is dropped: a newer entry of its key hides it.
    Shadowed,
    /// The entry is dropped: it is a tombstone or an expired value, and no older entry is left for
    /// it to hide.
    Gone,
}

/// An entry that no reader can see any more, so that its record in the journal is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DroppedEntry {
    /// The sequence number of the record.
    pub(crate) sequence: u64,
    /// Length of the record as it would be written now, with padding, in bytes.
    pub(crate) record_bytes: u64,
    /// The form of the header as it would be written now.
    pub(crate) form: HeaderForm,
    /// True if it was dropped as a marker ([`Verdict::Gone`]): its record must stay as long as
    /// older records of its key may be in the journal.
    pub(crate) is_marker: bool,
}

impl DroppedEntry {
    /// The record of `entry`, which the retention rule dropped with `verdict`.
    pub(crate) fn of(entry: &Entry<'_>, verdict: Verdict) -> DroppedEntry {
        DroppedEntry {
            sequence: entry.sequence,
            record_bytes: entry.record_size_bytes(),
            form: entry.header_form(),
            is_marker: verdict == Verdict::Gone,
        }
    }

    /// Packs everything but the sequence number into as few bits as possible.
    pub(crate) fn packed(&self) -> u64 {
        assert!(self.record_bytes.is_multiple_of(RECORD_ALIGNMENT), "records are padded");
        let is_short = self.form == HeaderForm::Short;
        let units = self.record_bytes / RECORD_ALIGNMENT;
        units << 2 | u64::from(is_short) << 1 | u64::from(self.is_marker)
    }

    /// The entry with this sequence number, from [`DroppedEntry::packed`].
    pub(crate) fn unpacked(sequence: u64, packed: u64) -> DroppedEntry {
        let form = if packed & 2 == 0 { HeaderForm::Long } else { HeaderForm::Short };
        let record_bytes = (packed >> 2) * RECORD_ALIGNMENT;
        DroppedEntry { sequence, record_bytes, form, is_marker: packed & 1 == 1 }
    }
}

/// A list of dropped entries.
#[derive(Default)]
pub(crate) struct DroppedList {
    count: u64,
    /// The packed entries that are not in the file.
    packed: Vec<u8>,
    spill: Option<Spill>,
    /// The list of another part of the same job.
    next: Option<Box<DroppedList>>,
}

/// The file for entries beyond the memory limit.
struct Spill {
    file_system: Arc<dyn FileSystem>,
    path: PathBuf,
    limit_bytes: usize,
    file: Option<Arc<dyn File>>,
    written_bytes: u64,
    /// The crc32c of everything written.
    checksum: u32,
    /// The lowest and the highest sequence number of the list.
    lowest: u64,
    highest: u64,
    /// True once the file read back wrong.
    is_damaged: AtomicBool,
    /// The mapped file, once the list is closed.
    map: Option<Arc<dyn Map>>,
}

impl DroppedList {
    /// An empty list that holds `limit_bytes` in memory, and the rest in a file at `path`.
    pub(crate) fn spilling(
        file_system: &Arc<dyn FileSystem>,
        path: PathBuf,
        limit_bytes: usize,
    ) -> DroppedList {
        let file_system = Arc::clone(file_system);
        let spill = Spill {
            file_system,
            path,
            limit_bytes,
            file: None,
            written_bytes: 0,
            checksum: 0,
            lowest: u64::MAX,
            highest: 0,
            is_damaged: AtomicBool::new(false),
            map: None,
        };
        DroppedList { spill: Some(spill), ..DroppedList::default() }
    }

    /// The number of entries.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, dropped: &DroppedEntry) -> Result<()> {
        put_varint(&mut self.packed, dropped.sequence);
        put_varint(&mut self.packed, dropped.packed());
        self.count += 1;
        let Some(spill) = &mut self.spill else { return Ok(()) };
        spill.lowest = spill.lowest.min(dropped.sequence);
        spill.highest = spill.highest.max(dropped.sequence);
        match self.packed.len() >= spill.limit_bytes {
            true => spill.take(&mut self.packed),
            false => Ok(()),
        }
    }

    /// Closes the list: nothing is added any more, and it can be read.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.spill.as_mut().map_or(Ok(()), Spill::close)
    }

    /// Appends `next`, the list of another part of the same job. Both must be closed.
    pub(crate) fn join(&mut self, next: DroppedList) {
        assert!(self.next.is_none(), "a job has two parts at most");
        self.count += next.count;
        self.next = Some(Box::new(next));
    }

    /// All entries, in no particular order. Spilled entries are left out if the file reads back
    /// wrong ([`DroppedList::left_out`]): their records then count as live; with wrong entries,
    /// live records would count as dead.
    pub(crate) fn iter(&self) -> impl Iterator<Item = DroppedEntry> + '_ {
        self.parts().flat_map(|list| {
            let spilled = list.spill.as_ref().map_or(&[][..], Spill::bytes);
            unpack(spilled).chain(unpack(&list.packed))
        })
    }

    /// Ranges of sequence numbers, each of which contains those of entries that
    /// [`DroppedList::iter`] left out.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = RangeInclusive<u64>> + '_ {
        let spills = self.parts().filter_map(|list| list.spill.as_ref());
        let damaged = spills.filter(|spill| spill.is_damaged.load(Ordering::Relaxed));
        damaged.map(|spill| spill.lowest..=spill.highest)
    }

    /// This list, and that of the other part of the job.
    fn parts(&self) -> impl Iterator<Item = &DroppedList> {
        std::iter::successors(Some(self), |list| list.next.as_deref())
    }
}

fn unpack(mut packed: &[u8]) -> impl Iterator<Item = DroppedEntry> + '_ {
    std::iter::from_fn(move || {
        let sequence = take_varint(&mut packed)?;
        Some(DroppedEntry::unpacked(sequence, take_varint(&mut packed)?))
    })
}

impl Spill {
    fn take(&mut self, packed: &mut Vec<u8>) -> Result<()> {
        let failed = |error| Error::io("write", &self.path, error);
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(self.file_system.create(&self.path).map_err(failed)?),
        };
        file.write_all_at(packed, self.written_bytes).map_err(failed)?;
        self.written_bytes += packed.len() as u64;
        self.checksum = checksum(self.checksum, packed);
        packed.clear();
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let map = file.map(self.written_bytes, MapMode::Read);
        self.map = Some(map.map_err(|error| Error::io("map", &self.path, error))?);
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        assert!(self.map.is_some() || self.file.is_none(), "the list is closed before it is read");
        let bytes = self.map.as_ref().map_or(&[][..], |map| map.bytes());
        if checksum(0, bytes) == self.checksum {
            return bytes;
        }
        self.is_damaged.store(true, Ordering::Relaxed);
        &[]
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if self.file.is_some() {
            // If this fails, the next opening removes it.
            let _ = self.file_system.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use pellucid_io::simulated::SimulatedFileSystem;

    use super::*;

    /// Regression: an unreadable page of the file reads as zeros in a map. The entries behind it
    /// were misread, and the wrong records counted as dead.
    #[test]
    fn entries_that_cannot_be_read_back_are_left_out() {
        let files = SimulatedFileSystem::new();
        let file_system: Arc<dyn FileSystem> = Arc::new(files.clone());
        let path = PathBuf::from("/dropped.new");
        let mut list = DroppedList::spilling(&file_system, path.clone(), 100);
        let (form, is_marker) = (HeaderForm::Short, false);
        for sequence in 1_000..9_000 {
            list.push(&DroppedEntry { sequence, record_bytes: 80, form, is_marker }).unwrap();
        }
        files.fail_reads(&path, 0..1).unwrap();
        list.close().unwrap();
        assert!(list.iter().all(|dropped| dropped.sequence >= 1_000 && dropped.record_bytes == 80));
        assert!(list.left_out().eq([1_000..=8_999]));
    }

    #[test]
    fn dropped_entries_round_trip_and_the_file_is_removed() {
        let files = SimulatedFileSystem::new();
        let file_system: Arc<dyn FileSystem> = Arc::new(files.clone());
        let path = PathBuf::from("/dropped.new");
        for (limit_bytes, spills) in [(1 << 20, false), (100, true), (1, true)] {
            let mut list = DroppedList::spilling(&file_system, path.clone(), limit_bytes);
            let dropped = |index: u64| DroppedEntry {
                sequence: index * index,
                record_bytes: index % 700 * 8,
                form: if index.is_multiple_of(7) { HeaderForm::Long } else { HeaderForm::Short },
                is_marker: index.is_multiple_of(3),
            };
            for index in 0..2_000 {
                list.push(&dropped(index)).unwrap();
            }
            list.close().unwrap();
            assert_eq!(list.count(), 2_000);
            assert!(list.iter().eq((0..2_000).map(dropped)));
            assert_eq!(list.left_out().count(), 0);
            assert_eq!(files.exists(&path), spills);
            drop(list);
            assert!(!files.exists(&path));
        }
    }
}
