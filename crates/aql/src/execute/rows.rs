//! Rows as nodes hand them on, batch by batch.

use pellucid_value::Value;

use crate::Result;
use crate::run::Run;
use crate::tree::{Pipeline, Row};

/// The number of rows that a node is asked for at once, at most.
pub(super) const BATCH_ROWS: usize = 1000;

/// The node before, with those before it.
pub(super) trait Upstream {
    /// Its next rows, `want` at most; none at its end.
    fn rows(&mut self, run: &mut Run, want: usize) -> Result<Vec<Row>>;

    /// The first value of a subquery for a row that is accepted.
    fn first_value(
        subquery: &Pipeline,
        row: &Row,
        run: &mut Run,
        accepts: impl Fn(&Value) -> bool,
    ) -> Result<Option<Value>>;

    /// Calls `take` with all its rows.
    fn each(
        &mut self,
        run: &mut Run,
        mut take: impl FnMut(Row, &mut Run) -> Result<()>,
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

/// The rows of a node that has all of them before it gives the first; none before it has begun.
pub(super) type AllRows = Option<std::vec::IntoIter<Row>>;

/// The next of all rows, which no longer count as memory; `begin` makes them.
pub(super) fn next_of(
    all: &mut AllRows,
    run: &mut Run,
    want: usize,
    begin: impl FnOnce(&mut Run) -> Result<Vec<Row>>,
) -> Result<Vec<Row>> {
    let all = match all {
        Some(all) => all,
        none => none.insert(begin(run)?.into_iter()),
    };
    let rows: Vec<_> = all.take(want).collect();
    run.memory.free(rows.iter().map(size_of_row).sum());
    Ok(rows)
}

/// The memory that a row keeps.
pub(super) fn size_of_row(row: &Row) -> usize {
    size_of::<Row>() + row.iter().map(Value::size_bytes).sum::<usize>()
}

/// The memory that a copy of a row takes: the values of its variables are not copied.
pub(super) fn bytes_of_copy(row: &Row) -> usize {
    size_of::<Row>() + size_of_val::<[Value]>(row)
}
