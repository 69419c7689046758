//! The plan of a query: a line of nodes, each of which takes rows from the one before it.

mod build;
mod collect;
mod explain;
mod expressions;
mod filters;
mod indexes;
mod options;
mod parameters;
mod prefixes;
mod writes;

use std::sync::Arc;

use pellucid_budget::Share;
use pellucid_value::Value;

use crate::evaluate::{Code, Slot};
use crate::run::{Run, Warning};
use crate::{
    Collection, Index, KillSwitch, Parsed, QueryError, QueryOptions, Source, WriteKind,
    WriteOptions,
};

pub(crate) use collect::{Aggregate, Aggregator, Collect, Into};
pub(crate) use parameters::{Parameters, Reuse};

/// A query that is ready to run: bound to values, collections and indexes.
#[derive(Debug)]
pub struct Plan {
    pub(crate) pipeline: Arc<Pipeline>,
    /// The names of the variables in their slots; those without are the planner's own.
    pub(crate) variables: Vec<Option<String>>,
    /// The collections that it reads or writes.
    pub(crate) collections: Vec<(Collection, Access)>,
    pub(crate) warnings: Vec<Warning>,
    /// The rules that changed it.
    pub(crate) rules: Vec<&'static str>,
    /// The bind variables that are variables of the plan.
    pub(crate) parameters: Vec<(Slot, String)>,
    /// The memory that it takes.
    pub(crate) memory: Share,
}

/// The rules of the planner, by which it changes plans.
pub const RULES: [&str; 6] = [
    "move-filters-up",
    "use-indexes",
    "remove-filter-covered-by-index",
    "use-index-for-sort",
    "reduce-extraction-to-projection",
    "sort-limit",
];

/// The use of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Plan {
    /// Plans a query.
    ///
    /// # Errors
    /// What its text alone does not tell: names, types and bind variables that do not fit.
    pub fn new(
        parsed: &Parsed,
        bind_variables: &Value,
        source: &Arc<dyn Source>,
        options: &QueryOptions,
    ) -> Result<Self, QueryError> {
        Self::killable(parsed, bind_variables, source, options, &KillSwitch::default())
    }

    /// As [`Plan::new`], for a query that may be ended while its constants are computed.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn killable(
        parsed: &Parsed,
        bind_variables: &Value,
        source: &Arc<dyn Source>,
        options: &QueryOptions,
        kill: &KillSwitch,
    ) -> Result<Self, QueryError> {
        let run = Run::new(Arc::clone(source), options.clone(), kill.clone());
        build::Builder::new(bind_variables, run, None).plan(parsed).map(|(plan, _)| plan)
    }

    /// As [`Plan::killable`], for a plan that serves again under some conditions, if that can be.
    pub(crate) fn to_serve_again(
        parsed: &Parsed,
        bind_variables: &Value,
        source: &Arc<dyn Source>,
        options: &QueryOptions,
        kill: &KillSwitch,
    ) -> Result<(Self, Option<Reuse>), QueryError> {
        let run = Run::new(Arc::clone(source), options.clone(), kill.clone());
        let builder = build::Builder::new(bind_variables, run, Some(Parameters::default()));
        let (plan, parameters) = builder.plan(parsed)?;
        let reuse = parameters.and_then(|parameters| Reuse::of(&plan, parameters, &**source));
        Ok((plan, reuse))
    }

    /// True if it writes.
    #[must_use]
    pub fn is_modification(&self) -> bool {
        self.collections.iter().any(|(_, access)| *access == Access::Write)
    }

    /// The names of the collections that it reads or writes, and whether it writes to them.
    pub fn collections(&self) -> impl Iterator<Item = (&str, bool)> {
        self.collections
            .iter()
            .map(|(collection, access)| (collection.name.as_str(), *access == Access::Write))
    }

    /// The number of bytes that of memory it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory.held_bytes()
    }

    /// Its warnings.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// Nodes, the first of which gives one row.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) nodes: Vec<Node>,
    /// The number of values that a row has.
    pub(crate) width: usize,
}

impl Pipeline {
    /// The variables that its expressions read, those from outside too.
    pub(crate) fn slots_read(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        self.nodes.iter().for_each(|node| {
            node.kind.for_each_code(&mut |code| slots.extend(code.slots()));
        });
        slots
    }
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// From 1 on, no two in a query are the same.
    pub(crate) id: usize,
    pub(crate) kind: NodeKind,
    pub(crate) cost: f64,
    pub(crate) items: f64,
}

/// The work of a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    Singleton,
    EnumerateCollection { collection: Collection, slot: Slot, filter: Vec<Code> },
    Index(Box<IndexAccess>),
    EnumerateList { list: Code, slot: Slot },
    Calculation { slot: Slot, code: Code },
    Filter { code: Code },
    Sort { keys: Vec<(Code, bool)>, limit: Option<usize> },
    Limit { offset: u64, count: Option<u64>, is_last: bool },
    Collect(Box<Collect>),
    Return { code: Code, is_distinct: bool },
    Write(Box<Write>),
    Upsert(Box<Upsert>),
    NoResults,
}

/// Documents by an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexAccess {
    pub(crate) collection: Collection,
    pub(crate) slot: Slot,
    pub(crate) index: Index,
    /// The values of the first fields.
    pub(crate) matches: Vec<Match>,
    /// The bounds of the next one: a value, and whether it belongs to the range.
    pub(crate) low: Option<(Code, bool)>,
    pub(crate) high: Option<(Code, bool)>,
    pub(crate) is_reverse: bool,
    /// The fields suffice: documents are not read.
    pub(crate) is_covering: bool,
    pub(crate) filter: Vec<Code>,
    /// `_id` and not `_key` is what is looked for.
    pub(crate) is_by_id: bool,
}

impl IndexAccess {
    /// All of an index, forwards.
    pub(crate) fn new(collection: &Collection, slot: Slot, index: &Index) -> Self {
        Self {
            collection: collection.clone(),
            slot,
            index: index.clone(),
            matches: Vec::new(),
            low: None,
            high: None,
            is_reverse: false,
            is_covering: false,
            filter: Vec::new(),
            is_by_id: false,
        }
    }

    /// The number of its bounds.
    fn bounds(&self) -> usize {
        usize::from(self.low.is_some()) + usize::from(self.high.is_some())
    }
}

/// The value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Match {
    Equal(Code),
    In(Code),
}

impl Match {
    pub(crate) fn code(&self) -> &Code {
        match self {
            Self::Equal(code) | Self::In(code) => code,
        }
    }
}

/// A write for each row.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) kind: WriteKind,
    pub(crate) collection: Collection,
    /// The document, or what says which one.
    pub(crate) document: Code,
    pub(crate) with: Option<Code>,
    pub(crate) options: WriteOptions,
    pub(crate) old: Slot,
    pub(crate) new: Slot,
}

/// An insert, or an update of what is found, for each row.
#[derive(Clone, Debug)]
pub(crate) struct Upsert {
    pub(crate) collection: Collection,
    /// Finds the document; its rows are documents.
    pub(crate) search: Arc<Pipeline>,
    /// The variable that the condition is about, and the condition.
    pub(crate) condition: (Slot, Code),
    pub(crate) insert: Code,
    pub(crate) update: Code,
    pub(crate) is_replace: bool,
    pub(crate) options: WriteOptions,
    pub(crate) old: Slot,
    pub(crate) new: Slot,
}

impl NodeKind {
    /// ArangoDB's name of such a node.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Singleton => "SingletonNode",
            Self::EnumerateCollection { .. } => "EnumerateCollectionNode",
            Self::Index(_) => "IndexNode",
            Self::EnumerateList { .. } => "EnumerateListNode",
            Self::Calculation { code: Code::Subquery(_), .. } => "SubqueryNode",
            Self::Calculation { .. } => "CalculationNode",
            Self::Filter { .. } => "FilterNode",
            Self::Sort { .. } => "SortNode",
            Self::Limit { .. } => "LimitNode",
            Self::Collect(_) => "CollectNode",
            Self::Return { .. } => "ReturnNode",
            Self::Write(write) => write.kind.node_name(),
            Self::Upsert(_) => "UpsertNode",
            Self::NoResults => "NoResultsNode",
        }
    }

    /// True if it goes through the rows of the node before it one by one, and gives no others.
    pub(crate) fn is_step(&self) -> bool {
        matches!(self, Self::Calculation { .. } | Self::Filter { .. })
    }

    /// The variables that it sets.
    pub(crate) fn slots_set(&self) -> Vec<Slot> {
        match self {
            Self::EnumerateCollection { slot, .. }
            | Self::EnumerateList { slot, .. }
            | Self::Calculation { slot, .. } => vec![*slot],
            Self::Index(access) => vec![access.slot],
            Self::Collect(collect) => collect.slots_set(),
            Self::Write(write) => vec![write.old, write.new],
            Self::Upsert(upsert) => vec![upsert.old, upsert.new],
            Self::Singleton
            | Self::Filter { .. }
            | Self::Sort { .. }
            | Self::Limit { .. }
            | Self::Return { .. }
            | Self::NoResults => Vec::new(),
        }
    }

    /// Calls `visit` with each of its expressions.
    pub(crate) fn for_each_code<'a>(&'a self, visit: &mut dyn FnMut(&'a Code)) {
        match self {
            Self::Singleton | Self::NoResults | Self::Limit { .. } => {}
            Self::EnumerateCollection { filter, .. } => filter.iter().for_each(visit),
            Self::Index(access) => {
                access.matches.iter().for_each(|found| visit(found.code()));
                access.low.iter().chain(&access.high).for_each(|(code, _)| visit(code));
                access.filter.iter().for_each(visit);
            }
            Self::EnumerateList { list: code, .. }
            | Self::Calculation { code, .. }
            | Self::Filter { code }
            | Self::Return { code, .. } => visit(code),
            Self::Sort { keys, .. } => keys.iter().for_each(|(code, _)| visit(code)),
            Self::Collect(collect) => collect.for_each_code(visit),
            Self::Write(write) => {
                visit(&write.document);
                write.with.iter().for_each(visit);
            }
            Self::Upsert(upsert) => {
                visit(&upsert.condition.1);
                visit(&upsert.insert);
                visit(&upsert.update);
            }
        }
    }
}
