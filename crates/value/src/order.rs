//! The total order of values, by which AQL compares and sorts.
//!
//! Values of different types compare by type: null, bool, number, string, array, object. Arrays
//! compare element by element, and objects member by member, over the sorted union of their names.
//! A missing element or member counts as null, so `[]` equals `[null]`. Strings compare by bytes.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::iter::Peekable;
use std::sync::Arc;

use crate::number::compare_numbers;
use crate::{ArrayRef, Members, ObjectRef, Ref};

/// The bytes of text whose comparison counts as one step of [`compare_with`].
const STEP_BYTES: usize = 4096;

/// The order of `left` and `right`.
#[must_use]
pub fn compare(left: Ref<'_>, right: Ref<'_>) -> Ordering {
    let Ok(order) = compare_with(left, right, &mut |_| Ok::<(), Infallible>(()));
    order
}

/// As [`compare`], but it can be interrupted: before each piece of work, `tick` is called with its
/// number of steps. A step is a pair of elements or members, or 4096 bytes of two strings.
///
/// # Errors
/// The error of `tick`, which ends the comparison.
pub fn compare_with<E>(
    left: Ref<'_>,
    right: Ref<'_>,
    tick: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<Ordering, E> {
    match Pair::of(left, right) {
        Some(pair) => compare_parts(pair, tick),
        None => compare_scalars(left, right, tick),
    }
}

/// True if the two are the same in the order of values.
#[must_use]
pub fn equal(left: Ref<'_>, right: Ref<'_>) -> bool {
    match (left, right) {
        (Ref::String(left), Ref::String(right)) => left == right,
        _ => compare(left, right) == Ordering::Equal,
    }
}

/// Compares two values that are not both arrays or both objects, or that are the same array or
/// object in memory.
#[inline]
fn compare_scalars<E>(
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
        _ => left.kind().cmp(&right.kind()),
    })
}

/// Compares part by part, without recursion, because stored documents may have any depth.
fn compare_parts<E>(
    mut pair: Pair<'_>,
    tick: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<Ordering, E> {
    let mut outer = Vec::new();
    loop {
        tick(1)?;
        let Some((left, right)) = pair.next() else {
            match outer.pop() {
                Some(outer) => pair = outer,
                None => return Ok(Ordering::Equal),
            }
            continue;
        };
        match Pair::of(left, right) {
            Some(inner) => outer.push(std::mem::replace(&mut pair, inner)),
            None => match compare_scalars(left, right, tick)? {
                Ordering::Equal => {}
                order => return Ok(order),
            },
        }
    }
}

/// Two arrays or two objects that are being compared, equal so far.
enum Pair<'a> {
    Arrays(ArrayRef<'a>, ArrayRef<'a>, usize),
    Objects(Peekable<Members<'a>>, Peekable<Members<'a>>),
}

impl<'a> Pair<'a> {
    /// The pair of two arrays or two objects. `None` for other values, and for the same array or
    /// object in memory, whose parts cannot differ.
    fn of(left: Ref<'a>, right: Ref<'a>) -> Option<Self> {
        match (left, right) {
            (Ref::Array(ArrayRef::Built(left)), Ref::Array(ArrayRef::Built(right)))
                if Arc::ptr_eq(left, right) =>
            {
                None
            }
            (Ref::Object(ObjectRef::Built(left)), Ref::Object(ObjectRef::Built(right)))
                if Arc::ptr_eq(left, right) =>
            {
                None
            }
            (Ref::Array(left), Ref::Array(right)) => Some(Self::Arrays(left, right, 0)),
            (Ref::Object(left), Ref::Object(right)) => {
                Some(Self::Objects(left.sorted().peekable(), right.sorted().peekable()))
            }
            _ => None,
        }
    }

    /// The next parts to compare; none at the end.
    fn next(&mut self) -> Option<(Ref<'a>, Ref<'a>)> {
        match self {
            Self::Arrays(left, right, place) => {
                if *place >= left.len().max(right.len()) {
                    return None;
                }
                let parts = (left.get(*place), right.get(*place));
                *place += 1;
                Some((parts.0.unwrap_or(Ref::Null), parts.1.unwrap_or(Ref::Null)))
            }
            Self::Objects(lefts, rights) => {
                let names = match (lefts.peek(), rights.peek()) {
                    (Some((left, _)), Some((right, _))) => left.cmp(right),
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (None, None) => return None,
                };
                // The side that lacks the smaller name gives null and does not advance.
                let next = |members: &mut Peekable<Members<'a>>, absent_if| {
                    if names == absent_if { None } else { members.next() }
                };
                let left = next(lefts, Ordering::Greater).map_or(Ref::Null, |(_, value)| value);
                let right = next(rights, Ordering::Less).map_or(Ref::Null, |(_, value)| value);
                Some((left, right))
            }
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
            let packed = crate::Value::open(&value.to_packed().unwrap()).unwrap();
            prop_assert!(equal(value.view(), packed.view()));
            prop_assert_eq!(value.to_json(), packed.to_json());
        }
    }
}
