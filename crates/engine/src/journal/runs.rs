//! Offsets that need no look-up: if consecutive records have the same length, their offsets follow
//! from their indexes. A segment that consists of a few such runs, for example with values of one
//! size, is described by a cache line or two, which stay in a processor's cache; its offset array
//! would not. The runs are derived from the array when the segment is opened. A segment with
//! records of many lengths has no runs.

use crate::header_form::RECORD_ALIGNMENT;

/// The most runs of a segment. A sync mark begins a new run; a sealed segment has a few of them.
const RUNS_MAX: usize = 6;

/// A run of records of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// The index of the first record.
    first: u32,
    /// The offset of the first record, in units of 8 bytes.
    offset: u32,
    /// The difference between the offsets of consecutive records, in units of 8 bytes.
    step: u32,
}

/// The offsets of a segment's records, in runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Runs {
    /// The runs after the first one. Unused entries begin beyond all records.
    further: [Run; RUNS_MAX - 1],
    first: Run,
}

impl Runs {
    /// Finds the runs of `offsets`; `None` if there are too many.
    pub(super) fn of(mut offsets: impl Iterator<Item = u32>) -> Option<Runs> {
        let offset = offsets.next()?;
        let beyond = Run { first: u32::MAX, ..Run::default() };
        let mut runs = [beyond; RUNS_MAX];
        runs[0] = Run { first: 0, offset, step: 0 };
        let (mut last, mut before) = (0, offset);
        for (number, offset) in (1_u32..).zip(offsets) {
            let step = offset.checked_sub(before)?;
            if number - runs[last].first == 1 {
                runs[last].step = step;
            } else if runs[last].step != step {
                last += 1;
                *runs.get_mut(last)? = Run { first: number, offset, step: 0 };
            }
            before = offset;
        }
        let [first, further @ ..] = runs;
        Some(Runs { further, first })
    }

    /// The offset of record `number` in bytes; `number` must be below the number of records.
    #[inline]
    pub(super) fn offset(&self, number: u64) -> u64 {
        let number = number as u32;
        let mut run = &self.first;
        for further in &self.further {
            if further.first <= number {
                run = further;
            }
        }
        let units = u64::from(run.offset) + u64::from(number - run.first) * u64::from(run.step);
        units * RECORD_ALIGNMENT
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_give_the_same_offsets_as_the_array(
            runs in prop::collection::vec((1_u32..50, 1_usize..20), 0..8),
        ) {
            let mut offsets = vec![8];
            for (step, count) in runs {
                for _ in 0..count {
                    offsets.push(offsets[offsets.len() - 1] + step);
                }
            }
            if let Some(runs) = Runs::of(offsets.iter().copied()) {
                for (number, offset) in offsets.iter().enumerate() {
                    prop_assert_eq!(runs.offset(number as u64), u64::from(*offset) * 8);
                }
            }
        }
    }

    #[test]
    fn records_of_one_length_and_a_few_marks_are_runs_and_many_lengths_are_not() {
        let marked = (0..1_000).map(|number| 8 + number * 42 + number / 300 * 6);
        assert!(Runs::of(marked).is_some());
        assert_eq!(Runs::of((0..100).map(|number| number * number)), None);
        assert_eq!(Runs::of(std::iter::empty()), None);
        assert_eq!(Runs::of([9, 8].into_iter()), None, "damage");
    }
}
