//! The state of the planning of a query.

use super::bind_variables::BindVariables;
use super::scope::Scope;
use super::variables::Variables;
use crate::parse::ast::Query;
use crate::query_run::QueryRun;
use crate::source::readable;
use crate::tree::{Code, Node, NodeKind, Slot};
use crate::{Collection, QueryError, Result, number};

/// The most nodes of a query.
const NODES_MAX: usize = 4000;

/// The use of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A function that plans a query or subquery.
pub(super) type QueryPlanner = fn(&mut Builder<'_>, &Query) -> Result<Vec<Node>>;

/// The state of the planning of a query.
pub(super) struct Builder<'a> {
    /// The run that computes constant expressions.
    pub(super) run: QueryRun,
    pub(super) binds: BindVariables<'a>,
    pub(super) scope: Scope,
    pub(super) variables: Variables,
    /// The nodes of the current query or subquery.
    pub(super) nodes: Vec<Node>,
    /// The collections that are read or written.
    pub(super) collections: Vec<(Collection, Access)>,
    /// The rules that changed the plan.
    pub(super) rules: Vec<&'static str>,
    /// The most nested calls of nodes in the subqueries of the current query.
    pub(super) calls_within: usize,
    /// The function that plans the subqueries of expressions.
    plan_query: QueryPlanner,
    next_id: usize,
}

impl<'a> Builder<'a> {
    pub(super) fn new(run: QueryRun, binds: BindVariables<'a>, plan_query: QueryPlanner) -> Self {
        Self {
            run,
            binds,
            scope: Scope::default(),
            variables: Variables::default(),
            nodes: Vec::new(),
            collections: Vec::new(),
            rules: Vec::new(),
            calls_within: 0,
            plan_query,
            next_id: 1,
        }
    }

    pub(super) fn subquery(&mut self, query: &Query) -> Result<Vec<Node>> {
        (self.plan_query)(self, query)
    }

    pub(super) fn push(&mut self, kind: NodeKind) -> Result<()> {
        if self.next_id > NODES_MAX {
            let message = format!("too much nesting or too many objects: over {NODES_MAX} nodes");
            return Err(QueryError::new(number::TOO_MUCH_NESTING, message));
        }
        self.run.memory.take(size_of::<Node>())?;
        let may_fail = kind.may_fail();
        self.nodes.push(Node { id: self.next_id, kind, may_fail, cost: 0.0, items: 0.0 });
        self.next_id += 1;
        Ok(())
    }

    /// Declares a new variable, which is visible from here on.
    pub(super) fn declare(&mut self, name: &str) -> Result<Slot> {
        let slot = self.variables.add(Some(name));
        self.scope.declare(name, Code::Path(slot, Vec::new()))?;
        Ok(slot)
    }

    pub(super) fn collection(&self, name: &str) -> Result<Collection> {
        readable(&*self.run.source, name)?.ok_or_else(|| {
            let message = format!("collection or view not found: {name}");
            QueryError::new(number::COLLECTION_NOT_FOUND, message)
        })
    }

    /// Records the use of a collection.
    pub(super) fn note(&mut self, collection: &Collection, access: Access) {
        match self.collections.iter_mut().find(|(known, _)| known.id == collection.id) {
            Some((_, known)) => *known = access.max(*known),
            None => self.collections.push((collection.clone(), access)),
        }
    }

    /// True if a statement before this point of the query writes to a collection that `is_meant`
    /// accepts.
    pub(super) fn has_written(&self, is_meant: impl Fn(&Collection) -> bool) -> bool {
        let mut collections = self.collections.iter();
        collections.any(|(known, access)| *access == Access::Write && is_meant(known))
    }
}
