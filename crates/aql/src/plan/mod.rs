//! The plan of a query: a pipeline of nodes, each of which takes rows from the previous one.

mod bind_variables;
mod builder;
mod collect;
mod constant_folding;
mod estimate;
mod explain;
mod expressions;
mod filters;
mod indexes;
mod light_query;
mod options;
mod prefixes;
mod query;
mod reuse_conditions;
mod scope;
mod variables;
mod writes;

use std::sync::Arc;

use pellucid_budget::Share;
use pellucid_value::Value;

use bind_variables::{BindVariables, Dependence};
use builder::{Access, Builder};
pub(crate) use reuse_conditions::ReuseConditions;
use variables::Variables;

use crate::query_run::{QueryRun, Warning};
use crate::tree::{NodeKind, Pipeline, Slot};
use crate::{Collection, KillSwitch, ParsedQuery, QueryOptions, Result, Source, number};

/// A query that is ready to run: bound to values, collections and indexes.
#[derive(Debug)]
pub struct Plan {
    pub(crate) pipeline: Arc<Pipeline>,
    variables: Variables,
    /// The collections that it reads or writes.
    collections: Vec<(Collection, Access)>,
    pub(crate) warnings: Vec<Warning>,
    /// The planner's rules that changed it.
    rules: Vec<&'static str>,
    /// The bind variables that are variables of the plan, with their slots.
    pub(crate) parameters: Vec<(Slot, String)>,
    /// The memory that it takes.
    memory: Share,
}

/// The optimizer rules of the planner.
pub const RULES: [&str; 6] = [
    "move-filters-up",
    "use-indexes",
    "remove-filter-covered-by-index",
    "use-index-for-sort",
    "reduce-extraction-to-projection",
    "sort-limit",
];

impl Plan {
    /// Plans a query, which can be killed while its constants are computed.
    ///
    /// # Errors
    /// Errors that the text alone does not show, such as unknown names, wrong types and missing
    /// bind variables.
    pub fn new(
        parsed: &ParsedQuery,
        bind_variables: &Value,
        source: &Arc<dyn Source>,
        options: &QueryOptions,
        kill: &KillSwitch,
    ) -> Result<Self> {
        let run = QueryRun::new(Arc::clone(source), options.clone(), kill.clone());
        plan(parsed, BindVariables::new(bind_variables, false), run).map(|(plan, _)| plan)
    }

    /// As [`Plan::new`]. Also returns the conditions under which the plan can be reused, if it
    /// can be.
    pub(crate) fn to_serve_again(
        parsed: &ParsedQuery,
        bind_variables: &Value,
        source: &Arc<dyn Source>,
        options: &QueryOptions,
        kill: &KillSwitch,
    ) -> Result<(Self, Option<ReuseConditions>)> {
        let planned = |serves_again| {
            let run = QueryRun::new(Arc::clone(source), options.clone(), kill.clone());
            plan(parsed, BindVariables::new(bind_variables, serves_again), run)
        };
        let (plan, dependence) = match planned(true) {
            // Where a constant is needed, a bind variable cannot be a variable of the plan.
            Err(error) if error.number() != number::KILLED => planned(false)?,
            reusable => reusable?,
        };
        let reuse = dependence.filter(|_| plan.warnings.is_empty()).and_then(|dependence| {
            let collections = plan.collections().map(|(name, _)| name);
            ReuseConditions::of(dependence, collections, &**source)
        });
        Ok((plan, reuse))
    }

    /// True if it writes.
    #[must_use]
    pub fn is_modification(&self) -> bool {
        self.collections.iter().any(|(_, access)| *access == Access::Write)
    }

    /// The names of the collections that it reads or writes, each with true if it writes to it.
    pub fn collections(&self) -> impl Iterator<Item = (&str, bool)> {
        self.collections
            .iter()
            .map(|(collection, access)| (collection.name.as_str(), *access == Access::Write))
    }

    /// The bytes of memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory.held_bytes()
    }

    /// Its warnings.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// True if the query looks up one place of one index, and does nothing with the documents that
    /// could take long. It may then run on a thread that must not block, within the limits of
    /// [`QueryOptions::is_light`](crate::QueryOptions::is_light).
    #[must_use]
    pub fn is_light(&self) -> bool {
        light_query::is_light(&self.pipeline)
    }

    /// The plan in ArangoDB's format: nodes with their estimates, rules, collections and variables.
    #[must_use]
    pub fn explain(&self) -> Value {
        explain::explain(&self.pipeline.nodes, &self.variables, &self.collections, &self.rules)
    }
}

/// Plans a query. Also returns how the plan depends on bind variables, if `binds` records that.
fn plan(
    parsed: &ParsedQuery,
    binds: BindVariables<'_>,
    run: QueryRun,
) -> Result<(Plan, Option<Dependence>)> {
    binds.check(parsed)?;
    let mut builder = Builder::new(run, binds, query::plan_query);
    let mut nodes = query::plan_query(&mut builder, &parsed.query)?;
    // With `fullCount`, the rows that the last limit leaves out are counted.
    let last = nodes.iter_mut().rev().find_map(|node| match &mut node.kind {
        NodeKind::Limit { is_last, .. } => Some(is_last),
        _ => None,
    });
    if let Some(is_last) = last {
        *is_last = true;
    }
    estimate::estimate(&mut nodes, &*builder.run.source);
    let pipeline = Arc::new(Pipeline { nodes, width: builder.variables.len() });
    let dependence = builder.binds.into_dependence();
    let parameters =
        dependence.iter().flat_map(|dependence| dependence.parameters.clone()).collect();
    let (warnings, memory) = builder.run.into_parts();
    let plan = Plan {
        pipeline,
        parameters,
        variables: builder.variables,
        collections: builder.collections,
        warnings,
        rules: builder.rules,
        memory,
    };
    Ok((plan, dependence))
}
