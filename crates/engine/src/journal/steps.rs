//! Reading a record step by step, for the samples that tell where its time goes: finding its place,
//! and reading it, from the page cache or from the medium. Kept apart from [`Journal::read`], so
//! that reads that are not sampled pay nothing.

use super::Journal;
use crate::error::{Error, Result};
use crate::object::Value;
use crate::read_mode::ReadMode;
use crate::tally::{Count, Counting};

impl Journal {
    /// As [`Journal::read_if_held`], with the times of its steps. Whether the record is in the page
    /// cache is asked before it is touched, between the steps.
    #[cold]
    pub(crate) fn read_by_steps(
        &self,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
        mode: ReadMode,
        counting: Counting<'_>,
    ) -> Result<Option<Value>> {
        let begun = counting.now();
        let segments = self.segments.load();
        let Some(segment) = segments.find(sequence) else { return Ok(None) };
        let Some(offset) = segment.place(sequence) else {
            return segment.check_places().map(|()| None);
        };
        counting.add_since(Count::PlaceTicks, begun);
        counting.add(Count::PlaceSamples, 1);
        let is_resident = segment.shared.map.is_resident(offset as usize, expected_length);
        let (samples, ticks) = match is_resident {
            true => (Count::CachedSamples, Count::CachedTicks),
            false if mode == ReadMode::InMemory => return Err(Error::NotInMemory),
            false => (Count::DiskSamples, Count::DiskTicks),
        };
        let begun = counting.now();
        let value = segment.read(sequence, key, expected_length);
        counting.add_since(ticks, begun);
        counting.add(samples, 1);
        value
    }
}
