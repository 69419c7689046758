//! Rows, pulled through the nodes of a plan in batches: each node asks the one before it for as
//! many as it can use, so that a limit reaches the scan.

mod account;
mod collect;
mod conditions;
mod contents;
mod index;
mod list;
mod point;
mod scan;
mod sort;
mod upsert;
mod walk;
mod write;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use pellucid_clock::Stopwatch;
use pellucid_value::{Value, index_key};

pub use account::NodeAccount;
pub(crate) use contents::contents;
pub use point::PointResult;
use walk::Walk;

use crate::evaluate::Row;
use crate::plan::{Node, NodeKind, Pipeline, Plan};
use crate::run::{Run, Stats, Warning};
use crate::{KillSwitch, QueryError, QueryOptions, Source, number};

/// The number of rows that a node is asked for at once, at most.
const BATCH_ROWS: usize = 1000;
/// And at least, where some of them may be left out.
const BATCH_ROWS_MIN: usize = 16;
/// The memory that a value that was returned takes beside itself where no other is to be like it.
const SEEN_BYTES: usize = 48;

/// A value of a result, and what it counts as memory.
struct Kept {
    value: Value,
    bytes: usize,
}

/// A query that runs. It gives its result in pieces and keeps its place between them.
pub struct Execution {
    plan: Arc<Plan>,
    run: Run,
    nodes: Vec<NodeRun>,
    ready: VecDeque<Kept>,
    /// Bytes of these.
    ready_bytes: usize,
    /// Bytes of the values that the caller said it keeps.
    kept_bytes: usize,
    is_done: bool,
    /// Returned already.
    seen: HashSet<Vec<u8>>,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Execution").field("is_done", &self.is_done).finish_non_exhaustive()
    }
}

impl Execution {
    /// Begins a query; nothing is computed yet.
    #[must_use]
    pub fn new(
        plan: Arc<Plan>,
        source: Arc<dyn Source>,
        options: QueryOptions,
        kill: KillSwitch,
    ) -> Self {
        Self::bound(plan, &Value::Null, source, options, kill)
    }

    /// As [`new`](Self::new), for a plan of [`Statement::plan`](crate::Statement::plan) and the
    /// values that it was asked for.
    #[must_use]
    pub fn bound(
        plan: Arc<Plan>,
        bind_variables: &Value,
        source: Arc<dyn Source>,
        options: QueryOptions,
        kill: KillSwitch,
    ) -> Self {
        let mut run = Run::new(source, options, kill);
        run.warnings.clone_from(&plan.warnings);
        let mut row: Row = vec![Value::Null; plan.pipeline.width].into();
        for (slot, name) in &plan.parameters {
            row[*slot] = bind_variables.attribute(name);
        }
        let nodes = plan.pipeline.nodes.iter().map(|_| NodeRun::new(&row)).collect();
        let (ready, seen) = (VecDeque::new(), HashSet::new());
        let (ready_bytes, kept_bytes) = (0, 0);
        Self { plan, run, nodes, ready, ready_bytes, kept_bytes, is_done: false, seen }
    }

    /// The next values of the result, `most` at most, and whether there are more. A query that
    /// writes has written, and all of it, when the first values are there.
    ///
    /// # Errors
    /// What ended the query; there is no more to come then, and nothing was written.
    pub fn next(&mut self, most: usize) -> Result<(Vec<Value>, bool), QueryError> {
        let next = self.next_to_keep(most)?;
        self.free_kept();
        Ok(next)
    }

    /// As [`next_to_keep`](Self::next_to_keep), and no more values than fit into about `bytes_max`
    /// bytes of memory, but one at least.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_within(
        &mut self,
        most: usize,
        bytes_max: usize,
    ) -> Result<(Vec<Value>, bool), QueryError> {
        self.run.timing.go_on();
        let filled = self.fill(most, bytes_max);
        self.run.timing.pause();
        if let Err(error) = filled {
            self.is_done = true;
            self.ready.clear();
            self.ready_bytes = 0;
            self.run.writes = None;
            return Err(error);
        }
        let mut values = Vec::with_capacity(most.min(self.ready.len()));
        let mut bytes = 0_usize;
        while values.len() < most && (bytes < bytes_max || values.is_empty()) {
            let Some(Kept { mut value, bytes: of_value }) = self.ready.pop_front() else { break };
            bytes = bytes.saturating_add(of_value);
            value.let_go();
            values.push(value);
        }
        self.ready_bytes -= bytes;
        self.kept_bytes += bytes;
        Ok((values, !self.ready.is_empty()))
    }

    /// Takes note that the caller keeps nothing any more of what
    /// [`next_to_keep`](Self::next_to_keep) and [`next_within`](Self::next_within) gave.
    pub fn free_kept(&mut self) {
        self.run.memory.free(std::mem::take(&mut self.kept_bytes));
    }

    /// As [`next`](Self::next), for a caller that keeps the values with all those that came before:
    /// they go on counting as memory of the query, and keep no documents alive that they are only
    /// parts of.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_to_keep(&mut self, most: usize) -> Result<(Vec<Value>, bool), QueryError> {
        self.next_within(most, usize::MAX)
    }

    /// Bytes of the values that the caller keeps ([`next_to_keep`](Self::next_to_keep)).
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Bytes of memory that it takes now, those of the values that the caller keeps among them.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.run.memory.taken_bytes()
    }

    fn fill(&mut self, most: usize, bytes_max: usize) -> Result<(), QueryError> {
        let writes = self.plan.is_modification();
        if !writes {
            // What is there already is not given either, once it is killed; but what was written
            // was.
            self.run.check_killed()?;
        }
        let is_enough = |ready: usize, bytes: usize| ready > most || bytes > bytes_max;
        while !self.is_done && (writes || !is_enough(self.ready.len(), self.ready_bytes)) {
            let want = if writes { BATCH_ROWS } else { most + 1 - self.ready.len() };
            let plan = Arc::clone(&self.plan);
            let want = want.clamp(1, BATCH_ROWS);
            let mut upstream = Upstream { nodes: &plan.pipeline.nodes, runs: &mut self.nodes };
            match upstream.values(&mut self.run, want, &mut self.seen)? {
                Some(values) => {
                    self.ready_bytes += values.iter().map(|kept| kept.bytes).sum::<usize>();
                    self.ready.extend(values);
                }
                None => {
                    self.is_done = true;
                    if let Some(writes) = self.run.writes.take() {
                        writes.commit()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// True if nothing is left.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_done && self.ready.is_empty()
    }

    /// Its work so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { peak_memory_bytes: self.run.memory.peak_bytes(), ..self.run.stats }
    }

    /// The warnings so far, with those of the plan.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.run.warnings
    }

    /// Nanoseconds for which it has run: those between two calls for more do not count.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.run.timing.elapsed_ns()
    }
}

/// The work of a node, and its place.
struct NodeRun {
    state: State,
    calls: u64,
    items: u64,
    filtered: u64,
    runtime_ns: u64,
    /// The memory of the rows that it gave last.
    held_bytes: usize,
}

/// The place of a node.
enum State {
    /// It has not begun, and this is the row around the query.
    Fresh(Row),
    Done,
    Scan(Walk<scan::Current>),
    Index(Walk<index::Current>),
    List(Walk<list::Current>),
    Rows(std::vec::IntoIter<Row>),
    Limit {
        skipped: u64,
        given: u64,
    },
    Upsert(Box<upsert::Overlay>),
}

impl NodeRun {
    fn new(row: &Row) -> Self {
        let state = State::Fresh(row.clone());
        Self { state, calls: 0, items: 0, filtered: 0, runtime_ns: 0, held_bytes: 0 }
    }
}

/// The nodes up to one.
struct Upstream<'a> {
    nodes: &'a [Node],
    runs: &'a mut [NodeRun],
}

impl Upstream<'_> {
    /// The next rows of the last node, `want` at most; none at its end. Nodes that go through rows
    /// one by one are not called by each other: there may be thousands of them.
    fn rows(&mut self, run: &mut Run, want: usize) -> Result<Vec<Row>, QueryError> {
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
                run.memory.free(std::mem::take(&mut own.held_bytes));
            }
            let (stopwatch, filtered) = (run.stopwatch_of_node(), run.stats.filtered);
            let mut rows = Upstream { nodes, runs }.rows(run, want)?;
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

    /// As [`Self::rows`], for a node that is called.
    fn rows_of_last(&mut self, run: &mut Run, want: usize) -> Result<Vec<Row>, QueryError> {
        let (Some((node, nodes)), Some((own, runs))) =
            (self.nodes.split_last(), self.runs.split_last_mut())
        else {
            return Ok(Vec::new());
        };
        run.check()?;
        let stopwatch = run.stopwatch_of_node();
        let filtered = run.stats.filtered;
        let upstream = Upstream { nodes, runs };
        // Who asks for more has used the last rows, or counts those that it keeps.
        run.memory.free(std::mem::take(&mut own.held_bytes));
        let outer_bytes = run.memory.begin_batch();
        let rows = produce(node, own, upstream, run, want).map_err(|error| named(error, node))?;
        own.held_bytes = run.memory.end_batch(outer_bytes);
        own.calls += 1;
        own.items += rows.len() as u64;
        own.filtered += run.stats.filtered - filtered;
        own.runtime_ns += stopwatch.map_or(0, |stopwatch| stopwatch.elapsed_ns());
        Ok(rows)
    }

    /// The next values that the query returns, which count as memory until whoever asked frees it;
    /// nothing at its end.
    fn values(
        &mut self,
        run: &mut Run,
        want: usize,
        seen: &mut HashSet<Vec<u8>>,
    ) -> Result<Option<Vec<Kept>>, QueryError> {
        let Some((Node { kind: NodeKind::Return { code, is_distinct }, .. }, nodes)) =
            self.nodes.split_last()
        else {
            // It writes, and returns nothing.
            let rows = self.rows(run, want)?;
            return Ok((!rows.is_empty()).then(Vec::new));
        };
        let Some((own, runs)) = self.runs.split_last_mut() else { return Ok(None) };
        let stopwatch = run.stopwatch_of_node();
        let rows = Upstream { nodes, runs }.rows(run, want)?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            run.tick()?;
            let value = code.compute(&row, run)?;
            let bytes = value.size_bytes() + size_of::<Kept>();
            run.memory.take(bytes)?;
            if *is_distinct {
                let mut key = Vec::new();
                // Until its length is known: it is no longer than the value.
                run.memory.take(bytes)?;
                index_key::encode(value.view(), &mut key);
                key.shrink_to_fit();
                let size = key.len() + SEEN_BYTES;
                run.memory.free(bytes);
                if !seen.insert(key) {
                    run.memory.free(bytes);
                    continue;
                }
                run.memory.take(size)?;
            }
            values.push(Kept { value, bytes });
        }
        own.calls += 1;
        own.items += values.len() as u64;
        own.runtime_ns += stopwatch.map_or(0, |stopwatch| stopwatch.elapsed_ns());
        Ok(Some(values))
    }

    /// All rows, one batch after another.
    fn each(
        &mut self,
        run: &mut Run,
        mut take: impl FnMut(Row, &mut Run) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
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

/// The error, with the node that it happened in.
fn named(mut error: QueryError, node: &Node) -> QueryError {
    if !error.message.contains("[node #") && error.number != number::KILLED {
        error.message.push_str(&format!(" [node #{}: {}]", node.id, node.kind.name()));
    }
    error
}

/// The next rows of a node; none at its end.
fn produce(
    node: &Node,
    own: &mut NodeRun,
    mut upstream: Upstream<'_>,
    run: &mut Run,
    want: usize,
) -> Result<Vec<Row>, QueryError> {
    match &node.kind {
        NodeKind::Singleton => Ok(match std::mem::replace(&mut own.state, State::Done) {
            State::Fresh(row) => vec![row],
            _ => Vec::new(),
        }),
        NodeKind::EnumerateCollection { collection, slot, filter } => {
            scan::rows(&mut own.state, (collection.id, *slot, filter), upstream, run, want)
        }
        NodeKind::Index(access) => index::rows(&mut own.state, access, upstream, run, want),
        NodeKind::EnumerateList { list, slot } => {
            list::rows(&mut own.state, (list, *slot), upstream, run, want)
        }
        NodeKind::Calculation { .. } | NodeKind::Filter { .. } => {
            let rows = upstream.rows(run, want)?;
            step(node, own, rows, run)
        }
        NodeKind::Sort { keys, limit } => {
            sort::rows(&mut own.state, (keys, *limit), upstream, run, want)
        }
        NodeKind::Limit { offset, count, is_last } => {
            limit(&mut own.state, (*offset, *count, *is_last), &mut upstream, run, want)
        }
        NodeKind::Collect(collect) => collect::rows(&mut own.state, collect, upstream, run, want),
        NodeKind::Write(write) => write::rows(&mut own.state, write, upstream, run, want),
        NodeKind::Upsert(upsert) => upsert::rows(&mut own.state, upsert, upstream, run, want),
        // It is asked for values, never for rows.
        NodeKind::Return { .. } | NodeKind::NoResults => Ok(Vec::new()),
    }
}

/// Has a node compute something for each row, or leave some out.
fn step(
    node: &Node,
    own: &mut NodeRun,
    mut rows: Vec<Row>,
    run: &mut Run,
) -> Result<Vec<Row>, QueryError> {
    match &node.kind {
        NodeKind::Calculation { slot, code } => {
            let outer_bytes = run.memory.begin_batch();
            for row in &mut rows {
                run.tick()?;
                let value = code.compute(row, run)?;
                run.memory.take_for_batch(value.own_bytes())?;
                row[*slot] = value;
            }
            own.held_bytes = run.memory.end_batch(outer_bytes);
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

fn limit(
    state: &mut State,
    (offset, count, is_last): (u64, Option<u64>, bool),
    upstream: &mut Upstream<'_>,
    run: &mut Run,
    want: usize,
) -> Result<Vec<Row>, QueryError> {
    let (mut skipped, mut given) = match state {
        State::Limit { skipped, given } => (*skipped, *given),
        State::Done => return Ok(Vec::new()),
        _ => (0, 0),
    };
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
                // More came than was asked for.
                if counts_all {
                    given += 1;
                }
            } else {
                out.push(row);
            }
        }
    }
    given += out.len() as u64;
    *state = State::Limit { skipped, given };
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
    if is_full || is_at_end {
        *state = State::Done;
    }
    Ok(out)
}

/// The result of a subquery for a row.
pub(crate) fn subquery(
    pipeline: &Pipeline,
    row: &[Value],
    run: &mut Run,
) -> Result<Value, QueryError> {
    run.depth += 1;
    let row: Row = row.into();
    let mut runs: Vec<NodeRun> = pipeline.nodes.iter().map(|_| NodeRun::new(&row)).collect();
    let mut upstream = Upstream { nodes: &pipeline.nodes, runs: &mut runs };
    let mut seen = HashSet::new();
    let before_bytes = run.memory.passing_bytes();
    let mut values = Vec::new();
    while let Some(more) = upstream.values(run, BATCH_ROWS, &mut seen)? {
        values.extend(more.into_iter().map(|mut kept| {
            // What it is a part of does not count, and must not stay.
            kept.value.let_go();
            kept.value
        }));
    }
    // Its rows are gone, and its result counts where it stays.
    run.memory.free_down_to(before_bytes);
    run.depth -= 1;
    Ok(Value::array(values)?)
}

/// The memory that a row keeps.
fn size_of_row(row: &Row) -> usize {
    size_of::<Row>() + row.iter().map(Value::size_bytes).sum::<usize>()
}

/// The memory that a copy of a row takes: what its variables hold is not copied.
fn bytes_of_copy(row: &Row) -> usize {
    size_of::<Row>() + size_of_val::<[Value]>(row)
}
