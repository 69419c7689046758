//! Execution of index accesses: for each row, the documents of an index range.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, ControlFlow};

use pellucid_value::{LimitError, ObjectBuilder, Value, index_key};

use super::conditions::{Conditions, RowCollector, comparand};
use super::nested_loop::NestedLoop;
use super::rows::{BATCH_ROWS, Upstream};
use super::scan::gather;
use crate::query_run::QueryRun;
use crate::tree::{Code, IndexAccess, Match, Row};
use crate::{
    FieldScan, IndexField, IndexKind, IndexRange, IndexRequest, QueryError, Result, Scan, Visitor,
    number,
};

/// The approximate bytes of a look-up for each field that is compared.
const LOOKUP_BYTES: usize = 2 * size_of::<Lookup>() + 2 * size_of::<Value>();
/// The bytes of an element while duplicates are removed, besides its value.
const DIFFERENT_BYTES: usize = 4 * size_of::<Value>();
/// The most ranges of an index that one row may look up.
pub(crate) const RANGES_MAX: usize = 100_000;

/// A row, and the look-ups for it that are left.
pub(super) struct RowLookups {
    row: Row,
    lookups: VecDeque<Lookup>,
    scan: Option<Entries>,
    /// The bytes that the scan holds.
    scan_bytes: usize,
    filter: Conditions,
    /// The bytes that all look-ups of the row and the filter took.
    row_bytes: usize,
}

enum Lookup {
    Key(String),
    Range(IndexRange),
}

enum Entries {
    Documents(Box<dyn Scan>),
    Fields(Box<dyn FieldScan>),
}

impl Entries {
    fn held_bytes(&self) -> usize {
        match self {
            Self::Documents(scan) => scan.held_bytes(),
            Self::Fields(scan) => scan.held_bytes(),
        }
    }

    fn release(&mut self) {
        match self {
            Self::Documents(scan) => scan.release(),
            Self::Fields(scan) => scan.release(),
        }
    }
}

pub(super) fn rows(
    walk: &mut NestedLoop<RowLookups>,
    access: &IndexAccess,
    upstream: impl Upstream,
    run: &mut QueryRun,
    want: usize,
) -> Result<Vec<Row>> {
    let begin = |row: Row, run: &mut QueryRun| {
        run.tick()?;
        let before_bytes = run.memory.passing_bytes();
        let lookups = lookups(access, &row, run)?;
        let filter = Conditions::new(access.slot, &access.filter, &row, run)?;
        let row_bytes = run.memory.passing_bytes().saturating_sub(before_bytes);
        Ok(RowLookups { row, lookups, scan: None, scan_bytes: 0, filter, row_bytes })
    };
    walk.next(upstream, run, want, begin, |current, run, want, out| {
        let more = current.advance(access, run, want, out)?;
        if !more {
            run.memory.free(current.row_bytes + current.filter.set_bytes());
        }
        Ok(more)
    })
}

/// The look-ups of a row, whose memory is taken here.
fn lookups(access: &IndexAccess, row: &Row, run: &mut QueryRun) -> Result<VecDeque<Lookup>> {
    let mut equals: Vec<Vec<Value>> = vec![Vec::new()];
    for found in &access.matches {
        let values = match found {
            Match::Equal(code) => vec![comparand(code, row, run)?],
            Match::In(code) => different(&comparand(code, row, run)?, run)?,
        };
        if values.len().saturating_mul(equals.len()) > RANGES_MAX {
            return Err(too_many());
        }
        let all = values.len().saturating_mul(equals.len());
        run.memory.take(all.saturating_mul(LOOKUP_BYTES))?;
        let with = |equal: &Vec<Value>| {
            let equal = equal.clone();
            values.iter().map(move |value| [&equal[..], std::slice::from_ref(value)].concat())
        };
        equals = equals.iter().flat_map(|equal| with(equal).collect::<Vec<_>>()).collect();
    }
    if access.index.kind == IndexKind::Primary && !access.matches.is_empty() {
        let key = |equal: &Vec<Value>| key_of(equal.first()?, access).map(Lookup::Key);
        return Ok(equals.iter().filter_map(key).collect());
    }
    let mut bound = |side: &Option<(Code, bool)>| -> Result<Bound<Value>> {
        Ok(match side {
            Some((code, true)) => Bound::Included(comparand(code, row, run)?),
            Some((code, false)) => Bound::Excluded(comparand(code, row, run)?),
            None => Bound::Unbounded,
        })
    };
    let (low, high) = (bound(&access.low)?, bound(&access.high)?);
    let range = |equal| Lookup::Range(IndexRange { equal, low: low.clone(), high: high.clone() });
    Ok(equals.into_iter().map(range).collect())
}

/// The key that a value of `_key` or `_id` asks for, if it can be one.
pub(super) fn key_of(value: &Value, access: &IndexAccess) -> Option<String> {
    let text = value.as_str()?;
    if !access.is_by_id {
        return Some(text.to_owned());
    }
    let (collection, key) = text.split_once('/')?;
    (collection == access.collection.name).then(|| key.to_owned())
}

/// The elements of a list in their order, each once.
fn different(list: &Value, run: &mut QueryRun) -> Result<Vec<Value>> {
    let Some(elements) = list.view().as_array() else { return Ok(Vec::new()) };
    if elements.len() > RANGES_MAX {
        return Err(too_many());
    }
    let before_bytes = run.memory.passing_bytes();
    run.memory.take(2 * list.size_bytes() + elements.len() * DIFFERENT_BYTES)?;
    let mut sorted = BTreeMap::new();
    for element in list.elements() {
        run.tick()?;
        let mut key = Vec::new();
        index_key::encode(element.view(), &mut key);
        sorted.insert(key, element);
    }
    run.memory.free_down_to(before_bytes);
    Ok(sorted.into_values().collect())
}

fn too_many() -> QueryError {
    let message = format!("more than {RANGES_MAX} ranges of an index are asked for");
    QueryError::new(number::RESOURCE_LIMIT, message)
}

impl RowLookups {
    /// Adds rows until there are enough. Returns true if there may be more.
    fn advance(
        &mut self,
        access: &IndexAccess,
        run: &mut QueryRun,
        want: usize,
        out: &mut Vec<Row>,
    ) -> Result<bool> {
        if self.scan.is_none() {
            match self.lookups.pop_front() {
                None => return Ok(false),
                Some(Lookup::Key(key)) => {
                    self.by_key(&key, access, run, out)?;
                    return Ok(!self.lookups.is_empty());
                }
                Some(Lookup::Range(range)) => self.scan = Some(begin(access, range, run)?),
            }
        }
        let more = match &mut self.scan {
            Some(Entries::Documents(scan)) => {
                let filter = (&self.row, &mut self.filter);
                let (seen, more) = gather(scan.as_mut(), filter, (want, BATCH_ROWS), run, out)?;
                run.stats.scanned_index += seen as u64;
                run.stats.document_lookups += seen as u64;
                more
            }
            Some(Entries::Fields(scan)) => {
                let filter = (&self.row, &mut self.filter);
                fields(scan.as_mut(), access, filter, run, want, out)?
            }
            None => false,
        };
        run.check()?;
        if !more {
            self.scan = None;
        }
        let held_bytes = self.scan.as_ref().map_or(0, Entries::held_bytes);
        let before_bytes = std::mem::replace(&mut self.scan_bytes, held_bytes);
        run.memory.take(held_bytes.saturating_sub(before_bytes))?;
        run.memory.free(before_bytes.saturating_sub(held_bytes));
        Ok(more || !self.lookups.is_empty())
    }

    pub(super) fn release(&mut self) {
        self.scan.iter_mut().for_each(Entries::release);
    }

    fn by_key(
        &mut self,
        key: &str,
        access: &IndexAccess,
        run: &mut QueryRun,
        out: &mut Vec<Row>,
    ) -> Result<()> {
        run.stats.seeks += 1;
        let Some(document) = run.source.document(access.collection.id, key)? else { return Ok(()) };
        run.stats.scanned_index += 1;
        run.stats.document_lookups += 1;
        let bytes = document.size_bytes();
        run.bytes_seen += bytes;
        let mut row = self.row.clone();
        row[access.slot] = document;
        if self.filter.early(row[access.slot].view(), run)? && self.filter.late(&row, run)? {
            run.memory.take_for_batch(size_of::<Row>() + size_of_val::<[Value]>(&row) + bytes)?;
            out.push(row);
        } else {
            run.stats.filtered += 1;
        }
        run.check()
    }
}

fn begin(access: &IndexAccess, range: IndexRange, run: &mut QueryRun) -> Result<Entries> {
    run.check()?;
    run.stats.seeks += 1;
    run.stats.cursors_created += 1;
    let collection = access.collection.id;
    let (index, reverse) = (access.index.id, access.is_reverse);
    let request = IndexRequest { index, range, reverse, ordered_fields: access.ordered_fields };
    if access.is_covering
        && let Some(scan) = run.source.index_fields(collection, &request)?
    {
        return Ok(Entries::Fields(scan));
    }
    run.source.index_scan(collection, &request).map(Entries::Documents)
}

fn fields(
    scan: &mut dyn FieldScan,
    access: &IndexAccess,
    (row, filter): (&Row, &mut Conditions),
    run: &mut QueryRun,
    want: usize,
    out: &mut Vec<Row>,
) -> Result<bool> {
    let (most, documents_before) = (BATCH_ROWS, scan.documents_read());
    let mut gathering =
        RowCollector { row, filter, run: &mut *run, out, want, most, seen: 0, failed: None };
    let more = scan.advance(&mut |values| {
        let all: Vec<_> = access.index.fields.iter().map(path).zip(values).collect();
        let document = match document_of(&all, 0) {
            Ok(document) => document,
            Err(over) => return gathering.fail(over.into()),
        };
        gathering.run.bytes_seen += document.size_bytes();
        match gathering.wants(document.view()) {
            ControlFlow::Continue(true) => gathering.take(document.size_bytes(), || Ok(document)),
            ControlFlow::Continue(false) => ControlFlow::Continue(()),
            ControlFlow::Break(()) => ControlFlow::Break(()),
        }
    })?;
    let RowCollector { seen, failed, .. } = gathering;
    run.stats.scanned_index += seen as u64;
    run.stats.document_lookups += scan.documents_read() - documents_before;
    failed.map_or(Ok(more), Err)
}

fn path(field: &IndexField) -> &[String] {
    &field.path
}

/// Builds the object that has these values at their paths, without the first `depth` names of each
/// path.
fn document_of(fields: &[(&[String], &Value)], depth: usize) -> Result<Value, LimitError> {
    let mut object = ObjectBuilder::new();
    for (path, value) in fields {
        let Some(name) = path.get(depth) else { continue };
        if path.len() == depth + 1 {
            object.insert(name.as_str(), (*value).clone());
        } else if object.get(name).is_none() {
            let same = |(other, _): &&(&[String], &Value)| other.get(depth) == Some(name);
            let inner: Vec<_> = fields.iter().filter(same).copied().collect();
            object.insert(name.as_str(), document_of(&inner, depth + 1)?);
        }
    }
    object.finish()
}
