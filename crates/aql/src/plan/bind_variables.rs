//! The bind variables of a query during its planning.

use pellucid_value::{Kind, Ref, Value};

use crate::tree::{Code, Slot};
use crate::{ParsedQuery, QueryError, Result, number};

/// The given values. For a plan that is to be reused, also how it depends on them.
pub(super) struct BindVariables<'a> {
    given: &'a Value,
    dependence: Option<Dependence>,
}

/// The dependence of a plan on bind variables.
#[derive(Debug, Default)]
pub(super) struct Dependence {
    /// The bind variables that are variables of the plan. They are set before the first row.
    pub(super) parameters: Vec<(Slot, String)>,
    /// The bind variables whose values are part of the plan, and must be the same at each use.
    pub(super) fixed: Vec<(String, Value)>,
    /// True if something in the query does not allow the plan to be reused.
    pub(super) is_once: bool,
}

impl<'a> BindVariables<'a> {
    pub(super) fn new(given: &'a Value, serves_again: bool) -> Self {
        Self { given, dependence: serves_again.then(Dependence::default) }
    }

    /// Checks that each bind variable of the query has a value, and that there are no others.
    pub(super) fn check(&self, parsed: &ParsedQuery) -> Result<()> {
        let given = match self.given.view() {
            Ref::Null => None,
            Ref::Object(given) => Some(given),
            _ => {
                let message = "bind parameters must be an object";
                return Err(QueryError::new(number::BIND_PARAMETERS_INVALID, message));
            }
        };
        let is_unknown = |(name, _): &(&str, Ref<'_>)| !parsed.bind_names().contains(*name);
        if let Some((name, _)) = given.and_then(|given| given.iter().find(is_unknown)) {
            let message = format!("bind parameter '{name}' was not declared in the query");
            return Err(QueryError::new(number::BIND_PARAMETER_UNDECLARED, message));
        }
        let is_bound = |name: &str| given.is_some_and(|given| given.get(name).is_some());
        let missing = parsed.bind_names().iter().find(|name| !is_bound(name));
        let Some(name) = missing else { return Ok(()) };
        let message = format!("no value specified for declared bind parameter '{name}'");
        Err(QueryError::new(number::BIND_PARAMETER_MISSING, message))
    }

    /// The value of a bind variable that becomes part of the plan.
    pub(super) fn fix(&mut self, name: &str) -> Value {
        let value = self.given.attribute(name);
        if let Some(dependence) = &mut self.dependence {
            dependence.fixed.push((name.to_owned(), value.clone()));
        }
        value
    }

    /// The name of a bound collection, which becomes part of the plan. `name` begins with `@`.
    pub(super) fn fix_collection(&mut self, name: &str) -> Result<String> {
        match self.fix(name).as_str() {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(wrong_type(name)),
        }
    }

    /// Notes that the plan cannot be reused.
    pub(super) fn serve_once(&mut self) {
        if let Some(dependence) = &mut self.dependence {
            dependence.is_once = true;
        }
    }

    /// The slot of a bind variable as a variable of the plan; `add` makes a new one. `None` if the
    /// plan is not to be reused, or if the plan would depend on the type of the value.
    pub(super) fn parameter(&mut self, name: &str, add: impl FnOnce() -> Slot) -> Option<Slot> {
        let dependence = self.dependence.as_mut()?;
        if !is_simple(&self.given.attribute(name)) {
            return None;
        }
        if let Some((slot, _)) = dependence.parameters.iter().find(|(_, known)| known == name) {
            return Some(*slot);
        }
        let slot = add();
        dependence.parameters.push((slot, name.to_owned()));
        Some(slot)
    }

    /// True if an expression is a bind variable that is a variable of the plan, so it is never
    /// null.
    pub(super) fn is_parameter(&self, code: &Code) -> bool {
        let Code::Path(slot, names) = code else { return false };
        let mut slots = self.dependence.iter().flat_map(|dependence| &dependence.parameters);
        names.is_empty() && slots.any(|(own, _)| own == slot)
    }

    pub(super) fn into_dependence(self) -> Option<Dependence> {
        self.dependence
    }
}

/// True for values that a plan treats alike, so that one can replace another.
pub(super) fn is_simple(value: &Value) -> bool {
    matches!(value.kind(), Kind::Bool | Kind::Number | Kind::String)
}

pub(super) fn wrong_type(name: &str) -> QueryError {
    let message = format!("bind parameter '{name}' has an invalid value or type");
    QueryError::new(number::BIND_PARAMETER_TYPE, message)
}
