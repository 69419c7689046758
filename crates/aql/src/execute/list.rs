//! Execution of loops over lists: the elements of an array for each row. The elements of a range
//! are counted, and never all in memory.

use pellucid_value::{ArrayRef, Value};

use super::nested_loop::NestedLoop;
use super::rows::{Upstream, bytes_of_copy};
use crate::evaluate::range_bounds;
use crate::query_run::QueryRun;
use crate::tree::{Code, Row, Slot};
use crate::{QueryError, Result, number};

/// A row, and the rest of its elements.
pub(super) type RowElements = (Row, Elements);

pub(super) enum Elements {
    Listed {
        values: std::vec::IntoIter<Value>,
        /// Their memory.
        bytes: usize,
    },
    Counted {
        next: Option<i64>,
        last: i64,
    },
}

impl Iterator for Elements {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        match self {
            Self::Listed { values, .. } => values.next(),
            Self::Counted { next, last } => {
                let value = (*next)?;
                *next = match value.cmp(last) {
                    std::cmp::Ordering::Less => Some(value + 1),
                    std::cmp::Ordering::Greater => Some(value - 1),
                    std::cmp::Ordering::Equal => None,
                };
                Some(Value::Int(value))
            }
        }
    }
}

pub(super) fn rows(
    walk: &mut NestedLoop<RowElements>,
    (list, slot): (&Code, Slot),
    upstream: impl Upstream,
    run: &mut QueryRun,
    want: usize,
) -> Result<Vec<Row>> {
    let begin = |row: Row, run: &mut QueryRun| {
        let elements = elements(list, &row, run)?;
        Ok((row, elements))
    };
    walk.next(upstream, run, want, begin, |(row, elements), run, want, out| {
        while out.len() < want && (out.is_empty() || !run.memory.is_batch_full()) {
            let Some(element) = elements.next() else {
                if let Elements::Listed { bytes, .. } = elements {
                    run.memory.free(*bytes);
                }
                return Ok(false);
            };
            run.tick()?;
            run.memory.take_for_batch(bytes_of_copy(row) + element.own_bytes())?;
            let mut row = row.clone();
            row[slot] = element;
            out.push(row);
        }
        Ok(true)
    })
}

fn elements(list: &Code, row: &Row, run: &mut QueryRun) -> Result<Elements> {
    if let Some((left, right)) = list.range() {
        let (left, right) = (left.compute(row, run)?, right.compute(row, run)?);
        let (first, last) = range_bounds(&left, &right);
        return Ok(Elements::Counted { next: Some(first), last });
    }
    let value = list.compute(row, run)?;
    if value.view().as_array().is_none() {
        let message = format!(
            "collection or array expected as operand to FOR loop; you provided a value of type \
             '{}'",
            value.kind()
        );
        return Err(QueryError::new(number::ARRAY_EXPECTED, message));
    }
    let count = value.view().as_array().map_or(0, ArrayRef::len);
    let bytes = value.own_bytes() + count * size_of::<Value>();
    run.memory.take(bytes)?;
    let values = value.elements();
    Ok(Elements::Listed { values: values.into_iter(), bytes })
}
