//! A scan: the keys of a range as they were at one sequence number.

use std::cmp::Ordering as Order;
use std::ops::Bound;

use super::merge::Merge;
use super::options::{lies_before, lies_behind};
use super::{Direction, EntryKind, FoundEntry, KeyRange};
use crate::error::{Error, Result};
use crate::read_mode::ReadMode;

/// The most entries that a scan may skip on a thread that also serves others.
const PASSED_MAX: u32 = 5_000;

/// A scan over a range. Its cursors hold the memtables and tables of the version of the tree with
/// which it began, so later flushes and merges do not affect it, until it is released.
pub(crate) struct LedgerScan {
    merge: Merge,
    /// True if `merge` was replaced by one without sources, so that its end is not the scan's.
    is_released: bool,
    direction: Direction,
    at_sequence: u64,
    /// The key that was returned last; before the first one, the bound at which the scan begins.
    key: Vec<u8>,
    /// Relative to `key`, the position of the next entry: included, behind it, or anywhere.
    next_from: Bound<()>,
    /// The bound at which the scan ends.
    end: Bound<Box<[u8]>>,
    /// The number of entries that it may still skip; `None` for no limit.
    passes_left: Option<u32>,
    /// The error that ended the scan; each further call returns it, too.
    failure: Option<Error>,
}

impl LedgerScan {
    /// A scan over the entries of `merge`, which begins where `range` begins in `direction`.
    pub(super) fn new(
        merge: Merge,
        range: &KeyRange<'_>,
        direction: Direction,
        at_sequence: u64,
        mode: ReadMode,
    ) -> LedgerScan {
        let (begin, end) = match direction {
            Direction::Forward => (range.start, range.end),
            Direction::Backward => (range.end, range.start),
        };
        let key = match begin {
            Bound::Included(key) | Bound::Excluded(key) => key.to_vec(),
            Bound::Unbounded => Vec::new(),
        };
        LedgerScan {
            merge,
            is_released: false,
            direction,
            at_sequence,
            key,
            next_from: begin.map(|_| ()),
            end: end.map(Box::from),
            passes_left: (mode != ReadMode::MayBlock).then_some(PASSED_MAX),
            failure: None,
        }
    }

    /// The next key, and its newest entry at or below the scan's sequence number. Deleted keys are
    /// skipped.
    #[allow(clippy::should_implement_trait, reason = "it lends the key, which Iterator cannot")]
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], FoundEntry)>> {
        let mut found = FoundEntry::nothing();
        let is_there = self.find_next(&mut found)?;
        Ok(is_there.then(|| (&self.key[..], found)))
    }

    /// Moves to the next key, and puts its newest entry at or below the scan's sequence number into
    /// `found`. Deleted keys are skipped. Returns false at the end.
    #[inline]
    pub(crate) fn find_next(&mut self, found: &mut FoundEntry) -> Result<bool> {
        loop {
            let moved = match self.direction {
                Direction::Forward => self.next_forward(found),
                Direction::Backward => self.next_reverse(found),
            };
            let is_there = moved.map_err(|error| self.fail(error))?;
            if !is_there || found.kind == EntryKind::Put {
                return Ok(is_there);
            }
            self.pass()?;
        }
    }

    /// Counts a skipped entry.
    ///
    /// # Errors
    /// [`Error::NotInMemory`] if too many were skipped on a thread that also serves others.
    pub(crate) fn pass(&mut self) -> Result<()> {
        match &mut self.passes_left {
            None => Ok(()),
            Some(0) => Err(self.fail(Error::NotInMemory)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// Ends the scan with an error: its cursors may be behind keys that were not returned.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.release();
        (self.is_released, self.failure) = (false, Some(error.clone()));
        error
    }

    /// Releases the memtables and tables. The scan finds nothing until it is resumed, unless an
    /// error has ended it.
    pub(crate) fn release(&mut self) {
        self.merge = Merge::of_placed(Vec::new(), self.direction);
        self.is_released = self.failure.is_none();
    }

    /// The result at the end of the merge.
    fn end(&self) -> Result<bool> {
        self.failure.clone().map_or(Ok(false), Err)
    }

    /// True until a released scan is resumed.
    #[inline]
    pub(crate) fn is_released(&self) -> bool {
        self.is_released
    }

    /// Resumes a released scan with a merge of the rest of its range, which `merge` makes for the
    /// scan's sequence number.
    pub(super) fn resume(
        &mut self,
        merge: impl FnOnce(&KeyRange<'_>, Direction, u64) -> Result<Merge>,
    ) -> Result<()> {
        let begin = self.next_from.map(|()| &self.key[..]);
        let end = self.end.as_ref().map(|end| &**end);
        let (start, end) = match self.direction {
            Direction::Forward => (begin, end),
            Direction::Backward => (end, begin),
        };
        self.merge = merge(&KeyRange { start, end }, self.direction, self.at_sequence)?;
        self.is_released = false;
        Ok(())
    }

    /// The current key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    fn next_forward(&mut self, found: &mut FoundEntry) -> Result<bool> {
        loop {
            let Some(entry) = self.merge.entry() else { return self.end() };
            let is_passed = match entry.key.cmp(&self.key) {
                Order::Greater => false,
                Order::Equal => self.next_from == Bound::Excluded(()),
                Order::Less => return Err(self.merge.out_of_order()),
            };
            if is_passed || entry.sequence > self.at_sequence {
                // Behind the end, there may be any number of entries that are too new.
                if !is_passed && self.is_behind_end(entry.key) {
                    return Ok(false);
                }
                self.merge.advance()?;
                self.pass()?;
                continue;
            }
            if self.is_behind_end(entry.key) {
                return Ok(false);
            }
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.next_from = Bound::Excluded(());
            *found = entry.to_found();
            self.merge.advance()?;
            return Ok(true);
        }
    }

    /// True if a forward scan ends before this key.
    #[inline]
    fn is_behind_end(&self, key: &[u8]) -> bool {
        !lies_before(key, self.end.as_ref().map(|end| &**end))
    }

    fn next_reverse(&mut self, found: &mut FoundEntry) -> Result<bool> {
        loop {
            let Some(entry) = self.merge.entry() else { return self.end() };
            if !lies_before(entry.key, self.next_from.map(|()| &self.key[..])) {
                return Err(self.merge.out_of_order());
            }
            if !lies_behind(entry.key, self.end.as_ref().map(|end| &**end)) {
                return Ok(false);
            }
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.next_from = Bound::Excluded(());
            // In reverse, the versions of a key come from the oldest to the newest.
            let (mut is_there, mut is_first) = (false, true);
            while let Some(entry) = self.merge.entry().filter(|entry| entry.key == &self.key[..]) {
                if entry.sequence <= self.at_sequence {
                    *found = entry.to_found();
                    is_there = true;
                }
                if !std::mem::take(&mut is_first) {
                    self.pass()?;
                }
                self.merge.advance()?;
            }
            if is_there {
                return Ok(true);
            }
            self.pass()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::memtable::{MemoryPool, Memtable};
    use super::super::version::{Levels, Version};
    use super::super::{Entry, NEWEST};
    use super::*;
    use crate::codec::key_hash;

    /// A brief scan of a memtable with these keys and sequence numbers.
    fn brief_scan(
        entries: impl Iterator<Item = (Vec<u8>, u64)>,
        range: &KeyRange<'_>,
        direction: Direction,
        at_sequence: u64,
    ) -> LedgerScan {
        let active = Arc::new(Memtable::new(4 << 20, false, &Arc::new(MemoryPool::new(64 << 20))));
        for (key, sequence) in entries {
            let entry = Entry { key: &key, sequence, kind: EntryKind::Put, ..Entry::NOTHING };
            active.insert(&entry, key_hash(&key));
        }
        let version = Version { active, sealed: Vec::new(), levels: Levels::new([]).unwrap() };
        let merge = Merge::of_version(&version, range, direction, at_sequence, ReadMode::Brief);
        let merge = merge.unwrap();
        LedgerScan::new(merge, range, direction, at_sequence, ReadMode::Brief)
    }

    /// A key with the sequence number 1, and more newer keys behind it than a scan may skip.
    fn one_before_newer() -> impl Iterator<Item = (Vec<u8>, u64)> {
        let newer = (2..2 * u64::from(PASSED_MAX))
            .map(|sequence| (format!("\0\x01b{sequence:05}").into_bytes(), sequence));
        std::iter::once((b"\0\x01a".to_vec(), 1)).chain(newer)
    }

    /// Regression: a scan at an older snapshot passed all newer entries behind its end.
    #[test]
    fn a_forward_scan_at_an_older_snapshot_stops_at_its_end() {
        let range = KeyRange { start: Bound::Unbounded, end: Bound::Excluded(b"\0\x01b") };
        let mut scan = brief_scan(one_before_newer(), &range, Direction::Forward, 1);
        assert_eq!(scan.next().unwrap().map(|(key, _)| key), Some(&b"\0\x01a"[..]));
        assert!(matches!(scan.next(), Ok(None)));
    }

    /// Regression: backwards, the only version of a key did not count if it was too new.
    #[test]
    fn a_reverse_scan_counts_keys_that_are_too_new() {
        let (range, backward) = (KeyRange::EVERYTHING, Direction::Backward);
        let mut scan = brief_scan(one_before_newer(), &range, backward, 1);
        assert!(matches!(scan.next(), Err(Error::NotInMemory)));
    }

    /// Regression: a reverse scan walked through all versions of a key before it looked at its
    /// limit, and held up the other callers of its thread.
    #[test]
    fn a_reverse_scan_ends_among_the_versions_of_a_key() {
        const VERSIONS: u64 = 2 * PASSED_MAX as u64;
        let entries = (1..=VERSIONS).map(|sequence| (b"\0\x01k".to_vec(), sequence));
        let mut scan = brief_scan(entries, &KeyRange::EVERYTHING, Direction::Backward, NEWEST);
        let mut found = FoundEntry::nothing();
        assert!(matches!(scan.find_next(&mut found), Err(Error::NotInMemory)));
        assert!(found.sequence < VERSIONS, "further versions follow");
    }
}
