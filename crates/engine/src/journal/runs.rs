//! Places that need no look-up: where neighbouring records are of one length, the place of one
//! follows from its number. A segment whose records come in a few such runs, as with values of one
//! size, is described by them, in a line or two that stay in a processor's cache, while its array
//! of places would be waited for. It is only another way to the same numbers, made from the array
//! when the segment is opened; a segment of many lengths has none.

/// Runs of a segment at most. A sync mark, of which a sealed segment has a few, begins a new one.
const RUNS_MAX: usize = 6;

/// A run of records of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// The number of its first record.
    first: u32,
    /// The place of that one.
    place: u32,
    /// How far the place of each further one is from the one before.
    step: u32,
}

/// The places of a segment's records, in runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Runs {
    /// Of those after the first one, as many as there are; the others begin beyond all records.
    further: [Run; RUNS_MAX - 1],
    first: Run,
}

impl Runs {
    /// The runs of `places`, if there are few enough of them.
    pub(super) fn of(mut places: impl Iterator<Item = u32>) -> Option<Runs> {
        let place = places.next()?;
        let beyond = Run { first: u32::MAX, ..Run::default() };
        let mut runs = [beyond; RUNS_MAX];
        runs[0] = Run { first: 0, place, step: 0 };
        let (mut last, mut before) = (0, place);
        for (number, place) in (1_u32..).zip(places) {
            let step = place.checked_sub(before)?;
            if number - runs[last].first == 1 {
                runs[last].step = step;
            } else if runs[last].step != step {
                last += 1;
                *runs.get_mut(last)? = Run { first: number, place, step: 0 };
            }
            before = place;
        }
        let [first, further @ ..] = runs;
        Some(Runs { further, first })
    }

    /// The place of record `number`, which must be below the number of records.
    #[inline]
    pub(super) fn place(&self, number: u64) -> u64 {
        let number = number as u32;
        let mut run = &self.first;
        for further in &self.further {
            if further.first <= number {
                run = further;
            }
        }
        u64::from(run.place) + u64::from(number - run.first) * u64::from(run.step)
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
            let mut places = vec![8];
            for (step, count) in runs {
                for _ in 0..count {
                    places.push(places[places.len() - 1] + step);
                }
            }
            if let Some(runs) = Runs::of(places.iter().copied()) {
                for (number, place) in places.iter().enumerate() {
                    prop_assert_eq!(runs.place(number as u64), u64::from(*place));
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
