//! All documents of a collection, for each row; the filter is asked before a document is copied.

use std::ops::ControlFlow;
use std::sync::Arc;

use pellucid_value::{Ref, Value, packed};

use super::{BATCH_ROWS, State, Upstream};
use crate::evaluate::{Code, Row, Slot, compare_by};
use crate::parse::ast::Binary;
use crate::run::Run;
use crate::{CollectionId, QueryError, Scan};

/// How many documents are looked at between two looks at whether the query should end.
const CHECK_DOCUMENTS: usize = 4096;

/// Where a scan is.
pub(super) struct ScanState {
    rows: std::vec::IntoIter<Row>,
    current: Option<Current>,
}

struct Current {
    row: Row,
    scan: Box<dyn Scan>,
    filter: Conditions,
}

/// A filter for documents, of which only what is needed is read.
pub(super) struct Conditions {
    slot: Slot,
    quick: Vec<Quick>,
    /// What has to be computed with the document in its slot.
    slow: Vec<Code>,
}

/// A comparison of an attribute with what is known.
struct Quick {
    names: Vec<Arc<str>>,
    operator: Binary,
    other: Value,
    /// The attribute stands at the right.
    is_turned: bool,
}

impl Conditions {
    pub(super) fn new(
        slot: Slot,
        filter: &[Code],
        row: &Row,
        run: &mut Run,
    ) -> Result<Self, QueryError> {
        let mut conditions = Self { slot, quick: Vec::new(), slow: Vec::new() };
        for code in filter {
            match quick(slot, code, row, run)? {
                Some(quick) => conditions.quick.push(quick),
                None => conditions.slow.push(code.clone()),
            }
        }
        Ok(conditions)
    }

    /// Whether what can be compared where it lies holds.
    pub(super) fn quick(&self, document: Ref<'_>) -> bool {
        self.quick.iter().all(|quick| {
            let own = quick.names.iter().fold(document, |value, name| value.attribute(name));
            let other = quick.other.view();
            let (left, right) = if quick.is_turned { (other, own) } else { (own, other) };
            compare_by(quick.operator, left, right)
        })
    }

    /// Whether the rest holds for a row that has the document.
    pub(super) fn slow(&self, row: &Row, run: &mut Run) -> Result<bool, QueryError> {
        for code in &self.slow {
            if !code.holds(row, run)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The row with the document, if the filter holds for it.
    pub(super) fn take(
        &self,
        row: &Row,
        document: &[u8],
        run: &mut Run,
    ) -> Result<Option<Row>, QueryError> {
        if !self.quick.is_empty() {
            let holds = packed::open(document).is_ok_and(|document| self.quick(document));
            if !holds {
                run.stats.filtered += 1;
                return Ok(None);
            }
        }
        let value = Value::open(document)
            .map_err(|damage| QueryError::new(crate::number::INTERNAL, damage.to_string()))?;
        let mut row = row.clone();
        row[self.slot] = value;
        if self.slow(&row, run)? {
            return Ok(Some(row));
        }
        run.stats.filtered += 1;
        Ok(None)
    }
}

fn quick(slot: Slot, code: &Code, row: &Row, run: &mut Run) -> Result<Option<Quick>, QueryError> {
    use Binary::{Equal, Greater, GreaterEqual, In, Less, LessEqual, NotEqual, NotIn};
    let Code::Binary(operator, operands) = code else { return Ok(None) };
    if !matches!(
        operator,
        Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual | In | NotIn
    ) {
        return Ok(None);
    }
    for (own, other, is_turned) in
        [(&operands.0, &operands.1, false), (&operands.1, &operands.0, true)]
    {
        if let Code::Path(of, names) = own
            && *of == slot
            && other.is_pure()
            && !other.slots().contains(&slot)
        {
            let other = other.compute(row, run)?;
            return Ok(Some(Quick { names: names.clone(), operator: *operator, other, is_turned }));
        }
    }
    Ok(None)
}

pub(super) fn rows(
    state: &mut State,
    (collection, slot, filter): (CollectionId, Slot, &[Code]),
    mut upstream: Upstream<'_>,
    run: &mut Run,
    want: usize,
) -> Result<Vec<Row>, QueryError> {
    if matches!(state, State::Fresh(_)) {
        *state = State::Scan(ScanState { rows: Vec::new().into_iter(), current: None });
    }
    let State::Scan(state) = state else { return Ok(Vec::new()) };
    let want = want.min(BATCH_ROWS);
    let mut out = Vec::new();
    while out.len() < want {
        if state.current.is_none() {
            let row = match state.rows.next() {
                Some(row) => row,
                None => {
                    state.rows = upstream.rows(run, want)?.into_iter();
                    match state.rows.next() {
                        Some(row) => row,
                        None => break,
                    }
                }
            };
            run.stats.cursors_created += 1;
            let scan = run.source.scan(collection)?;
            let filter = Conditions::new(slot, filter, &row, run)?;
            state.current = Some(Current { row, scan, filter });
        }
        if let Some(current) = &mut state.current
            && !current.advance(run, want, &mut out)?
        {
            state.current = None;
        }
    }
    Ok(out)
}

impl Current {
    /// Goes on with the scan until there are enough rows, and says whether there may be more.
    fn advance(
        &mut self,
        run: &mut Run,
        want: usize,
        out: &mut Vec<Row>,
    ) -> Result<bool, QueryError> {
        run.check()?;
        let Self { row, scan, filter } = self;
        let mut seen = 0;
        let mut failed = None;
        let more = scan.advance(&mut |document| {
            seen += 1;
            match filter.take(row, document, run) {
                Ok(Some(row)) => out.push(row),
                Ok(None) => {}
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            if out.len() >= want || seen >= CHECK_DOCUMENTS {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        run.stats.scanned_full += seen as u64;
        match failed {
            Some(error) => Err(error),
            None => Ok(more),
        }
    }
}
