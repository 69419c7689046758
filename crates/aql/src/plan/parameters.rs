//! Plans that serve again for other values of their bind variables.
//!
//! A bind variable that is compared with something can be a variable of the plan, which has its
//! value before the first row. What else depends on bind variables is part of the plan, and has to
//! be the same the next time.

use pellucid_value::{Kind, Value};

use super::{NodeKind, Plan};
use crate::Source;
use crate::evaluate::{Code, Slot};
use crate::parse::ast::{Binary, Expression, Unary};

use super::Match;
use super::build::Builder;
use crate::QueryError;

/// The bind variables of a plan that is to serve again, while it is made.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    /// Those that are variables of the plan.
    pub(super) slots: Vec<(Slot, String)>,
    /// Those that the plan depends on.
    fixed: Vec<(String, Value)>,
    /// Something in the query lets its plan serve but once.
    is_once: bool,
}

impl Builder<'_> {
    /// Takes note that the plan depends on a bind variable.
    pub(super) fn fix(&mut self, name: &str) -> Value {
        let value = self.bind_variables.attribute(name);
        if let Some(parameters) = &mut self.parameters {
            parameters.fixed.push((name.to_owned(), value.clone()));
        }
        value
    }

    /// Takes note that the plan serves but once.
    pub(super) fn serve_once(&mut self) {
        if let Some(parameters) = &mut self.parameters {
            parameters.is_once = true;
        }
    }

    /// An operand of an operator: a bind variable becomes a variable of a plan that is to serve
    /// again after comparisons with other values.
    pub(super) fn operand(
        &mut self,
        operator: Binary,
        operand: &Expression,
    ) -> Result<Code, QueryError> {
        use Binary::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        let compares =
            matches!(operator, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual);
        if let Expression::Bind(name) = operand
            && compares
            && self.parameters.is_some()
            && is_simple(&self.bind_variables.attribute(name))
        {
            return Ok(Code::Path(self.parameter(name), Vec::new()));
        }
        self.expression(operand)
    }

    fn parameter(&mut self, name: &str) -> Slot {
        let slots = self.parameters.iter().flat_map(|parameters| &parameters.slots);
        if let Some((slot, _)) = slots.into_iter().find(|(_, known)| known == name) {
            return *slot;
        }
        let slot = self.slot(None);
        if let Some(parameters) = &mut self.parameters {
            parameters.slots.push((slot, name.to_owned()));
        }
        slot
    }

    /// True if an expression is a bind variable that is never null.
    pub(super) fn is_parameter(&self, code: &Code) -> bool {
        let Code::Path(slot, names) = code else { return false };
        let mut slots = self.parameters.iter().flat_map(|parameters| &parameters.slots);
        names.is_empty() && slots.any(|(own, _)| own == slot)
    }
}

/// True if one such value can take the place of another one in a plan.
fn is_simple(value: &Value) -> bool {
    matches!(value.kind(), Kind::Bool | Kind::Number | Kind::String)
}

/// The time at which a plan serves again.
#[derive(Debug)]
pub(crate) struct Reuse {
    fixed: Vec<(String, Value)>,
    /// The collections, and what [`Source::version`] said of them.
    versions: Vec<(String, u64)>,
    /// Bind variables that the query has.
    names: usize,
}

impl Reuse {
    /// The conditions under which a plan serves again, if it does.
    pub(super) fn of(plan: &Plan, parameters: Parameters, source: &dyn Source) -> Option<Reuse> {
        let Parameters { fixed, is_once, .. } = parameters;
        let can_compare =
            |(_, value): &(String, Value)| matches!(value, Value::String(_) | Value::Int(_));
        if is_once || !plan.warnings.is_empty() || !fixed.iter().all(can_compare) {
            return None;
        }
        let names = plan.collections.iter().map(|(collection, _)| &collection.name);
        let versions = names.map(|name| Some((name.clone(), source.version(name)?)));
        let versions = versions.collect::<Option<_>>()?;
        // Each bind variable is one of the two, or both.
        let mut names: Vec<&str> = fixed.iter().map(|(name, _)| name.as_str()).collect();
        names.extend(plan.parameters.iter().map(|(_, name)| name.as_str()));
        names.sort_unstable();
        names.dedup();
        let names = names.len();
        Some(Reuse { fixed, versions, names })
    }

    /// True if the plan serves for these values, and on the collections as they are.
    pub(crate) fn serves(&self, plan: &Plan, binds: &Value, source: &dyn Source) -> bool {
        let is_same = |(name, value): &(String, Value)| match (value, &binds.attribute(name)) {
            (Value::String(one), Value::String(other)) => one.as_str() == other.as_str(),
            (Value::Int(one), Value::Int(other)) => one == other,
            _ => false,
        };
        let is_version = |(name, version): &(String, u64)| source.version(name) == Some(*version);
        let is_given = |(_, name): &(Slot, String)| is_simple(&binds.attribute(name));
        let given = binds.view().as_object().map_or(0, |given| given.len());
        // None may be given beside those.
        self.names == given
            && self.fixed.iter().all(is_same)
            && plan.parameters.iter().all(is_given)
            && self.versions.iter().all(is_version)
    }
}

impl Plan {
    /// True if the query looks up one place of one index and does nothing with the documents that
    /// could take long: then it may be run on a thread that must not be held up, within the bounds
    /// of [`QueryOptions::is_light`](crate::QueryOptions::is_light).
    #[must_use]
    pub fn is_light(&self) -> bool {
        let mut loops = 0;
        let is_light = |kind: &NodeKind| match kind {
            NodeKind::Singleton
            | NodeKind::Return { is_distinct: false, .. }
            | NodeKind::Limit { .. }
            | NodeKind::Filter { .. }
            | NodeKind::Calculation { .. } => true,
            NodeKind::Index(access) => {
                loops += 1;
                let is_equal = |found: &Match| matches!(found, Match::Equal(_));
                let bounds = access.low.is_some() || access.high.is_some();
                !access.matches.is_empty() && access.matches.iter().all(is_equal) && !bounds
            }
            _ => false,
        };
        let mut is_quick = self.pipeline.nodes.iter().map(|node| &node.kind).all(is_light);
        self.pipeline.nodes.iter().for_each(|node| {
            node.kind.for_each_code(&mut |code| code.walk(&mut |part| is_quick &= is_short(part)));
        });
        is_quick && loops == 1
    }
}

/// True if an expression takes no longer than its operands are long.
fn is_short(code: &Code) -> bool {
    match code {
        Code::Constant(_) | Code::Path(..) | Code::Attribute(..) | Code::Array(_) => true,
        Code::Object(_) | Code::Ternary(_) | Code::Element(..) => true,
        Code::Unary(operator, _) => matches!(operator, Unary::Not | Unary::Plus | Unary::Minus),
        Code::Binary(operator, _) => !matches!(
            operator,
            Binary::Like | Binary::NotLike | Binary::Regex | Binary::NotRegex | Binary::Range
        ),
        _ => false,
    }
}
