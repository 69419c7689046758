//! The account of the journal's garbage: records that are no longer needed, counted per segment,
//! and the choice of the runs of segments that are worth collecting.
//!
//! The counts of dead bytes are exact: each entry that the ledger drops is counted once, for the
//! segment that holds its record at that time. Only if the list of them cannot be read back, the
//! counts are too low, but not zero. The counts in a manifest agree with the ledger in the same
//! manifest. The engine decides which records may be dropped (`crate::garbage`).

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use pellucid_clock::Clock;
use pellucid_thread::Mutex;

use super::excess::SpaceExcess;
use super::files::SegmentFiles;
use super::footer::PAIR_LENGTH;
use super::segment::{DroppedBytes, Segment};
use super::segments::{SegmentList, SegmentSet};
use super::unneeded_records::UnneededCount;
use crate::error::{Error, Result};
use crate::header_form::RECORD_ALIGNMENT;
use crate::ledger::{DroppedEntry, DroppedList, SegmentMetadata};
use crate::stats::{Collected, CollectedCounters};

/// The most segments that are collected into one.
const RUN_SEGMENTS_MAX: usize = 256;
/// The space that a collection needs in addition to the records and their pairs: the header and
/// footer of the new segment, and the manifest, which has this many bytes for each segment.
const BESIDE_BYTES: u64 = 4 << 10;
const BESIDE_SEGMENT_BYTES: u64 = 64;
/// Counted as dead in a segment of which it is unknown whether it has dead records: none would mean
/// that nothing in it is hidden. The length of a record is a multiple of this.
const UNKNOWN_BYTES: u64 = RECORD_ALIGNMENT;

/// Neighbouring segments that one new segment will replace.
pub(crate) struct SegmentRun {
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The first sequence number of the first segment.
    pub(crate) first_sequence: u64,
    /// The last sequence number of the last segment.
    pub(crate) last_sequence: u64,
}

impl SegmentRun {
    /// The run of `candidates`, which are neighbouring segments in `list`.
    fn of(list: &SegmentList, candidates: &[Candidate]) -> Option<SegmentRun> {
        let segments: Vec<_> = candidates
            .iter()
            .map(|candidate| Arc::clone(&list.segments[candidate.index]))
            .collect();
        let first_sequence = segments.first()?.first_sequence;
        let last_sequence = segments.last()?.footer()?.last_sequence;
        Some(SegmentRun { segments, first_sequence, last_sequence })
    }
}

/// The limits of garbage collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GarbageLimits {
    /// Only segments up to this sequence number are collected: all their records are in tables and
    /// on the medium.
    pub(crate) flushed_sequence: u64,
    /// Markers above this sequence number are kept.
    pub(crate) marker_sequence: u64,
    /// The share of dead bytes from which on a segment is worth collecting.
    pub(crate) dead_share: f64,
    /// Bytes that are free on the disk.
    pub(crate) free_bytes: u64,
}

/// A segment that might be collected.
struct Candidate {
    index: usize,
    record_bytes: u64,
    /// Bytes that collecting it would free.
    free_bytes: u64,
    records: u64,
    first_sequence: u64,
    last_sequence: u64,
}

impl Candidate {
    /// The estimated number of records that remain, if all records have one size.
    fn live_records(&self) -> u64 {
        (self.records as f64 * (1.0 - self.share())) as u64
    }

    fn live_bytes(&self) -> u64 {
        self.record_bytes - self.free_bytes
    }

    /// The estimated bytes of the remaining records and their pairs.
    fn copy_bytes(&self) -> u64 {
        self.live_bytes() + self.live_records() * PAIR_LENGTH
    }

    fn share(&self) -> f64 {
        self.free_bytes as f64 / self.record_bytes.max(1) as f64
    }
}

/// The entries that the ledger drops while a run of segments is being collected.
struct ConcurrentDrops {
    first_sequence: u64,
    last_sequence: u64,
    /// For each entry, the distance of its sequence number from the first one, and
    /// [`DroppedEntry::packed`]: the length of its record and whether it is a marker. It is compact
    /// because merges go on during a collection, and may drop millions of entries.
    dropped: Vec<(u32, u32)>,
    /// True if further entries were dropped that could not be read back.
    is_incomplete: bool,
}

impl ConcurrentDrops {
    fn new(first_sequence: u64, last_sequence: u64) -> ConcurrentDrops {
        let dropped = Vec::new();
        ConcurrentDrops { first_sequence, last_sequence, dropped, is_incomplete: false }
    }

    /// True if all sequence numbers up to `last_sequence` fit into a distance.
    fn reaches(first_sequence: u64, last_sequence: u64) -> bool {
        last_sequence - first_sequence <= u64::from(u32::MAX)
    }

    fn push(&mut self, dropped: &DroppedEntry) {
        let distance = (dropped.sequence - self.first_sequence) as u32;
        self.dropped.push((distance, dropped.packed() as u32));
    }

    /// The dropped entries, by sequence number.
    fn into_sorted(mut self) -> impl ExactSizeIterator<Item = DroppedEntry> + Clone {
        self.dropped.sort_unstable();
        let first_sequence = self.first_sequence;
        self.dropped.into_iter().map(move |(distance, packed)| {
            DroppedEntry::unpacked(first_sequence + u64::from(distance), packed.into())
        })
    }
}

/// A file that is removed once a manifest without it was committed.
struct RetiredFile {
    path: PathBuf,
    /// True if the manifest that is about to be committed does not name it.
    is_unnamed: bool,
}

/// The accounts that change together with the list of segments.
#[derive(Default)]
struct GarbageState {
    /// Files of segments that collected segments have replaced.
    retired: Vec<RetiredFile>,
    /// The sequence numbers that are being collected, and their entries that were dropped
    /// meanwhile.
    watched: Option<ConcurrentDrops>,
    /// Segments that cannot be collected, by number, with the error: they, or a table that is
    /// needed to judge their records, are damaged.
    damaged: BTreeMap<u64, String>,
}

/// The account of the journal's garbage.
pub(crate) struct Garbage {
    files: Arc<SegmentFiles>,
    segments: Arc<SegmentSet>,
    /// The largest usual size of a segment, in bytes.
    segment_size_bytes: u64,
    /// The number of records at which a segment ends.
    segment_records_max: u64,
    /// Segments of which each unneeded record is known individually.
    unneeded: UnneededCount,
    /// Locked while dead bytes are counted, and while a collected segment replaces others.
    books: Mutex<GarbageState>,
    counters: CollectedCounters,
    excess: SpaceExcess,
}

impl Garbage {
    pub(super) fn new(
        (files, segments): (Arc<SegmentFiles>, Arc<SegmentSet>),
        (segment_size_bytes, segment_records_max): (u64, u64),
        excess: SpaceExcess,
    ) -> Garbage {
        Garbage {
            files,
            segments,
            segment_size_bytes,
            segment_records_max,
            unneeded: UnneededCount::default(),
            books: Mutex::default(),
            counters: CollectedCounters::default(),
            excess,
        }
    }

    /// The dead bytes beyond the journal's bound.
    pub(crate) fn excess(&self) -> &SpaceExcess {
        &self.excess
    }

    /// Counts the records of entries that the ledger has dropped as dead.
    pub(super) fn note_dropped(&self, dropped: &DroppedList) {
        let mut books = self.books.lock();
        let list = self.segments.list();
        let watched = &mut books.watched;
        let sums = sums_of(&list, dropped, |entry, segment| {
            segment.note_unneeded(entry, &self.unneeded);
            if let Some(watched) = watched
                && (watched.first_sequence..=watched.last_sequence).contains(&entry.sequence)
            {
                watched.push(entry);
            }
        });
        if let Some(watched) = watched {
            watched.is_incomplete |= dropped.left_out().next().is_some();
        }
        for (segment, sums) in list.segments.iter().zip(sums) {
            segment.shared.count_dropped(sums);
        }
    }

    /// The facts of the segments for a manifest whose ledger no longer has the entries of
    /// `dropped`.
    pub(super) fn facts_without(&self, dropped: &DroppedList) -> Vec<SegmentMetadata> {
        let mut books = self.books.lock();
        let list = self.segments.list();
        let sums = sums_of(&list, dropped, |_, _| {});
        let with_sums = list.segments.iter().zip(sums).map(|(segment, sums)| {
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

    /// Removes the files that the manifest that was just committed no longer names: those of
    /// segments that were collected. If a removal fails, the next opening removes the file.
    pub(super) fn remove_retired(&self) {
        let mut books = self.books.lock();
        let (unnamed, named): (Vec<RetiredFile>, _) =
            books.retired.drain(..).partition(|retired| retired.is_unnamed);
        books.retired = named;
        drop(books);
        unnamed.iter().for_each(|retired| self.files.remove(&retired.path));
        let (dead_bytes, all_bytes) = self.dead_and_all_bytes();
        self.excess.note(dead_bytes, all_bytes);
    }

    /// The sums over all collections since the store was opened.
    pub(crate) fn collected(&self) -> Collected {
        let mut sum = Collected::default();
        // None of the counters measures time, so any clock will do.
        self.counters.add_to(Clock::monotonic(), &mut sum);
        sum
    }

    /// The dead bytes of all segments' records, and the bytes of all their files.
    pub(crate) fn dead_and_all_bytes(&self) -> (u64, u64) {
        let facts = self.segments.facts();
        let dead_bytes = facts.iter().map(|facts| facts.dead_bytes + facts.marker_bytes);
        (dead_bytes.sum(), facts.iter().map(|facts| facts.size_bytes).sum())
    }

    /// Picks the run that frees the largest share of its bytes, among those that there is room to
    /// copy; `None` if no segment is worth collecting. The run must be installed or abandoned
    /// before the next one is picked.
    pub(crate) fn pick_run(&self, limits: &GarbageLimits) -> Result<Option<SegmentRun>> {
        let list = self.segments.list();
        let mut books = self.books.lock();
        let candidates = candidates(&list.segments, &books, limits);
        let beside_bytes = BESIDE_BYTES + BESIDE_SEGMENT_BYTES * list.segments.len() as u64;
        let room_bytes = limits.free_bytes.checked_sub(beside_bytes);
        let mut worth = candidates
            .iter()
            .enumerate()
            .filter(|(_, it)| it.free_bytes > 0 && it.share() >= limits.dead_share)
            .peekable();
        let is_any_worth = worth.peek().is_some();
        let fits = |it: &Candidate| room_bytes.is_some_and(|room| it.copy_bytes() <= room);
        let seed = worth
            .filter(|(_, candidate)| fits(candidate))
            .max_by(|a, b| a.1.share().total_cmp(&b.1.share()));
        let (Some((seed, _)), Some(room_bytes)) = (seed, room_bytes) else {
            return if is_any_worth { Err(Error::full(&self.files.folder())) } else { Ok(None) };
        };
        let range = self.extend(&candidates, seed, limits.dead_share, room_bytes);
        let run = SegmentRun::of(&list, &candidates[range]);
        books.watched =
            run.as_ref().map(|run| ConcurrentDrops::new(run.first_sequence, run.last_sequence));
        Ok(run)
    }

    /// Extends the run from the candidate at `seed` to its neighbours: those that are worth
    /// collecting themselves, and small ones, as long as all remaining records fit into one segment
    /// and into the room on the disk.
    fn extend(
        &self,
        candidates: &[Candidate],
        seed: usize,
        dead_share: f64,
        room_bytes: u64,
    ) -> std::ops::Range<usize> {
        let (mut low, mut high) = (seed, seed + 1);
        let mut live_bytes = candidates[seed].live_bytes();
        let mut live_records = candidates[seed].live_records();
        loop {
            let (first, last) = (&candidates[low], &candidates[high - 1]);
            let fits = |neighbour: &Candidate, beside: &Candidate| {
                let first_sequence = first.first_sequence.min(neighbour.first_sequence);
                let last_sequence = last.last_sequence.max(neighbour.last_sequence);
                let is_small = neighbour.live_bytes() <= live_bytes
                    && neighbour.record_bytes <= self.segment_size_bytes / 2;
                neighbour.index.abs_diff(beside.index) == 1
                    && live_bytes + neighbour.live_bytes() <= self.segment_size_bytes
                    && live_records + neighbour.live_records() <= self.segment_records_max
                    && live_bytes + live_records * PAIR_LENGTH + neighbour.copy_bytes()
                        <= room_bytes
                    && ConcurrentDrops::reaches(first_sequence, last_sequence)
                    && (neighbour.share() >= dead_share || is_small)
            };
            if high - low >= RUN_SEGMENTS_MAX {
                return low..high;
            }
            if let Some(next) = candidates.get(high)
                && fits(next, &candidates[high - 1])
            {
                live_bytes += next.live_bytes();
                live_records += next.live_records();
                high += 1;
            } else if let Some(previous) = low.checked_sub(1)
                && fits(&candidates[previous], &candidates[low])
            {
                live_bytes += candidates[previous].live_bytes();
                live_records += candidates[previous].live_records();
                low = previous;
            } else {
                return low..high;
            }
        }
    }

    /// The sequence number up to which markers hide nothing below `first_sequence`: each segment
    /// there has no dead record, or was collected after these markers were written.
    pub(crate) fn markers_clean_below(&self, first_sequence: u64) -> u64 {
        let list = self.segments.list();
        let below = list.segments.iter().take_while(|s| s.first_sequence < first_sequence);
        below
            .filter(|segment| segment.shared.dead_bytes() > 0)
            .map(|segment| segment.clean_sequence())
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Ends a collection that failed.
    pub(crate) fn abandon(&self, run: &SegmentRun, error: &Error) {
        let mut books = self.books.lock();
        books.watched = None;
        if let Error::Corruption { path, .. } = error {
            // Trying again would not repair it.
            let is_damaged = |segment: &Arc<Segment>| segment.shared.path == *path;
            let is_in_table = !run.segments.iter().any(is_damaged);
            let damaged = run.segments.iter().filter(|one| is_in_table || is_damaged(one));
            let numbers = damaged.map(|segment| segment.shared.number);
            books.damaged.extend(numbers.map(|number| (number, error.to_string())));
        }
    }

    /// The error of the oldest segment that is not collected because of damage.
    pub(crate) fn damage(&self) -> Option<String> {
        self.books.lock().damaged.first_key_value().map(|(_, error)| error.clone())
    }

    /// Replaces `run` by `collected`. The files of the run are removed after the next manifest.
    /// `markers` are the records that were kept although the ledger no longer names them: sequence
    /// number and length of each.
    pub(crate) fn install(
        &self,
        run: &SegmentRun,
        collected: Arc<Segment>,
        markers: &[(u64, u64)],
    ) {
        let mut books = self.books.lock();
        let watched = books.watched.take().expect("a run is watched from its picking on");
        let (mut marker_bytes, mut markers) = (0, markers.iter().peekable());
        // Both lists ascend. Markers that the ledger dropped meanwhile are counted as dropped, not
        // twice.
        let mut lost = DroppedBytes::default();
        if watched.is_incomplete {
            lost.dead_bytes += UNKNOWN_BYTES;
        }
        for dropped in watched.into_sorted() {
            lost.add(&dropped, &collected);
            while let Some((_, bytes)) = markers.next_if(|(at, _)| *at < dropped.sequence) {
                marker_bytes += bytes;
            }
            markers.next_if(|(at, _)| *at == dropped.sequence);
        }
        marker_bytes += markers.map(|(_, bytes)| *bytes).sum::<u64>();
        lost.marker_bytes += marker_bytes;
        collected.shared.count_dropped(lost);
        let old_bytes: u64 = run.segments.iter().map(|segment| segment.facts().size_bytes).sum();
        let new_bytes = collected.facts().size_bytes;
        let numbers: HashSet<u64> =
            run.segments.iter().map(|segment| segment.shared.number).collect();
        self.segments.change(|segments| {
            let at = segments.iter().position(|s| numbers.contains(&s.shared.number));
            let at = at.expect("only collection takes sealed segments away");
            segments.retain(|segment| !numbers.contains(&segment.shared.number));
            segments.insert(at, Arc::clone(&collected));
        });
        let retire = |segment: &Arc<Segment>| RetiredFile {
            path: segment.shared.path.clone(),
            is_unnamed: false,
        };
        books.retired.extend(run.segments.iter().map(retire));
        self.counters.segments.add(run.segments.len() as u64);
        self.counters.copied_bytes.add(new_bytes);
        self.counters.freed_bytes.add(old_bytes.saturating_sub(new_bytes));
    }
}

fn candidates(
    segments: &[Arc<Segment>],
    books: &GarbageState,
    limits: &GarbageLimits,
) -> Vec<Candidate> {
    let mut marker_sequence = limits.marker_sequence;
    let mut candidates = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let Some(footer) = segment.footer() else { break };
        if footer.last_sequence > limits.flushed_sequence {
            break;
        }
        let (facts, record_bytes) = (segment.facts(), segment.record_bytes());
        let can_drop_markers = footer.last_sequence <= marker_sequence;
        let markers = if can_drop_markers { facts.marker_bytes } else { 0 };
        let free_bytes = (facts.dead_bytes + markers).min(record_bytes);
        if facts.dead_bytes > 0 {
            marker_sequence = marker_sequence.min(segment.clean_sequence());
        }
        if !books.damaged.contains_key(&segment.shared.number) {
            candidates.push(Candidate {
                index,
                record_bytes,
                free_bytes,
                records: u64::from(footer.count),
                first_sequence: segment.first_sequence,
                last_sequence: footer.last_sequence,
            });
        }
    }
    candidates
}

/// The bytes that each segment of `list` loses with the entries of `dropped`. Calls `visit` with
/// each of them and its segment. A segment that may have lost others, too, loses at least
/// [`UNKNOWN_BYTES`].
fn sums_of(
    list: &SegmentList,
    dropped: &DroppedList,
    mut visit: impl FnMut(&DroppedEntry, &Segment),
) -> Vec<DroppedBytes> {
    let mut sums = vec![DroppedBytes::default(); list.segments.len()];
    let mut near = 0;
    dropped.iter().for_each(|entry| {
        if let Some(index) = list.find_index_near(entry.sequence, &mut near) {
            let segment = &*list.segments[index];
            sums[index].add(&entry, segment);
            visit(&entry, segment);
        }
    });
    for left_out in dropped.left_out() {
        let end = list.segments.partition_point(|it| it.first_sequence <= *left_out.end());
        let begin = list.segments.partition_point(|it| it.first_sequence <= *left_out.start());
        let touched = &mut sums[begin.saturating_sub(1)..end];
        touched.iter_mut().for_each(|sums| sums.dead_bytes += UNKNOWN_BYTES);
    }
    sums
}
