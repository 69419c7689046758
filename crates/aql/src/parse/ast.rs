//! The syntax tree of a query, in which names and bind variables are not resolved yet. Types with a
//! parameter `E` are also in the tree of a plan, with its expressions.

use std::sync::Arc;

use pellucid_value::Value;

/// A query or subquery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) statements: Vec<Statement>,
}

/// A statement of a query.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    For { variable: String, list: Expression, options: Option<Expression> },
    Filter(Expression),
    Let { variable: String, value: Expression },
    Sort(Vec<SortKey>),
    Limit { offset: Option<Expression>, count: Expression },
    Return { value: Expression, is_distinct: bool },
    Collect(Collect),
    Write(Write),
    Upsert(Upsert),
}

/// A key by which rows are sorted.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    pub(crate) value: Expression,
    pub(crate) direction: Direction,
}

/// The direction of a sort.
#[derive(Clone, Debug)]
pub(crate) enum Direction {
    Ascending,
    Descending,
    /// A constant expression with the direction.
    Computed(Expression),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Collect {
    pub(crate) groups: Vec<(String, Expression)>,
    pub(crate) aggregates: Vec<(String, Expression)>,
    /// `INTO name [= expression]`.
    pub(crate) into: Option<(String, Option<Expression>)>,
    pub(crate) keep: Option<Vec<String>>,
    /// `WITH COUNT INTO name`.
    pub(crate) count: Option<String>,
    pub(crate) options: Option<Expression>,
}

/// The collection that is written to.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Name(String),
    Bind(String),
}

/// `INSERT`, `UPDATE`, `REPLACE`, `REMOVE`.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) kind: crate::WriteKind,
    /// The new document, or the key of the existing one, or a document with that key.
    pub(crate) document: Expression,
    /// The expression behind `WITH`.
    pub(crate) with: Option<Expression>,
    pub(crate) target: Target,
    pub(crate) options: Option<Expression>,
}

#[derive(Clone, Debug)]
pub(crate) struct Upsert {
    pub(crate) search: UpsertSearch,
    pub(crate) insert: Expression,
    pub(crate) update: Expression,
    pub(crate) is_replace: bool,
    pub(crate) target: Target,
    pub(crate) options: Option<Expression>,
}

/// The document that an `UPSERT` looks for.
#[derive(Clone, Debug)]
pub(crate) enum UpsertSearch {
    Example(Expression),
    Filter(Expression),
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Or,
    And,
    Equal,
    NotEqual,
    Like,
    NotLike,
    Regex,
    NotRegex,
    In,
    NotIn,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Range,
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
}

impl BinaryOperator {
    /// True for comparison operators.
    pub(crate) fn compares(self) -> bool {
        use BinaryOperator::{Equal, Greater, GreaterEqual, In, Less, LessEqual, NotEqual, NotIn};
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual | In | NotIn)
    }

    /// The operator as it is written.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Like => "LIKE",
            Self::NotLike => "NOT LIKE",
            Self::Regex => "=~",
            Self::NotRegex => "!~",
            Self::In => "IN",
            Self::NotIn => "NOT IN",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Range => "..",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOperator {
    Not,
    Plus,
    Minus,
}

impl UnaryOperator {
    /// The operator as it is written.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Not => "!",
            Self::Plus => "+",
            Self::Minus => "-",
        }
    }
}

/// The number of elements of an array for which a condition must hold.
#[derive(Clone, Debug)]
pub(crate) enum Quantifier<E = Expression> {
    All,
    Any,
    None,
    AtLeast(Box<E>),
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Constant(Value),
    /// A number out of range: null, and a warning.
    OutOfRange,
    Bind(String),
    CollectionBind(String),
    /// A variable, or else a collection.
    Name(String),
    /// The element within brackets, whatever variables there are: what follows `[*]` is read of it.
    Current,
    Attribute(Box<Expression>, Arc<str>),
    /// `value.@name`.
    AttributeBind(Box<Expression>, String),
    Element(Box<Expression>, Box<Expression>),
    Expansion(Box<Expansion>),
    /// `[? …]`.
    Question(Box<ArrayPredicate>),
    Call {
        name: String,
        arguments: Vec<Expression>,
    },
    Unary(UnaryOperator, Box<Expression>),
    Binary(BinaryOperator, Box<Expression>, Box<Expression>),
    Quantified {
        quantifier: Quantifier,
        operator: BinaryOperator,
        operands: Box<(Expression, Expression)>,
    },
    /// `condition ? middle : else`. Without a middle, the value of a true condition is the result.
    Ternary(Box<(Expression, Option<Expression>, Expression)>),
    Array(Vec<Expression>),
    Object(Vec<Member>),
    Subquery(Box<Query>),
}

/// `[* …]`, with the attributes and elements that follow it.
#[derive(Clone, Debug)]
pub(crate) struct Expansion<E = Expression> {
    pub(crate) list: E,
    /// The number of stars: the levels of nested arrays that are flattened.
    pub(crate) levels: usize,
    pub(crate) filter: Option<E>,
    pub(crate) limit: Option<(E, E)>,
    /// The expression for each element, in terms of [`CURRENT`]. It includes what follows the
    /// brackets.
    pub(crate) projection: Option<E>,
}

/// `[? quantifier FILTER …]`.
#[derive(Clone, Debug)]
pub(crate) struct ArrayPredicate<E = Expression> {
    pub(crate) list: E,
    /// The number of question marks: the levels of nested arrays that are flattened.
    pub(crate) levels: usize,
    pub(crate) quantifier: Option<Quantifier<E>>,
    /// `[? 2..3 FILTER …]`, or a single number.
    pub(crate) count: Option<E>,
    pub(crate) filter: Option<E>,
}

/// The pseudo-variable that stands for the element within brackets, and outside of them for the
/// document of `UPSERT FILTER`.
pub(crate) const CURRENT: &str = "CURRENT";

/// A member of an object literal.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: MemberName,
    pub(crate) value: Expression,
}

#[derive(Clone, Debug)]
pub(crate) enum MemberName {
    Fixed(String),
    Computed(Expression),
}
