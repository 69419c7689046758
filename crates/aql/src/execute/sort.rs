//! Execution of `SORT`. If a limit follows, only somewhat more rows than the limit are kept.

use std::cmp::Ordering;

use pellucid_value::{Value, compare};

use super::rows::{Upstream, size_of_row};
use crate::Result;
use crate::query_run::QueryRun;
use crate::tree::{Code, Row};

/// The least number of rows that are collected before those beyond the limit are dropped.
const SLACK_ROWS: usize = 1024;

struct SortEntry {
    keys: Vec<Value>,
    row: Row,
    /// Its memory, and the part of it that its keys take.
    bytes: usize,
    keys_bytes: usize,
}

pub(super) fn sorted(
    keys: &[(Code, bool)],
    limit: Option<usize>,
    upstream: &mut impl Upstream,
    run: &mut QueryRun,
) -> Result<Vec<Row>> {
    let by_keys = |left: &SortEntry, right: &SortEntry| {
        let both = left.keys.iter().zip(&right.keys).zip(keys);
        both.map(|((left, right), (_, is_descending))| {
            let order = compare(left.view(), right.view());
            if *is_descending { order.reverse() } else { order }
        })
        .find(|order| *order != Ordering::Equal)
        .unwrap_or(Ordering::Equal)
    };
    // With `fullCount`, the rows beyond the limit have to be counted.
    let limit = limit.filter(|_| !run.options.full_count);
    let most = limit.map_or(usize::MAX, |limit| limit.saturating_mul(2).max(SLACK_ROWS));
    let mut all: Vec<SortEntry> = Vec::new();
    upstream.each(run, |row, run| {
        let mut values = Vec::with_capacity(keys.len());
        for (code, _) in keys {
            values.push(code.compute(&row, run)?);
        }
        let keys_bytes = values.iter().map(Value::size_bytes).sum();
        let bytes = keys_bytes + size_of_row(&row);
        run.memory.take(bytes)?;
        all.push(SortEntry { keys: values, row, bytes, keys_bytes });
        if all.len() > most {
            all.sort_by(by_keys);
            let dropped = all.split_off(limit.unwrap_or(most));
            run.memory.free(dropped.iter().map(|keyed| keyed.bytes).sum());
        }
        Ok(())
    })?;
    all.sort_by(by_keys);
    let dropped = all.split_off(limit.unwrap_or(usize::MAX).min(all.len()));
    run.memory.free(dropped.iter().map(|keyed| keyed.bytes).sum());
    run.memory.free(all.iter().map(|keyed| keyed.keys_bytes).sum());
    Ok(all.into_iter().map(|keyed| keyed.row).collect())
}
