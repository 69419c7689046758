//! Offsets that need no look-up: where neighbouring records are of one length, the offset of one
//! follows from its number. A segment whose records come in a few such runs, as with values of one
//! size, is described by them, in a line or two that stay in a processor's cache, while its array
//! of offsets would be waited for. It is only another way to the same numbers, made from the array
//! when the segment is opened; a segment of many lengths has none.

use crate::header_form::RECORD_ALIGNMENT;

/// Runs of a segment at most. A sync mark, of which a sealed segment has a few, begins a new one.
const RUNS_MAX: usize = 6;

/// A run of records of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// The number of its first record.
    first: u32,
    /// The offset of that one.
    offset: u32,
    /// The distance of the offset of each further one from the one before.
    step: u32,
}

/// The offsets of a segment's records, in runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Runs {
    /// Of those after the first one, as many as there are; the others begin beyond all records.
    further: [Run; RUNS_MAX - 1],
    first: Run,
}

impl Runs {
    /// The runs of `offsets`, if there are few enough of them.
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

    /// The offset of record `number`, in bytes; it must be below the number of records.
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
        fn runs_say_what_the_places_say(
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
