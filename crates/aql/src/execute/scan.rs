//! Execution of loops over collections: all documents of a collection for each row.

use super::conditions::{Conditions, RowCollector};
use super::nested_loop::NestedLoop;
use super::rows::Upstream;
use crate::query_run::QueryRun;
use crate::tree::{Code, Row, Slot};
use crate::{CollectionId, Result, Scan};

/// The number of documents between two checks of whether the query has to end.
const CHECK_DOCUMENTS: usize = 4096;

/// A row, and its scan.
pub(super) struct RowScan {
    row: Row,
    scan: Box<dyn Scan>,
    filter: Conditions,
    /// The bytes that the filter took when it was made.
    filter_bytes: usize,
}

pub(super) fn rows(
    walk: &mut NestedLoop<RowScan>,
    (collection, slot, filter): (CollectionId, Slot, &[Code]),
    upstream: impl Upstream,
    run: &mut QueryRun,
    want: usize,
) -> Result<Vec<Row>> {
    let begin = |row: Row, run: &mut QueryRun| {
        run.stats.cursors_created += 1;
        let scan = run.source.scan(collection)?;
        let before_bytes = run.memory.passing_bytes();
        let filter = Conditions::new(slot, filter, &row, run)?;
        let filter_bytes = run.memory.passing_bytes().saturating_sub(before_bytes);
        Ok(RowScan { row, scan, filter, filter_bytes })
    };
    walk.next(upstream, run, want, begin, RowScan::advance)
}

impl RowScan {
    /// Continues the scan until there are enough rows. Returns true if there may be more.
    fn advance(&mut self, run: &mut QueryRun, want: usize, out: &mut Vec<Row>) -> Result<bool> {
        run.check()?;
        let (seen, more) = gather(
            self.scan.as_mut(),
            (&self.row, &mut self.filter),
            (want, CHECK_DOCUMENTS),
            run,
            out,
        )?;
        run.stats.scanned_full += seen as u64;
        if !more {
            run.memory.free(self.filter_bytes + self.filter.set_bytes());
        }
        Ok(more)
    }

    pub(super) fn release(&mut self) {
        self.scan.release();
    }
}

/// Adds rows with documents of the scan until there are `want` rows or `most` documents were read.
/// Returns the number of documents that were read, and true if there may be more.
pub(super) fn gather(
    scan: &mut dyn Scan,
    (row, filter): (&Row, &mut Conditions),
    (want, most): (usize, usize),
    run: &mut QueryRun,
    out: &mut Vec<Row>,
) -> Result<(usize, bool)> {
    let mut gathering =
        RowCollector { row, filter, run: &mut *run, out, want, most, seen: 0, failed: None };
    let more = scan.advance(&mut gathering)?;
    let RowCollector { seen, failed, .. } = gathering;
    match failed {
        Some(error) => Err(error),
        None => Ok((seen, more)),
    }
}
