//! Expressions as they are computed: names are resolved to slots of a row, and attributes are read
//! where they lie.

mod compute;
mod operators;
mod regular;
mod show;

use std::sync::Arc;

use pellucid_value::{Ref, Value};

pub(crate) use operators::{compare_by, like, like_prefix, range_bounds};
pub(crate) use regular::{Matches, captures, is_match};
pub(crate) use show::text_of;

use crate::CollectionId;
use crate::functions::Function;
use crate::parse::ast::{Binary, Unary};
use crate::plan::Pipeline;

/// A place in a row.
pub(crate) type Slot = usize;

/// A row: a value for each variable of the query, null where it is not set yet.
pub(crate) type Row = Box<[Value]>;

/// The number of elements that of an array must hold.
#[derive(Clone, Debug)]
pub(crate) enum Quantity {
    All,
    Any,
    None,
    AtLeast(Code),
}

/// An expression that is ready.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    Constant(Value),
    /// A variable, and the names of attributes within it.
    Path(Slot, Vec<Arc<str>>),
    /// `CURRENT` at this depth of brackets.
    Local(usize),
    Attribute(Box<Code>, Arc<str>),
    Element(Box<Code>, Box<Code>),
    Expansion(Box<Expansion>),
    Question(Box<Question>),
    Call(&'static Function, Vec<Code>),
    Unary(Unary, Box<Code>),
    Binary(Binary, Box<(Code, Code)>),
    Quantified {
        quantity: Box<Quantity>,
        operator: Binary,
        operands: Box<(Code, Code)>,
    },
    Ternary(Box<(Code, Option<Code>, Code)>),
    Array(Vec<Code>),
    Object(Vec<(Name, Code)>),
    Subquery(Arc<Pipeline>),
    /// The number of documents that a collection has.
    CollectionCount(CollectionId, Arc<str>),
    /// All documents of a collection, as a value.
    CollectionContents(CollectionId, Arc<str>),
}

/// The name of a member.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    Fixed(Arc<str>),
    Computed(Code),
}

/// `[* …]`.
#[derive(Clone, Debug)]
pub(crate) struct Expansion {
    pub(crate) list: Code,
    pub(crate) levels: usize,
    pub(crate) filter: Option<Code>,
    pub(crate) limit: Option<(Code, Code)>,
    pub(crate) projection: Option<Code>,
}

/// `[? …]`.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) list: Code,
    pub(crate) quantity: Option<Quantity>,
    pub(crate) count: Option<Code>,
    pub(crate) filter: Option<Code>,
}

impl Code {
    /// The value, if it is known before the query runs.
    pub(crate) fn constant(&self) -> Option<&Value> {
        match self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The value where it lies, for what need not be computed.
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

    /// Calls `visit` with this expression and all within it, but not those of subqueries.
    pub(crate) fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Code)) {
        visit(self);
        self.for_each_operand(&mut |operand| operand.walk(visit));
    }

    /// Calls `visit` with each expression directly within this one, but not those of subqueries.
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
                if let Some(Quantity::AtLeast(count)) = &question.quantity {
                    visit(count);
                }
                question.count.iter().chain(&question.filter).for_each(visit);
            }
            Self::Call(_, arguments) | Self::Array(arguments) => arguments.iter().for_each(visit),
            Self::Binary(_, operands) => {
                visit(&operands.0);
                visit(&operands.1);
            }
            Self::Quantified { quantity, operands, .. } => {
                if let Quantity::AtLeast(count) = quantity.as_ref() {
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

    /// The variables that it reads, those of its subqueries too.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        self.walk(&mut |code| match code {
            Self::Path(slot, _) => slots.push(*slot),
            Self::Subquery(pipeline) => slots.extend(pipeline.slots_read()),
            _ => {}
        });
        slots
    }

    /// True if computing it twice, or earlier, or not at all makes no difference.
    pub(crate) fn is_pure(&self) -> bool {
        let mut is_pure = true;
        self.walk(&mut |code| match code {
            Self::Call(function, _) => is_pure &= function.is_pure,
            Self::Subquery(_) => is_pure = false,
            _ => {}
        });
        is_pure
    }
}
