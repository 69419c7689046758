//! From statements to nodes: names become slots, and filters go to where they can first be asked.

use std::sync::Arc;

use pellucid_value::{Ref, Value, to_number};

use super::{Access, Node, NodeKind, Parameters, Pipeline, Plan};
use crate::evaluate::{Code, Slot};
use crate::parse::ast::{Direction, Expression, Query, SortKey, Statement};
use crate::run::Run;
use crate::{Collection, CollectionId, Parsed, QueryError, number};

/// The number of nodes that a query may have, and how many variables one place of it may see.
const NODES_MAX: usize = 4000;
/// The number of nodes that may call each other when rows are asked for: all but those that go
/// through rows one by one, with those of the subqueries within each other.
const CALLS_MAX: usize = 250;
/// The number of subqueries that may lie in each other.
const SUBQUERIES_MAX: usize = 60;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) code: Code,
}

/// A plan that is being made.
pub(super) struct Builder<'a> {
    pub(super) bind_variables: &'a Value,
    /// Computes what is known before the query runs.
    pub(super) run: Run,
    pub(super) variables: Vec<Option<String>>,
    /// What is visible here, the innermost last.
    pub(super) scope: Vec<Binding>,
    /// The number of brackets that with `CURRENT` are open.
    pub(super) locals: usize,
    pub(super) nodes: Vec<Node>,
    pub(super) collections: Vec<(Collection, Access)>,
    pub(super) rules: Vec<&'static str>,
    next_id: usize,
    /// The most nodes that call each other in the subqueries of the query that is open.
    calls_within: usize,
    /// Length of the scope around each of the queries that are open.
    pub(super) outer_scope: Vec<usize>,
    /// For a plan that is to serve again.
    pub(super) parameters: Option<Parameters>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(bind_variables: &'a Value, run: Run, parameters: Option<Parameters>) -> Self {
        Self {
            bind_variables,
            run,
            variables: Vec::new(),
            scope: Vec::new(),
            locals: 0,
            nodes: Vec::new(),
            collections: Vec::new(),
            rules: Vec::new(),
            next_id: 1,
            calls_within: 0,
            outer_scope: Vec::new(),
            parameters,
        }
    }

    pub(super) fn plan(
        mut self,
        parsed: &Parsed,
    ) -> Result<(Plan, Option<Parameters>), QueryError> {
        self.check_bind_variables(parsed)?;
        let mut nodes = self.query(&parsed.query)?;
        // The rows that the last limit leaves out may have to be counted.
        let last = nodes.iter_mut().rev().find_map(|node| match &mut node.kind {
            NodeKind::Limit { is_last, .. } => Some(is_last),
            _ => None,
        });
        if let Some(is_last) = last {
            *is_last = true;
        }
        let mut pipeline = Pipeline { nodes, width: self.variables.len() };
        self.estimate(&mut pipeline.nodes);
        let slots = self.parameters.iter().flat_map(|parameters| parameters.slots.clone());
        let parameters = slots.collect();
        let (warnings, memory) = self.run.into_parts();
        let plan = Plan {
            pipeline: Arc::new(pipeline),
            parameters,
            variables: self.variables,
            collections: self.collections,
            warnings,
            rules: self.rules,
            memory,
        };
        Ok((plan, self.parameters))
    }

    fn check_bind_variables(&self, parsed: &Parsed) -> Result<(), QueryError> {
        let given = match self.bind_variables.view() {
            Ref::Null => return self.check_all_bound(parsed),
            Ref::Object(given) => given,
            _ => {
                let message = "bind parameters must be an object";
                return Err(QueryError::new(number::BIND_PARAMETERS_INVALID, message));
            }
        };
        let unknown = given.iter().find(|(name, _)| !parsed.bind_names().contains(*name));
        if let Some((name, _)) = unknown {
            let message = format!("bind parameter '{name}' was not declared in the query");
            return Err(QueryError::new(number::BIND_PARAMETER_UNDECLARED, message));
        }
        self.check_all_bound(parsed)
    }

    fn check_all_bound(&self, parsed: &Parsed) -> Result<(), QueryError> {
        let given = self.bind_variables.view().as_object();
        let is_bound = |name: &str| given.is_some_and(|given| given.get(name).is_some());
        let missing = parsed.bind_names().iter().find(|name| !is_bound(name));
        let Some(name) = missing else { return Ok(()) };
        let message = format!("no value specified for declared bind parameter '{name}'");
        Err(QueryError::new(number::BIND_PARAMETER_MISSING, message))
    }

    /// The nodes of a query or subquery, in the scope as it is.
    pub(super) fn query(&mut self, query: &Query) -> Result<Vec<Node>, QueryError> {
        if self.outer_scope.len() > SUBQUERIES_MAX {
            let message = format!("more than {SUBQUERIES_MAX} subqueries within each other");
            return Err(QueryError::new(number::TOO_MUCH_NESTING, message));
        }
        let outer = std::mem::take(&mut self.nodes);
        let around = self.scope.clone();
        let calls_around = std::mem::take(&mut self.calls_within);
        self.outer_scope.push(around.len());
        self.push(NodeKind::Singleton)?;
        for statement in &query.statements {
            self.statement(statement)?;
        }
        self.outer_scope.pop();
        self.scope = around;
        let calls = self.nodes.iter().filter(|node| !node.kind.is_step()).count();
        self.calls_within += calls;
        if self.calls_within > CALLS_MAX {
            let message = format!("more than {CALLS_MAX} loops and other nodes within each other");
            return Err(QueryError::new(number::TOO_MUCH_NESTING, message));
        }
        self.calls_within = self.calls_within.max(calls_around);
        self.choose_indexes()?;
        self.limit_sorts();
        Ok(std::mem::replace(&mut self.nodes, outer))
    }

    pub(super) fn push(&mut self, kind: NodeKind) -> Result<(), QueryError> {
        if self.next_id > NODES_MAX {
            let message = format!("too much nesting or too many objects: over {NODES_MAX} nodes");
            return Err(QueryError::new(number::TOO_MUCH_NESTING, message));
        }
        self.run.memory.take(size_of::<Node>())?;
        self.nodes.push(Node { id: self.next_id, kind, cost: 0.0, items: 0.0 });
        self.next_id += 1;
        Ok(())
    }

    /// A place for a value.
    pub(super) fn slot(&mut self, name: Option<&str>) -> Slot {
        self.variables.push(name.map(str::to_owned));
        self.variables.len() - 1
    }

    /// Makes a name visible.
    pub(super) fn declare(&mut self, name: &str, code: Code) -> Result<(), QueryError> {
        if self.scope.iter().any(|binding| binding.name == name) {
            let message = format!("variable '{name}' is assigned multiple times");
            return Err(QueryError::new(number::VARIABLE_REDECLARED, message));
        }
        if self.scope.len() >= NODES_MAX {
            let message =
                format!("too much nesting or too many objects: over {NODES_MAX} variables");
            return Err(QueryError::new(number::TOO_MUCH_NESTING, message));
        }
        self.scope.push(Binding { name: name.to_owned(), code });
        Ok(())
    }

    /// Gives `OLD` or `NEW` another meaning.
    pub(super) fn redeclare(&mut self, name: &str, slot: Slot) {
        self.scope.retain(|binding| binding.name != name);
        self.scope.push(Binding { name: name.to_owned(), code: Code::Path(slot, Vec::new()) });
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), QueryError> {
        match statement {
            Statement::For { variable, list, options } => {
                if let Some(options) = options {
                    self.serve_once();
                    self.for_options(options)?;
                }
                self.for_statement(variable, list)
            }
            Statement::Filter(condition) => {
                let code = self.expression(condition)?;
                self.filter(code)
            }
            Statement::Let { variable, value } => self.let_statement(variable, value),
            Statement::Sort(keys) => self.sort(keys),
            Statement::Limit { offset, count } => self.limit(offset.as_ref(), count),
            Statement::Return { value, is_distinct } => {
                let code = self.expression(value)?;
                self.push(NodeKind::Return { code, is_distinct: *is_distinct })
            }
            Statement::Collect(collect) => {
                self.serve_once();
                self.collect(collect)
            }
            Statement::Write(write) => {
                self.serve_once();
                self.write(write)
            }
            Statement::Upsert(upsert) => {
                self.serve_once();
                self.upsert(upsert)
            }
        }
    }

    fn for_statement(&mut self, variable: &str, list: &Expression) -> Result<(), QueryError> {
        if let Some(collection) = self.named_collection(list)? {
            let written = |kind: &NodeKind| match kind {
                NodeKind::Write(write) => write.collection.id == collection.id,
                NodeKind::Upsert(upsert) => upsert.collection.id == collection.id,
                _ => false,
            };
            if self.nodes.iter().any(|node| written(&node.kind)) {
                let message =
                    format!("access after data-modification by collection '{}'", collection.name);
                return Err(QueryError::new(number::ACCESS_AFTER_MODIFICATION, message));
            }
            self.note(&collection, Access::Read);
            let slot = self.slot(Some(variable));
            self.declare(variable, Code::Path(slot, Vec::new()))?;
            let filter = Vec::new();
            return self.push(NodeKind::EnumerateCollection { collection, slot, filter });
        }
        let list = self.expression(list)?;
        let slot = self.slot(Some(variable));
        self.declare(variable, Code::Path(slot, Vec::new()))?;
        self.push(NodeKind::EnumerateList { list, slot })
    }

    /// The collection that an expression names, if it names one and no variable.
    fn named_collection(&mut self, list: &Expression) -> Result<Option<Collection>, QueryError> {
        match list {
            Expression::Name(name) if self.find(name).is_none() => self.collection(name).map(Some),
            Expression::CollectionBind(name) => {
                let name = self.bound_collection(name)?;
                self.collection(&name).map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Binding> {
        self.scope.iter().rev().find(|binding| binding.name == name)
    }

    pub(super) fn collection(&self, name: &str) -> Result<Collection, QueryError> {
        self.run.source.collection(name).ok_or_else(|| {
            let message = format!("collection or view not found: {name}");
            QueryError::new(number::COLLECTION_NOT_FOUND, message)
        })
    }

    /// The name that a bind variable of a collection has; `name` has its `@`.
    pub(super) fn bound_collection(&mut self, name: &str) -> Result<String, QueryError> {
        match self.fix(name).as_str() {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => {
                let message = format!("bind parameter '{name}' has an invalid value or type");
                Err(QueryError::new(number::BIND_PARAMETER_TYPE, message))
            }
        }
    }

    /// Takes note of what is done to a collection.
    pub(super) fn note(&mut self, collection: &Collection, access: Access) {
        let id: CollectionId = collection.id;
        match self.collections.iter_mut().find(|(known, _)| known.id == id) {
            Some((_, known)) => *known = access.max(*known),
            None => self.collections.push((collection.clone(), access)),
        }
    }

    fn let_statement(&mut self, variable: &str, value: &Expression) -> Result<(), QueryError> {
        let code = self.expression(value)?;
        // What is as cheap to compute as to read needs no node, and shows indexes through.
        if matches!(code, Code::Constant(_) | Code::Path(..)) {
            return self.declare(variable, code);
        }
        let slot = self.slot(Some(variable));
        self.declare(variable, Code::Path(slot, Vec::new()))?;
        self.push(NodeKind::Calculation { slot, code })
    }

    fn sort(&mut self, keys: &[SortKey]) -> Result<(), QueryError> {
        let mut sorted = Vec::new();
        for key in keys {
            let code = self.expression(&key.value)?;
            let is_descending = match &key.direction {
                Direction::Ascending => false,
                Direction::Descending => true,
                Direction::Computed(direction) => self.direction(direction)?,
            };
            // A constant orders nothing.
            if code.constant().is_none() {
                sorted.push((code, is_descending));
            }
        }
        if sorted.is_empty() {
            return Ok(());
        }
        self.push(NodeKind::Sort { keys: sorted, limit: None })
    }

    fn direction(&mut self, direction: &Expression) -> Result<bool, QueryError> {
        let code = self.expression(direction)?;
        match code.constant().and_then(Value::as_str) {
            Some(text) if text.eq_ignore_ascii_case("asc") => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("desc") => Ok(true),
            _ => match code.constant().map(Value::view) {
                Some(Ref::Bool(ascending)) => Ok(!ascending),
                _ => {
                    let message = "sort direction must be ASC or DESC";
                    Err(QueryError::new(number::PARSE, message))
                }
            },
        }
    }

    fn limit(&mut self, offset: Option<&Expression>, count: &Expression) -> Result<(), QueryError> {
        let offset = offset.map(|offset| self.limit_operand(offset)).transpose()?.flatten();
        let count = self.limit_operand(count)?;
        self.push(NodeKind::Limit { offset: offset.unwrap_or(0), count, is_last: false })
    }

    /// A count that is known before the query runs; null is nothing.
    fn limit_operand(&mut self, operand: &Expression) -> Result<Option<u64>, QueryError> {
        let code = self.expression(operand)?;
        let wrong = |what: &str| QueryError::new(number::NUMBER_OUT_OF_RANGE, what);
        let Some(value) = code.constant() else {
            let message = "LIMIT operands must be constant numbers, not expressions";
            return Err(QueryError::new(number::PARSE, message));
        };
        match value.view() {
            Ref::Null => Ok(None),
            Ref::Number(_) => u64::try_from(to_number(value.view()).to_int())
                .map(Some)
                .map_err(|_| wrong("LIMIT value is not a valid number: it is negative")),
            _ => Err(wrong("LIMIT value is not a valid number")),
        }
    }

    /// Tells each sort that is followed by a limit how many rows matter.
    fn limit_sorts(&mut self) {
        for place in 0..self.nodes.len() {
            let after = self.nodes[place + 1..].iter();
            let most = after
                .take_while(|node| {
                    matches!(node.kind, NodeKind::Calculation { .. } | NodeKind::Limit { .. })
                })
                .find_map(|node| match node.kind {
                    NodeKind::Limit { offset, count: Some(count), .. } => {
                        usize::try_from(offset.saturating_add(count)).ok()
                    }
                    _ => None,
                });
            if let (NodeKind::Sort { limit, .. }, Some(most)) = (&mut self.nodes[place].kind, most)
            {
                *limit = Some(most);
                self.rules.push("sort-limit");
            }
        }
    }
}
