//! The common part of scans, index accesses and lists: new rows for each row of the previous node.

use super::rows::{BATCH_ROWS, Upstream};
use crate::Result;
use crate::query_run::QueryRun;
use crate::tree::Row;

/// A loop over the rows of the previous node, and over the rows that each of them makes.
pub(super) struct NestedLoop<T> {
    rows: std::vec::IntoIter<Row>,
    current: Option<T>,
}

impl<T> NestedLoop<T> {
    pub(super) fn new() -> Self {
        Self { rows: Vec::new().into_iter(), current: None }
    }

    /// The loop over the rows that the current row of the previous node makes.
    pub(super) fn current(&mut self) -> Option<&mut T> {
        self.current.as_mut()
    }

    /// The next rows, about `want`; empty at the end. `begin` is called for each row of the
    /// previous node. `advance` then adds rows until there are enough, and returns true if there
    /// may be more.
    pub(super) fn next(
        &mut self,
        mut upstream: impl Upstream,
        run: &mut QueryRun,
        want: usize,
        mut begin: impl FnMut(Row, &mut QueryRun) -> Result<T>,
        mut advance: impl FnMut(&mut T, &mut QueryRun, usize, &mut Vec<Row>) -> Result<bool>,
    ) -> Result<Vec<Row>> {
        let want = want.min(BATCH_ROWS);
        let mut out = Vec::new();
        // A batch of large rows is full earlier.
        while out.len() < want && (out.is_empty() || !run.memory.is_batch_full()) {
            if self.current.is_none() {
                let row = match self.rows.next() {
                    Some(row) => row,
                    None => {
                        self.rows = upstream.rows(run, want)?.into_iter();
                        match self.rows.next() {
                            Some(row) => row,
                            None => break,
                        }
                    }
                };
                self.current = Some(begin(row, run)?);
            }
            if let Some(current) = &mut self.current
                && !advance(current, run, want, &mut out)?
            {
                self.current = None;
            }
        }
        Ok(out)
    }
}
