//! Execution of nodes. Rows are pulled through the nodes of a plan in batches: each node asks the
//! previous one for as many rows as it can use, so that a limit also bounds the scan.

use std::collections::HashSet;

use pellucid_clock::Stopwatch;
use pellucid_value::{Value, index_key};

use super::nested_loop::NestedLoop;
use super::rows::{AllRows, BATCH_ROWS, Upstream, next_of};
use super::{collect, index, limit, list, scan, sort, upsert, write};
use crate::query_run::QueryRun;
use crate::tree::{Node, NodeKind, Pipeline, Row};
use crate::{QueryError, Result, number};

/// The least number of rows that are pulled through a filter at once, which may remove most of
/// them.
const BATCH_ROWS_MIN: usize = 16;
/// The bytes of an entry in the set of `RETURN DISTINCT`, besides the encoded value.
const RETURNED_BYTES: usize = 48;

/// A value of a result, and the memory that it takes.
pub(super) struct ResultValue {
    pub(super) value: Value,
    pub(super) bytes: usize,
}

/// The state of a node, and its counts.
pub(super) struct NodeRun {
    state: State,
    pub(super) calls: u64,
    pub(super) items: u64,
    pub(super) filtered: u64,
    pub(super) runtime_ns: u64,
    /// The bytes of the rows that it returned last.
    row_bytes: usize,
}

/// The position of a node.
enum State {
    Singleton(Option<Row>),
    Scan(NestedLoop<scan::RowScan>),
    Index(NestedLoop<index::RowLookups>),
    List(NestedLoop<list::RowElements>),
    Limit(limit::LimitState),
    Collect {
        /// The row of the outer query.
        around: Row,
        groups: AllRows,
    },
    /// The rows of a node that computes all of them before it returns the first.
    All(AllRows),
    /// A node without a position.
    Step,
}

impl State {
    /// The initial state of a node. `around` is the row of the outer query.
    fn new(kind: &NodeKind, around: &Row) -> Self {
        match kind {
            NodeKind::Singleton => Self::Singleton(Some(around.clone())),
            NodeKind::EnumerateCollection { .. } => Self::Scan(NestedLoop::new()),
            NodeKind::Index(_) => Self::Index(NestedLoop::new()),
            NodeKind::EnumerateList { .. } => Self::List(NestedLoop::new()),
            NodeKind::Limit { .. } => Self::Limit(limit::LimitState::default()),
            NodeKind::Collect(_) => Self::Collect { around: around.clone(), groups: None },
            NodeKind::Sort { .. } | NodeKind::Write(_) | NodeKind::Upsert(_) => Self::All(None),
            NodeKind::Calculation { .. }
            | NodeKind::Filter { .. }
            | NodeKind::Return { .. }
            | NodeKind::NoResults => Self::Step,
        }
    }
}

impl NodeRun {
    /// The initial runs of nodes. `around` is the row of the outer query.
    pub(super) fn all(nodes: &[Node], around: &Row) -> Vec<Self> {
        let new = |node: &Node| Self {
            state: State::new(&node.kind, around),
            calls: 0,
            items: 0,
            filtered: 0,
            runtime_ns: 0,
            row_bytes: 0,
        };
        nodes.iter().map(new).collect()
    }

    /// Releases what its scan can find again.
    pub(super) fn release(&mut self) {
        match &mut self.state {
            State::Scan(walk) => walk.current().into_iter().for_each(scan::RowScan::release),
            State::Index(walk) => walk.current().into_iter().for_each(index::RowLookups::release),
            _ => {}
        }
    }
}

/// The nodes of a plan up to some node.
pub(super) struct Nodes<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) runs: &'a mut [NodeRun],
}

impl Upstream for Nodes<'_> {
    /// The next rows of the last node, at most `want`; empty at its end. Calculations and filters
    /// are run in a loop and do not call each other, because there may be thousands of them.
    fn rows(&mut self, run: &mut QueryRun, want: usize) -> Result<Vec<Row>> {
        let is_step = |node: &&Node| node.kind.is_step();
        let first = self.nodes.len() - self.nodes.iter().rev().take_while(is_step).count();
        if first == self.nodes.len() {
            return self.rows_of_last(run, want);
        }
        let (nodes, steps) = self.nodes.split_at(first);
        let (runs, own) = self.runs.split_at_mut(first);
        let filters = |node: &Node| matches!(node.kind, NodeKind::Filter { .. });
        let want = match steps.iter().any(filters) {
            true => want.clamp(BATCH_ROWS_MIN, BATCH_ROWS),
            false => want,
        };
        loop {
            for own in own.iter_mut() {
                run.memory.free(std::mem::take(&mut own.row_bytes));
            }
            let (stopwatch, filtered) = (run.stopwatch_of_node(), run.stats.filtered);
            let mut rows = Nodes { nodes, runs }.rows(run, want)?;
            let is_end = rows.is_empty();
            for (node, own) in steps.iter().zip(own.iter_mut()) {
                own.calls += u64::from(is_end || !rows.is_empty());
                rows = step(node, own, rows, run).map_err(|error| named(error, node))?;
                own.items += rows.len() as u64;
                own.filtered += run.stats.filtered - filtered;
                own.runtime_ns += stopwatch.as_ref().map_or(0, Stopwatch::elapsed_ns);
            }
            if is_end || !rows.is_empty() {
                return Ok(rows);
            }
        }
    }

    fn first_value(
        subquery: &Pipeline,
        row: &Row,
        run: &mut QueryRun,
        accepts: impl Fn(&Value) -> bool,
    ) -> Result<Option<Value>> {
        let mut runs = NodeRun::all(&subquery.nodes, row);
        let mut nodes = Nodes { nodes: &subquery.nodes, runs: &mut runs };
        let (mut returned, before_bytes) = (HashSet::new(), run.memory.passing_bytes());
        let mut found = None;
        while found.is_none()
            && let Some(values) = nodes.values(run, 1, &mut returned)?
        {
            found = values.into_iter().map(|result| result.value).find(&accepts);
        }
        run.memory.free_down_to(before_bytes);
        Ok(found)
    }
}

impl Nodes<'_> {
    /// Makes the writes of these nodes, if they are not made yet.
    fn make_writes(&mut self, run: &mut QueryRun) -> Result<()> {
        let writes = |node: &Node| matches!(node.kind, NodeKind::Write(_) | NodeKind::Upsert(_));
        let Some(last) = self.nodes.iter().rposition(writes) else { return Ok(()) };
        let (nodes, runs) = (&self.nodes[..=last], &mut self.runs[..=last]);
        Nodes { nodes, runs }.rows(run, 0).map(drop)
    }

    /// As [`Self::rows`], for a last node that is no calculation or filter.
    fn rows_of_last(&mut self, run: &mut QueryRun, want: usize) -> Result<Vec<Row>> {
        let (Some((node, nodes)), Some((own, runs))) =
            (self.nodes.split_last(), self.runs.split_last_mut())
        else {
            return Ok(Vec::new());
        };
        run.check()?;
        let stopwatch = run.stopwatch_of_node();
        let filtered = run.stats.filtered;
        let upstream = Nodes { nodes, runs };
        // The caller has used the previous rows, or counts those that it keeps itself.
        run.memory.free(std::mem::take(&mut own.row_bytes));
        let outer_bytes = run.memory.begin_batch();
        let rows = produce(node, own, upstream, run, want).map_err(|error| named(error, node))?;
        own.row_bytes = run.memory.end_batch(outer_bytes);
        own.calls += 1;
        own.items += rows.len() as u64;
        own.filtered += run.stats.filtered - filtered;
        own.runtime_ns += stopwatch.map_or(0, |stopwatch| stopwatch.elapsed_ns());
        Ok(rows)
    }

    /// The next values of the result; `None` at its end. They count as memory until the caller
    /// frees it.
    pub(super) fn values(
        &mut self,
        run: &mut QueryRun,
        want: usize,
        returned: &mut HashSet<Vec<u8>>,
    ) -> Result<Option<Vec<ResultValue>>> {
        let Some((Node { kind: NodeKind::Return { code, is_distinct }, .. }, nodes)) =
            self.nodes.split_last()
        else {
            // The query writes, and has no `RETURN`.
            let rows = self.rows(run, want)?;
            return Ok((!rows.is_empty()).then(Vec::new));
        };
        let Some((own, runs)) = self.runs.split_last_mut() else { return Ok(None) };
        let stopwatch = run.stopwatch_of_node();
        let rows = Nodes { nodes, runs }.rows(run, want)?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            run.tick()?;
            let value = code.compute(&row, run)?;
            let bytes = value.size_bytes() + size_of::<ResultValue>();
            run.memory.take(bytes)?;
            if *is_distinct {
                let mut key = Vec::new();
                // The key is not longer than the value; its exact length is taken below.
                run.memory.take(bytes)?;
                index_key::encode(value.view(), &mut key);
                key.shrink_to_fit();
                let size = key.len() + RETURNED_BYTES;
                run.memory.free(bytes);
                if !returned.insert(key) {
                    run.memory.free(bytes);
                    continue;
                }
                run.memory.take(size)?;
            }
            values.push(ResultValue { value, bytes });
        }
        own.calls += 1;
        own.items += values.len() as u64;
        own.runtime_ns += stopwatch.map_or(0, |stopwatch| stopwatch.elapsed_ns());
        Ok(Some(values))
    }
}

/// Adds the node in which an error happened to its message.
pub(super) fn named(mut error: QueryError, node: &Node) -> QueryError {
    if let QueryError::Failed { number, message } = &mut error
        && *number != number::KILLED
        && !message.contains("[node #")
    {
        message.push_str(&format!(" [node #{}: {}]", node.id, node.kind.name()));
    }
    error
}

/// The next rows of a node; empty at its end.
fn produce(
    node: &Node,
    own: &mut NodeRun,
    mut upstream: Nodes<'_>,
    run: &mut QueryRun,
    want: usize,
) -> Result<Vec<Row>> {
    if matches!(node.kind, NodeKind::Limit { count: Some(0), .. } | NodeKind::NoResults) {
        // These ask for no rows, but the writes before them are made all the same.
        upstream.make_writes(run)?;
    }
    Ok(match (&node.kind, &mut own.state) {
        (NodeKind::Singleton, State::Singleton(row)) => row.take().into_iter().collect(),
        (NodeKind::EnumerateCollection { collection, slot, filter }, State::Scan(walk)) => {
            scan::rows(walk, (collection.id, *slot, filter), upstream, run, want)?
        }
        (NodeKind::Index(access), State::Index(walk)) => {
            index::rows(walk, access, upstream, run, want)?
        }
        (NodeKind::EnumerateList { list, slot }, State::List(walk)) => {
            list::rows(walk, (list, *slot), upstream, run, want)?
        }
        (NodeKind::Sort { keys, limit }, State::All(all)) => {
            next_of(all, run, want, |run| sort::sorted(keys, *limit, &mut upstream, run))?
        }
        (NodeKind::Limit { offset, count, is_last }, State::Limit(counts)) => {
            limit::rows(counts, (*offset, *count, *is_last), &mut upstream, run, want)?
        }
        (NodeKind::Collect(collect), State::Collect { around, groups }) => {
            collect::rows(groups, (collect, around), &mut upstream, run, want)?
        }
        (NodeKind::Write(write), State::All(all)) => {
            next_of(all, run, want, |run| write::written(write, &mut upstream, run))?
        }
        (NodeKind::Upsert(upsert), State::All(all)) => {
            next_of(all, run, want, |run| upsert::written(upsert, &mut upstream, run))?
        }
        // Calculations and filters are run by `step`, and `RETURN` by `values`.
        _ => Vec::new(),
    })
}

/// Runs a calculation or a filter on rows.
fn step(
    node: &Node,
    own: &mut NodeRun,
    mut rows: Vec<Row>,
    run: &mut QueryRun,
) -> Result<Vec<Row>> {
    match &node.kind {
        NodeKind::Calculation { slot, code } => {
            let outer_bytes = run.memory.begin_batch();
            for row in &mut rows {
                run.tick()?;
                let value = code.compute(row, run)?;
                run.memory.take_for_batch(value.own_bytes())?;
                row[*slot] = value;
            }
            own.row_bytes = run.memory.end_batch(outer_bytes);
        }
        NodeKind::Filter { code } => {
            let mut kept = Vec::with_capacity(rows.len());
            for row in rows {
                run.tick()?;
                if code.holds(&row, run)? {
                    kept.push(row);
                } else {
                    run.stats.filtered += 1;
                }
            }
            return Ok(kept);
        }
        _ => {}
    }
    Ok(rows)
}

pub(crate) fn subquery(pipeline: &Pipeline, row: &[Value], run: &mut QueryRun) -> Result<Value> {
    run.depth += 1;
    let row: Row = row.into();
    let mut runs = NodeRun::all(&pipeline.nodes, &row);
    let mut nodes = Nodes { nodes: &pipeline.nodes, runs: &mut runs };
    let mut returned = HashSet::new();
    let before_bytes = run.memory.passing_bytes();
    let mut values = Vec::new();
    while let Some(more) = nodes.values(run, BATCH_ROWS, &mut returned)? {
        values.extend(more.into_iter().map(|mut result| {
            // The document of which it is a part is not counted, so it must not be kept.
            result.value.let_go();
            result.value
        }));
    }
    // The rows are dropped, and the caller counts the result.
    run.memory.free_down_to(before_bytes);
    run.depth -= 1;
    Ok(Value::array(values)?)
}
