//! Batches of rows that nodes pass on.

use pellucid_value::Value;

use crate::Result;
use crate::query_run::QueryRun;
use crate::tree::{Pipeline, Row};

/// The most rows of a batch.
pub(super) const BATCH_ROWS: usize = 1000;

/// The previous node, with all nodes before it.
pub(super) trait Upstream {
    /// Its next rows, at most `want`; empty at its end.
    fn rows(&mut self, run: &mut QueryRun, want: usize) -> Result<Vec<Row>>;

    /// The first value that `accepts` accepts, of those that a subquery returns for a row.
    fn first_value(
        subquery: &Pipeline,
        row: &Row,
        run: &mut QueryRun,
        accepts: impl Fn(&Value) -> bool,
    ) -> Result<Option<Value>>;

    /// Calls `take` with all its rows.
    fn each(
        &mut self,
        run: &mut QueryRun,
        mut take: impl FnMut(Row, &mut QueryRun) -> Result<()>,
    ) -> Result<()> {
        loop {
            let rows = self.rows(run, BATCH_ROWS)?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                take(row, run)?;
            }
        }
    }
}

/// The rows of a node that computes all of them before it returns the first; `None` before that.
pub(super) type AllRows = Option<std::vec::IntoIter<Row>>;

/// The next of all rows, at most `want`, which do not count as memory any more. `begin` computes
/// all rows at the first call.
pub(super) fn next_of(
    all: &mut AllRows,
    run: &mut QueryRun,
    want: usize,
    begin: impl FnOnce(&mut QueryRun) -> Result<Vec<Row>>,
) -> Result<Vec<Row>> {
    let all = match all {
        Some(all) => all,
        none => none.insert(begin(run)?.into_iter()),
    };
    let rows: Vec<_> = all.take(want).collect();
    run.memory.free(rows.iter().map(size_of_row).sum());
    Ok(rows)
}

/// The bytes of a row with its values.
pub(super) fn size_of_row(row: &Row) -> usize {
    size_of::<Row>() + row.iter().map(Value::size_bytes).sum::<usize>()
}

/// The bytes of a copy of a row, which shares the values.
pub(super) fn bytes_of_copy(row: &Row) -> usize {
    size_of::<Row>() + size_of_val::<[Value]>(row)
}
