//! Execution of `LIMIT`.

use super::rows::{BATCH_ROWS, Upstream};
use crate::Result;
use crate::query_run::QueryRun;
use crate::tree::Row;

/// The counts of rows so far.
#[derive(Default)]
pub(super) struct LimitState {
    skipped: u64,
    given: u64,
    is_done: bool,
}

/// The next rows behind the first `offset`, and no more than `count`.
pub(super) fn rows(
    counts: &mut LimitState,
    (offset, count, is_last): (u64, Option<u64>, bool),
    upstream: &mut impl Upstream,
    run: &mut QueryRun,
    want: usize,
) -> Result<Vec<Row>> {
    if counts.is_done {
        return Ok(Vec::new());
    }
    let LimitState { mut skipped, mut given, .. } = *counts;
    let counts_all = is_last && run.options.full_count;
    let mut out = Vec::new();
    let mut is_at_end = false;
    while out.is_empty() {
        let left = count.map_or(u64::MAX, |count| count.saturating_sub(given));
        if left == 0 {
            break;
        }
        let missing = (offset - skipped).saturating_add(left.min(want as u64));
        let batch = usize::try_from(missing).unwrap_or(BATCH_ROWS).min(BATCH_ROWS);
        let rows = upstream.rows(run, batch)?;
        is_at_end = rows.is_empty();
        if is_at_end {
            break;
        }
        for row in rows {
            if skipped < offset {
                skipped += 1;
            } else if out.len() as u64 == left {
                // The upstream returned more rows than it was asked for.
                if counts_all {
                    given += 1;
                }
            } else {
                out.push(row);
            }
        }
    }
    given += out.len() as u64;
    let is_full = count.is_some_and(|count| given >= count);
    if counts_all && (is_full || is_at_end) {
        let mut all = skipped + given;
        if !is_at_end {
            upstream.each(run, |_, _| {
                all += 1;
                Ok(())
            })?;
        }
        run.stats.full_count = Some(all);
    }
    *counts = LimitState { skipped, given, is_done: is_full || is_at_end };
    Ok(out)
}
