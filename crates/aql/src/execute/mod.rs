//! Execution of plans.

mod account;
mod collect;
mod conditions;
mod contents;
mod index;
mod limit;
mod list;
mod nested_loop;
mod nodes;
mod point_query;
mod rows;
mod scan;
mod sort;
mod upsert;
mod write;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use pellucid_value::Value;

pub use account::NodeAccount;
pub(crate) use contents::contents;
pub(crate) use index::RANGES_MAX;
pub(crate) use nodes::subquery;
use nodes::{NodeRun, Nodes, ResultValue};
pub use point_query::{PointResult, write_point};
use rows::BATCH_ROWS;

use crate::query_run::{QueryRun, Stats, Warning};
use crate::tree::Row;
use crate::{KillSwitch, Plan, QueryOptions, Result, Source};

/// The execution of a query. It returns the result in pieces, and keeps its position between them.
pub struct Execution {
    plan: Arc<Plan>,
    run: QueryRun,
    nodes: Vec<NodeRun>,
    ready: VecDeque<ResultValue>,
    ready_bytes: usize,
    /// The bytes of returned values that the caller keeps.
    kept_bytes: usize,
    is_done: bool,
    /// The encoded values that were returned, for `RETURN DISTINCT`.
    returned: HashSet<Vec<u8>>,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Execution").field("is_done", &self.is_done).finish_non_exhaustive()
    }
}

impl Execution {
    /// Prepares the execution of a plan, with the bind variables for which it was requested.
    /// Nothing is computed yet.
    #[must_use]
    pub fn new(
        plan: Arc<Plan>,
        bind_variables: &Value,
        source: Arc<dyn Source>,
        options: QueryOptions,
        kill: KillSwitch,
    ) -> Self {
        let mut run = QueryRun::new(source, options, kill);
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

    /// Returns at most `most` next values of the result, of about `bytes_max` bytes of memory, but
    /// at least one if there is one. The values count as memory of the query until
    /// [`free_kept`](Self::free_kept). A query that writes has committed all its writes before it
    /// returns the first values.
    ///
    /// # Errors
    /// The error that ended the query. No values follow then, and nothing was written.
    pub fn next(&mut self, most: usize, bytes_max: usize) -> Result<Vec<Value>> {
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
        Ok(values)
    }

    /// Frees the memory of all values that [`next`](Self::next) returned, once the caller has
    /// dropped them.
    pub fn free_kept(&mut self) {
        self.run.memory.free(std::mem::take(&mut self.kept_bytes));
    }

    /// Releases what its scans can find again, for a caller that may not ask for more values for a
    /// long time.
    pub fn release(&mut self) {
        self.nodes.iter_mut().for_each(NodeRun::release);
    }

    /// The bytes of the values that [`next`](Self::next) returned and the caller keeps.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// The bytes of memory that it takes at present, including the values that the caller keeps.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.run.memory.taken_bytes()
    }

    fn fill(&mut self, most: usize, bytes_max: usize) -> Result<()> {
        let writes = self.plan.is_modification();
        if !writes {
            // A killed query does not return values that are ready either, unless it has written:
            // then the writes are committed.
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

    /// True if the result has no more values.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_done && self.ready.is_empty()
    }

    /// Its counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { peak_memory_bytes: self.run.memory.peak_bytes(), ..self.run.stats }
    }

    /// The warnings so far, including those of the plan.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.run.warnings
    }

    /// The nanoseconds for which it has run, without the pauses between two calls for more values.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.run.timing.elapsed_ns()
    }
}
