//! The total order of values, by which AQL compares and sorts.
//!
//! First comes the type: null, bool, number, string, array, object. Arrays compare element by
//! element and objects over all their names in order, and what one of them lacks counts as null.
//! So `[]` equals `[null]`. Strings compare byte by byte.

use std::cmp::Ordering;
use std::convert::Infallible;

use crate::{ArrayRef, ObjectRef, Ref, compare_numbers};

/// Bytes of text whose comparison is one step of [`compare_with`].
const STEP_BYTES: usize = 4096;

/// How `left` compares to `right`.
#[must_use]
pub fn compare(left: Ref<'_>, right: Ref<'_>) -> Ordering {
    let Ok(order) = compare_with(left, right, &mut |_| Ok::<(), Infallible>(()));
    order
}

/// As [`compare`], for long values: `tick` is called with the number of steps that follow.
///
/// # Errors
/// That of `tick`, which ends it.
pub fn compare_with<E>(
    left: Ref<'_>,
    right: Ref<'_>,
    tick: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<Ordering, E> {
    Ok(match (left, right) {
        (Ref::Bool(left), Ref::Bool(right)) => left.cmp(&right),
        (Ref::Number(left), Ref::Number(right)) => compare_numbers(left, right),
        (Ref::String(left), Ref::String(right)) => {
            let steps = left.len().min(right.len()) / STEP_BYTES;
            if steps > 0 {
                tick(steps)?;
            }
            left.cmp(right)
        }
        (Ref::Array(left), Ref::Array(right)) => compare_arrays(left, right, tick)?,
        (Ref::Object(left), Ref::Object(right)) => compare_objects(left, right, tick)?,
        _ => left.kind().cmp(&right.kind()),
    })
}

/// Whether the two are the same in the order of values.
#[must_use]
pub fn equal(left: Ref<'_>, right: Ref<'_>) -> bool {
    match (left, right) {
        (Ref::String(left), Ref::String(right)) => left == right,
        _ => compare(left, right) == Ordering::Equal,
    }
}

fn compare_arrays<E>(
    left: ArrayRef<'_>,
    right: ArrayRef<'_>,
    tick: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<Ordering, E> {
    for place in 0..left.len().max(right.len()) {
        tick(1)?;
        let left = left.get(place).unwrap_or(Ref::Null);
        let right = right.get(place).unwrap_or(Ref::Null);
        let order = compare_with(left, right, tick)?;
        if order != Ordering::Equal {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

fn compare_objects<E>(
    left: ObjectRef<'_>,
    right: ObjectRef<'_>,
    tick: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<Ordering, E> {
    let (mut lefts, mut rights) = (left.sorted().peekable(), right.sorted().peekable());
    loop {
        tick(1)?;
        let names = match (lefts.peek(), rights.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(Ordering::Equal),
        };
        let mut left = Ref::Null;
        let mut right = Ref::Null;
        if names != Ordering::Greater {
            left = lefts.next().map_or(Ref::Null, |(_, value)| value);
        }
        if names != Ordering::Less {
            right = rights.next().map_or(Ref::Null, |(_, value)| value);
        }
        let order = compare_with(left, right, tick)?;
        if order != Ordering::Equal {
            return Ok(order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{ascending, values};
    use proptest::prelude::*;

    #[test]
    fn the_samples_are_in_order() {
        let samples = ascending();
        for (left_at, left) in samples.iter().enumerate() {
            for (right_at, right) in samples.iter().enumerate() {
                let order = compare(left.view(), right.view());
                assert_eq!(order, left_at.cmp(&right_at), "{left:?} {right:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_order_is_total(a in values(), b in values(), c in values()) {
            let (a, b, c) = (a.view(), b.view(), c.view());
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            if compare(a, b) != Ordering::Greater && compare(b, c) != Ordering::Greater {
                prop_assert_ne!(compare(a, c), Ordering::Greater);
            }
        }

        #[test]
        fn the_form_of_a_value_does_not_matter(value in values()) {
            let packed = crate::Value::open(&value.to_packed()).unwrap();
            prop_assert!(equal(value.view(), packed.view()));
            prop_assert_eq!(value.to_json(), packed.to_json());
        }
    }
}
