//! The tree of a plan: its nodes, and their expressions in executable form. Names are resolved to
//! slots of a row. Subqueries are pipelines of nodes themselves.

use std::sync::Arc;

use pellucid_value::{Ref, Value};

use crate::aggregator::Aggregator;
use crate::functions::Function;
use crate::parse::ast::{ArrayPredicate, BinaryOperator, Expansion, Quantifier, UnaryOperator};
use crate::{Collection, CollectionId, Index, WriteKind, WriteOptions};

/// The index of a variable in a row.
pub(crate) type Slot = usize;

/// A row: the value of each variable of the query, null if it is not set yet.
pub(crate) type Row = Box<[Value]>;

/// An executable expression.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    Constant(Value),
    /// A variable, and the names of attributes within it.
    Path(Slot, Vec<Arc<str>>),
    /// `CURRENT` at this nesting depth of brackets.
    Local(usize),
    /// An attribute within the value of an expression.
    Attribute(Box<Code>, Vec<Arc<str>>),
    Element(Box<Code>, Box<Code>),
    Expansion(Box<Expansion<Code>>),
    Question(Box<ArrayPredicate<Code>>),
    Call(&'static Function, Vec<Code>),
    Unary(UnaryOperator, Box<Code>),
    Binary(BinaryOperator, Box<(Code, Code)>),
    Quantified {
        quantifier: Quantifier<Code>,
        operator: BinaryOperator,
        operands: Box<(Code, Code)>,
    },
    Ternary(Box<(Code, Option<Code>, Code)>),
    Array(Vec<Code>),
    Object(Vec<(Name, Code)>),
    Subquery(Arc<Pipeline>),
    /// The number of documents that a collection has.
    CollectionCount(CollectionId, Arc<str>),
    /// All documents of a collection, as an array.
    CollectionContents(CollectionId, Arc<str>),
}

/// The name of a member.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    Fixed(Arc<str>),
    Computed(Code),
}

impl Code {
    /// The value of a constant.
    pub(crate) fn constant(&self) -> Option<&Value> {
        match self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The bytes of the names of a path, which each copy of it has in addition to its own.
    pub(crate) fn names_bytes(&self) -> usize {
        match self {
            Self::Path(_, names) => size_of_val::<[_]>(names),
            _ => 0,
        }
    }

    /// The bounds of a range, `1..2` or `RANGE(1, 2)`, whose elements can be counted instead of
    /// kept.
    pub(crate) fn range(&self) -> Option<(&Self, &Self)> {
        match self {
            Self::Binary(BinaryOperator::Range, operands) => Some((&operands.0, &operands.1)),
            Self::Call(function, arguments) if function.name == "RANGE" => match &arguments[..] {
                [first, last] | [first, last, Self::Constant(Value::Null)] => Some((first, last)),
                _ => None,
            },
            _ => None,
        }
    }

    /// A reference to the value of a constant or a path, which need not be computed.
    pub(crate) fn peek<'a>(&'a self, row: &'a [Value]) -> Option<Ref<'a>> {
        match self {
            Self::Constant(value) => Some(value.view()),
            Self::Path(slot, names) => {
                let value = row[*slot].view();
                Some(names.iter().fold(value, |value, name| value.attribute(name)))
            }
            _ => None,
        }
    }

    /// Calls `visit` with this expression and all nested ones, except those of subqueries.
    pub(crate) fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Code)) {
        visit(self);
        self.for_each_operand(&mut |operand| operand.walk(visit));
    }

    /// Calls `visit` with each direct operand of this expression, except those of subqueries.
    pub(crate) fn for_each_operand<'a>(&'a self, visit: &mut dyn FnMut(&'a Code)) {
        match self {
            Self::Constant(_)
            | Self::Path(..)
            | Self::Local(_)
            | Self::Subquery(_)
            | Self::CollectionCount(..)
            | Self::CollectionContents(..) => {}
            Self::Attribute(value, _) | Self::Unary(_, value) => visit(value),
            Self::Element(value, place) => {
                visit(value);
                visit(place);
            }
            Self::Expansion(expansion) => {
                visit(&expansion.list);
                let limits = expansion.limit.iter().flat_map(|(offset, count)| [offset, count]);
                expansion.filter.iter().chain(&expansion.projection).chain(limits).for_each(visit);
            }
            Self::Question(question) => {
                visit(&question.list);
                if let Some(Quantifier::AtLeast(count)) = &question.quantifier {
                    visit(count);
                }
                question.count.iter().chain(&question.filter).for_each(visit);
            }
            Self::Call(_, arguments) | Self::Array(arguments) => arguments.iter().for_each(visit),
            Self::Binary(_, operands) => {
                visit(&operands.0);
                visit(&operands.1);
            }
            Self::Quantified { quantifier, operands, .. } => {
                if let Quantifier::AtLeast(count) = quantifier {
                    visit(count);
                }
                visit(&operands.0);
                visit(&operands.1);
            }
            Self::Ternary(parts) => {
                visit(&parts.0);
                parts.1.iter().for_each(&mut *visit);
                visit(&parts.2);
            }
            Self::Object(members) => {
                for (name, value) in members {
                    if let Name::Computed(name) = name {
                        visit(name);
                    }
                    visit(value);
                }
            }
        }
    }

    /// The variables that it reads, including those in its subqueries.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        self.walk(&mut |code| match code {
            Self::Path(slot, _) => slots.push(*slot),
            Self::Subquery(pipeline) => slots.extend(pipeline.slots_read()),
            _ => {}
        });
        slots
    }

    /// True if it can be computed twice, earlier, or not at all, without a difference.
    pub(crate) fn is_pure(&self) -> bool {
        let mut is_pure = true;
        self.walk(&mut |code| match code {
            Self::Call(function, _) => is_pure &= function.is_pure,
            Self::Subquery(_) => is_pure = false,
            _ => {}
        });
        is_pure
    }

    /// True if it calls a function whose purpose is to end the query, also in a subquery.
    fn may_fail(&self) -> bool {
        let mut may_fail = false;
        self.walk(&mut |code| match code {
            Self::Call(function, _) => may_fail |= matches!(function.name, "FAIL" | "ASSERT"),
            Self::Subquery(pipeline) => may_fail |= pipeline.nodes.iter().any(|node| node.may_fail),
            _ => {}
        });
        may_fail
    }
}

/// A sequence of nodes, the first of which returns one row.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) nodes: Vec<Node>,
    /// The number of values that a row has.
    pub(crate) width: usize,
}

impl Pipeline {
    /// The variables that its expressions read, including those of the outer query.
    pub(crate) fn slots_read(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        self.nodes.iter().for_each(|node| {
            node.kind.for_each_code(&mut |code| slots.extend(code.slots()));
        });
        slots
    }
}

/// A node of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its number, which is unique in a query and begins at 1.
    pub(crate) id: usize,
    pub(crate) kind: NodeKind,
    /// True if filters must stay behind it, because they could prevent the error that it ends the
    /// query with.
    pub(crate) may_fail: bool,
    pub(crate) cost: f64,
    pub(crate) items: f64,
}

/// The operation of a node.
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

/// An access to documents by an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexAccess {
    pub(crate) collection: Collection,
    pub(crate) slot: Slot,
    pub(crate) index: Index,
    /// The values of the first fields.
    pub(crate) matches: Vec<Match>,
    /// The lower bound of the next field: a value, and true if it is included.
    pub(crate) low: Option<(Code, bool)>,
    /// The upper bound of the next field: a value, and true if it is included.
    pub(crate) high: Option<(Code, bool)>,
    pub(crate) is_reverse: bool,
    /// As in [`IndexRequest`](crate::IndexRequest).
    pub(crate) ordered_fields: usize,
    /// True if the fields of the index suffice, so that documents are not read.
    pub(crate) is_covering: bool,
    pub(crate) filter: Vec<Code>,
    /// True for a lookup by `_id`, false for one by `_key`.
    pub(crate) is_by_id: bool,
}

impl IndexAccess {
    /// Makes an access to the whole index, forwards.
    pub(crate) fn new(collection: &Collection, slot: Slot, index: &Index) -> Self {
        Self {
            collection: collection.clone(),
            slot,
            index: index.clone(),
            matches: Vec::new(),
            low: None,
            high: None,
            is_reverse: false,
            ordered_fields: 0,
            is_covering: false,
            filter: Vec::new(),
            is_by_id: false,
        }
    }

    /// The number of its bounds.
    pub(crate) fn bounds(&self) -> usize {
        usize::from(self.low.is_some()) + usize::from(self.high.is_some())
    }
}

/// A condition on a field of an index: it equals a value, or one of the elements of an array.
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
    /// The document, or its key.
    pub(crate) document: Code,
    pub(crate) with: Option<Code>,
    pub(crate) options: WriteOptions,
    pub(crate) old: Slot,
    pub(crate) new: Slot,
}

/// An upsert for each row: an insert, or an update of the document that is found.
#[derive(Clone, Debug)]
pub(crate) struct Upsert {
    pub(crate) collection: Collection,
    /// The subquery that finds the document; it returns documents.
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

    /// True if it only computes a value for each row, or removes rows.
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

    /// True if one of its expressions calls a function whose purpose is to end the query.
    pub(crate) fn may_fail(&self) -> bool {
        let mut may_fail = false;
        self.for_each_code(&mut |code| may_fail |= code.may_fail());
        may_fail
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

/// A grouping of rows.
#[derive(Clone, Debug)]
pub(crate) struct Collect {
    /// The expressions whose values are equal for all rows of a group.
    pub(crate) groups: Vec<(Slot, Code)>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// The variable for all rows of a group.
    pub(crate) into: Option<(Slot, IntoProjection)>,
    /// The variable for the number of rows of a group.
    pub(crate) count: Option<Slot>,
}

/// The part of each row that `INTO` keeps.
#[derive(Clone, Debug)]
pub(crate) enum IntoProjection {
    Variables(Vec<(String, Code)>),
    Value(Code),
}

/// An aggregate over all rows of a group.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) slot: Slot,
    pub(crate) aggregator: Aggregator,
    pub(crate) code: Code,
}

impl Collect {
    fn slots_set(&self) -> Vec<Slot> {
        let groups = self.groups.iter().map(|(slot, _)| *slot);
        let aggregates = self.aggregates.iter().map(|aggregate| aggregate.slot);
        let others = self.into.iter().map(|(slot, _)| *slot).chain(self.count);
        groups.chain(aggregates).chain(others).collect()
    }

    fn for_each_code<'a>(&'a self, visit: &mut dyn FnMut(&'a Code)) {
        self.groups.iter().for_each(|(_, code)| visit(code));
        self.aggregates.iter().for_each(|aggregate| visit(&aggregate.code));
        match &self.into {
            Some((_, IntoProjection::Variables(variables))) => {
                variables.iter().for_each(|(_, code)| visit(code));
            }
            Some((_, IntoProjection::Value(code))) => visit(code),
            None => {}
        }
    }
}
