//! What the ledger asks of the journal, and the books that both keep of its space.
//!
//! Dead bytes are exact: each entry that the ledger drops is counted once, at the segment that
//! holds its record then, and a manifest that names the segment counts what the ledger of the same
//! manifest no longer names.

use std::collections::HashSet;
use std::path::PathBuf;

use super::segment::Segment;
use super::{Journal, SegmentList, lock};
use crate::error::Result;
use crate::ledger::{Dropped, DroppedList, JournalLink, SegmentFacts};

/// What changes together with the list of segments.
#[derive(Default)]
pub(super) struct Books {
    /// Files of segments that collected ones stand for now.
    retired: Vec<Retired>,
    /// The sequence numbers that are being collected, and what was dropped of them meanwhile.
    pub(super) watched: Option<Watched>,
    /// Numbers of segments that cannot be collected because a record in them is damaged.
    pub(super) damaged: HashSet<u64>,
}

/// A file that goes once a manifest without it was committed.
struct Retired {
    path: PathBuf,
    /// The manifest that is about to be committed does not name it.
    is_unnamed: bool,
}

/// What is dropped by the ledger while a run of segments is collected.
pub(super) struct Watched {
    pub(super) first_sequence: u64,
    pub(super) last_sequence: u64,
    /// How far each is from the first sequence number, and its record in units of 8 bytes, twice
    /// that and one more for a marker: a collection is not held up by a merge, and millions may
    /// come.
    dropped: Vec<(u32, u32)>,
}

impl Watched {
    pub(super) fn new(first_sequence: u64, last_sequence: u64) -> Watched {
        Watched { first_sequence, last_sequence, dropped: Vec::new() }
    }

    /// Whether all sequence numbers up to `last_sequence` can be noted.
    pub(super) fn reaches(first_sequence: u64, last_sequence: u64) -> bool {
        last_sequence - first_sequence <= u64::from(u32::MAX)
    }

    fn push(&mut self, dropped: &Dropped) {
        let distance = (dropped.sequence - self.first_sequence) as u32;
        self.dropped.push((distance, dropped.packed() as u32));
    }

    /// What was dropped, by sequence number.
    pub(super) fn into_sorted(mut self) -> impl ExactSizeIterator<Item = Dropped> + Clone {
        self.dropped.sort_unstable();
        let first_sequence = self.first_sequence;
        self.dropped.into_iter().map(move |(distance, packed)| {
            Dropped::unpacked(first_sequence + u64::from(distance), packed.into())
        })
    }
}

impl Books {
    /// Has `path` removed once it is safe.
    pub(super) fn retire(&mut self, path: PathBuf) {
        self.retired.push(Retired { path, is_unnamed: false });
    }
}

/// Bytes of records whose entries were dropped.
#[derive(Clone, Copy, Default)]
pub(super) struct DroppedBytes {
    pub(super) dead_bytes: u64,
    pub(super) marker_bytes: u64,
}

impl DroppedBytes {
    /// Adds the record of `dropped`, if `segment` has it.
    #[inline]
    pub(super) fn add(&mut self, dropped: &Dropped, segment: &Segment) {
        if segment.has(dropped.sequence) {
            let bytes = segment.shared.bytes_of(dropped);
            match dropped.is_marker {
                true => self.marker_bytes += bytes,
                false => self.dead_bytes += bytes,
            }
        }
    }
}

impl SegmentList {
    /// What each segment loses with `dropped`, all of which `visit` sees with their segments.
    fn sums_of(
        &self,
        dropped: &DroppedList,
        mut visit: impl FnMut(&Dropped, &Segment),
    ) -> Vec<DroppedBytes> {
        let mut sums = vec![DroppedBytes::default(); self.segments.len()];
        let mut near = 0;
        dropped.iter().for_each(|entry| {
            if let Some(index) = self.find_index_near(entry.sequence, &mut near) {
                let segment = &*self.segments[index];
                sums[index].add(&entry, segment);
                visit(&entry, segment);
            }
        });
        sums
    }
}

impl JournalLink for Journal {
    fn make_durable(&self, sequence: u64) -> Result<()> {
        self.sync_to(sequence).map(|_| ())
    }

    fn on_dropped(&self, dropped: &DroppedList) {
        let mut books = lock(&self.books);
        let segments = self.segments();
        let watched = &mut books.watched;
        let sums = segments.sums_of(dropped, |entry, segment| {
            segment.note_gone(entry, &self.gone);
            if let Some(watched) = watched
                && (watched.first_sequence..=watched.last_sequence).contains(&entry.sequence)
            {
                watched.push(entry);
            }
        });
        for (segment, sums) in segments.segments.iter().zip(sums) {
            segment.count_dropped(sums);
        }
    }

    fn segment_facts(&self, dropped: &DroppedList) -> Vec<SegmentFacts> {
        let mut books = lock(&self.books);
        let segments = self.segments();
        let sums = segments.sums_of(dropped, |_, _| {});
        let with_sums = segments.segments.iter().zip(sums).map(|(segment, sums)| {
            let mut facts = segment.facts();
            facts.dead_bytes += sums.dead_bytes;
            facts.marker_bytes += sums.marker_bytes;
            facts
        });
        let facts = with_sums.collect();
        for retired in &mut books.retired {
            retired.is_unnamed = true;
        }
        facts
    }

    fn now_ms(&self) -> u64 {
        self.time.now_ms()
    }

    fn after_manifest(&self, _flushed_sequence: u64) {
        // Segments below the flushed sequence number stay, as they hold the values; those that were
        // collected go. Should a removal fail, the next opening does it.
        let mut books = lock(&self.books);
        let (gone, kept) = books.retired.drain(..).partition(|retired| retired.is_unnamed);
        books.retired = kept;
        drop(books);
        let gone: Vec<Retired> = gone;
        for retired in gone {
            let _ = self.file_system.remove(&retired.path);
        }
    }
}
