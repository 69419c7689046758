//! The selection of entries for a scan or a fold.

use std::ops::Bound;

use crate::scan::Direction;

/// A selection of the keys of a table, or of the terms of an index: a range, a direction, and a
/// maximum number of entries.
///
/// ```
/// use std::ops::Bound;
///
/// use pellucid_engine::{Direction, Selection};
///
/// let newest_ten = Selection {
///     start: Bound::Included(b"log/"),
///     end: Bound::Excluded(b"log0"),
///     direction: Direction::Backward,
///     limit: 10,
/// };
/// assert_eq!(Selection::default().limit, u64::MAX);
/// # let _ = newest_ten;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// The lower bound, in either direction.
    pub start: Bound<&'a [u8]>,
    /// The upper bound.
    pub end: Bound<&'a [u8]>,
    /// The direction: from the lower bound upwards, or from the upper bound downwards.
    pub direction: Direction,
    /// The most entries that are returned.
    pub limit: u64,
}

/// Selects everything, in ascending order.
impl Default for Selection<'_> {
    fn default() -> Self {
        let (start, end) = (Bound::Unbounded, Bound::Unbounded);
        Selection { start, end, direction: Direction::Forward, limit: u64::MAX }
    }
}

impl<'a> Selection<'a> {
    /// Selects one key, or one term with all its entries.
    #[must_use]
    pub fn one(key: &'a [u8]) -> Selection<'a> {
        let (start, end) = (Bound::Included(key), Bound::Included(key));
        Selection { start, end, ..Selection::default() }
    }
}
