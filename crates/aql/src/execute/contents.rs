//! A collection as a value: the array of its documents.

use std::ops::ControlFlow;

use pellucid_value::{Ref, Value};

use super::rows::BATCH_ROWS;
use crate::query_run::QueryRun;
use crate::{CollectionId, QueryError, Result, Visitor};

/// A visitor that collects all documents.
struct DocumentCollector<'a> {
    documents: Vec<Value>,
    most: usize,
    run: &'a mut QueryRun,
    failed: Option<QueryError>,
}

impl Visitor for DocumentCollector<'_> {
    fn wants(&mut self, _: Ref<'_>) -> ControlFlow<(), bool> {
        ControlFlow::Continue(true)
    }

    fn visit(&mut self, document: &[u8]) -> ControlFlow<()> {
        if let Err(error) = self.run.memory.take(document.len() + 2 * size_of::<Value>()) {
            self.failed = Some(error);
            return ControlFlow::Break(());
        }
        self.documents.push(Value::open(document).unwrap_or_default());
        let is_full = self.documents.len() >= self.most;
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// All documents of a collection.
pub(crate) fn contents(collection: CollectionId, run: &mut QueryRun) -> Result<Vec<Value>> {
    let mut scan = run.source.scan(collection)?;
    run.stats.cursors_created += 1;
    let before_bytes = run.memory.passing_bytes();
    let mut all = DocumentCollector { documents: Vec::new(), most: 0, run, failed: None };
    loop {
        all.run.check()?;
        let before = all.documents.len();
        all.most = before + BATCH_ROWS;
        let more = scan.advance(&mut all)?;
        all.run.stats.scanned_full += (all.documents.len() - before) as u64;
        if let Some(error) = all.failed {
            return Err(error);
        }
        if !more {
            // The caller counts the documents.
            all.run.memory.free_down_to(before_bytes);
            return Ok(all.documents);
        }
    }
}
