//! Queries that run.

mod account;
mod collect;
mod conditions;
mod contents;
mod index;
mod limit;
mod list;
mod nodes;
mod point;
mod rows;
mod scan;
mod sort;
mod upsert;
mod walk;
mod write;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use pellucid_value::Value;

pub use account::NodeAccount;
pub(crate) use contents::contents;
pub(crate) use nodes::subquery;
use nodes::{NodeRun, Nodes, ResultValue};
pub use point::{PointResult, write_point};
use rows::BATCH_ROWS;

use crate::run::{Run, Stats, Warning};
use crate::tree::Row;
use crate::{KillSwitch, Plan, QueryOptions, Result, Source};

/// A query that runs. It gives its result in pieces and keeps its place between them.
pub struct Execution {
    plan: Arc<Plan>,
    run: Run,
    nodes: Vec<NodeRun>,
    ready: VecDeque<ResultValue>,
    ready_bytes: usize,
    /// Bytes of the values that the caller said it keeps.
    kept_bytes: usize,
    is_done: bool,
    /// Values that no other is to be like.
    returned: HashSet<Vec<u8>>,
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
        let nodes = NodeRun::all(&plan.pipeline.nodes, &row);
        let (ready, returned) = (VecDeque::new(), HashSet::new());
        let (ready_bytes, kept_bytes) = (0, 0);
        Self { plan, run, nodes, ready, ready_bytes, kept_bytes, is_done: false, returned }
    }

    /// The next values of the result, `most` at most, and whether there are more. A query that
    /// writes has written, and all of it, when the first values are there.
    ///
    /// # Errors
    /// The error that ended the query; there is no more to come then, and nothing was written.
    pub fn next(&mut self, most: usize) -> Result<(Vec<Value>, bool)> {
        let next = self.next_to_keep(most)?;
        self.free_kept();
        Ok(next)
    }

    /// As [`next_to_keep`](Self::next_to_keep), and no more values than fit into about `bytes_max`
    /// bytes of memory, but one at least.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_within(&mut self, most: usize, bytes_max: usize) -> Result<(Vec<Value>, bool)> {
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
            let Some(ResultValue { mut value, bytes: of_value }) = self.ready.pop_front() else {
                break;
            };
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
    pub fn next_to_keep(&mut self, most: usize) -> Result<(Vec<Value>, bool)> {
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

    fn fill(&mut self, most: usize, bytes_max: usize) -> Result<()> {
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
            let mut nodes = Nodes { nodes: &plan.pipeline.nodes, runs: &mut self.nodes };
            match nodes.values(&mut self.run, want, &mut self.returned)? {
                Some(values) => {
                    self.ready_bytes += values.iter().map(|result| result.bytes).sum::<usize>();
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
