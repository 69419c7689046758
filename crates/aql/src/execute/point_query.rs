//! Point queries: they look up one place of an index and return the documents there, or a part of
//! each. Most queries of applications are of this kind, so their result is written directly,
//! without rows, nodes and copies in between.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use pellucid_value::{Ref, Value, json, packed};

use super::index;
use super::nodes::named;
use crate::plan::Plan;
use crate::query_run::{LIGHT_BYTES_MAX, LIGHT_DOCUMENTS_MAX, Stats};
use crate::tree::{Code, IndexAccess, Match, Node, NodeKind, Slot};
use crate::{IndexKind, IndexRange, IndexRequest, QueryError, Result, Source, Visitor, number};

/// The result of a point query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointResult {
    /// The number of values that it has.
    pub values: usize,
    /// The work done for it.
    pub stats: Stats,
}

/// The parts of the plan of a point query.
struct PointQuery<'a> {
    node: &'a Node,
    access: &'a IndexAccess,
    /// The part of each document that is returned.
    names: &'a [Arc<str>],
    limit: Option<u64>,
}

/// Runs a point query, and appends the values of its result as JSON to `out`, with commas between
/// them. `None` if the plan is no point query, or if it finds more values than `values_max` or more
/// than a light query may read; `out` is unchanged then. Time limits are not checked.
///
/// # Errors
/// The error that ended the query. `out` is unchanged then.
pub fn write_point(
    plan: &Plan,
    bind_variables: &Value,
    source: &dyn Source,
    values_max: usize,
    out: &mut Vec<u8>,
) -> Result<Option<PointResult>> {
    let Some(point) = point_of(&plan.pipeline.nodes) else { return Ok(None) };
    let mut equal = Vec::with_capacity(point.access.matches.len());
    for found in &point.access.matches {
        match (found, known(found.code(), &plan.parameters, bind_variables)) {
            (Match::Equal(_), Some(value)) => equal.push(value),
            _ => return Ok(None),
        }
    }
    let begin = out.len();
    let mut writer = Writer {
        names: point.names,
        limit: point.limit.unwrap_or(u64::MAX),
        values_max: (values_max as u64).min(LIGHT_DOCUMENTS_MAX),
        values: 0,
        bytes: 0,
        is_too_much: false,
        failed: None,
        out,
    };
    let stats = point.run(equal, source, &mut writer);
    let Writer { values, is_too_much, failed, out, .. } = writer;
    let failed = failed.map_or(Ok(()), Err);
    if is_too_much || stats.is_err() || failed.is_err() {
        out.truncate(begin);
    }
    failed?;
    let stats = stats.map_err(|error| named(error, point.node))?;
    Ok((!is_too_much).then_some(PointResult { values: values as usize, stats }))
}

fn point_of(nodes: &[Node]) -> Option<PointQuery<'_>> {
    let (first, node, limit, last) = match nodes {
        [first, node, last] => (first, node, None, last),
        [first, node, Node { kind: NodeKind::Limit { offset: 0, count, .. }, .. }, last] => {
            (first, node, *count, last)
        }
        _ => return None,
    };
    let (NodeKind::Singleton, NodeKind::Index(access)) = (&first.kind, &node.kind) else {
        return None;
    };
    let NodeKind::Return { code: Code::Path(slot, names), is_distinct: false } = &last.kind else {
        return None;
    };
    let is_plain = access.filter.is_empty()
        && !access.is_covering
        && !access.matches.is_empty()
        && access.low.is_none()
        && access.high.is_none()
        && *slot == access.slot;
    is_plain.then_some(PointQuery { node, access, names, limit })
}

/// The value of a constant or a bind variable; `None` for other expressions.
fn known(code: &Code, parameters: &[(Slot, String)], bind_variables: &Value) -> Option<Value> {
    match code {
        Code::Constant(value) => Some(value.clone()),
        Code::Path(slot, names) if names.is_empty() => {
            let parameter = parameters.iter().find(|(own, _)| own == slot);
            parameter.map(|(_, name)| bind_variables.attribute(name))
        }
        _ => None,
    }
}

impl PointQuery<'_> {
    fn run(
        &self,
        equal: Vec<Value>,
        source: &dyn Source,
        writer: &mut Writer<'_>,
    ) -> Result<Stats> {
        let access = self.access;
        let mut stats = Stats::default();
        if writer.limit == 0 {
            return Ok(stats);
        }
        if access.index.kind == IndexKind::Primary {
            // A value that cannot be a key finds nothing.
            if let Some(key) = equal.first().and_then(|value| index::key_of(value, access)) {
                stats.seeks = 1;
                if let Some(document) = source.document(access.collection.id, &key)? {
                    let _ = writer.write(document.view(), document.size_bytes());
                }
            }
        } else {
            (stats.seeks, stats.cursors_created) = (1, 1);
            let (low, high) = (Bound::Unbounded, Bound::Unbounded);
            let range = IndexRange { equal, low, high };
            let (index, reverse) = (access.index.id, access.is_reverse);
            let ordered_fields = access.ordered_fields;
            let request = IndexRequest { index, range, reverse, ordered_fields };
            source.index_visit(access.collection.id, &request, writer)?;
        }
        stats.scanned_index = writer.values;
        stats.document_lookups = writer.values;
        Ok(stats)
    }
}

/// A visitor that writes documents as JSON.
struct Writer<'a> {
    names: &'a [Arc<str>],
    limit: u64,
    values_max: u64,
    values: u64,
    bytes: usize,
    is_too_much: bool,
    failed: Option<QueryError>,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn is_done(&self) -> bool {
        self.is_too_much || self.failed.is_some() || self.values >= self.limit
    }

    fn write(&mut self, document: Ref<'_>, size_bytes: usize) -> ControlFlow<()> {
        self.bytes += size_bytes;
        self.is_too_much = self.values == self.values_max || self.bytes > LIGHT_BYTES_MAX;
        if self.is_too_much {
            return ControlFlow::Break(());
        }
        if self.values > 0 {
            self.out.push(b',');
        }
        self.values += 1;
        let value = self.names.iter().fold(document, |value, name| value.attribute(name));
        json::write(value, self.out);
        if self.is_done() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Writer<'_> {
    fn wants(&mut self, _: Ref<'_>) -> ControlFlow<(), bool> {
        ControlFlow::Continue(true)
    }

    fn visit(&mut self, document: &[u8]) -> ControlFlow<()> {
        match packed::open(document) {
            Ok(opened) => self.write(opened, document.len()),
            Err(damage) => {
                self.failed = Some(QueryError::new(number::INTERNAL, damage.to_string()));
                ControlFlow::Break(())
            }
        }
    }
}
