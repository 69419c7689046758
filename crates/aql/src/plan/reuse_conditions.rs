//! Reuse of plans for other values of their bind variables.
//!
//! A bind variable that is only compared can be a variable of the plan, which is set before the
//! first row. The values of all other bind variables are part of the plan, and must be the same
//! when it is reused.

use std::collections::BTreeSet;

use pellucid_value::Value;

use super::bind_variables::{Dependence, is_simple};
use crate::Source;
use crate::tree::Slot;

/// The conditions under which a plan can be reused.
#[derive(Debug)]
pub(crate) struct ReuseConditions {
    /// The bind variables that are variables of the plan.
    parameters: Vec<String>,
    /// The bind variables that are part of the plan, with their values.
    fixed: Vec<(String, Value)>,
    /// The collections, with their versions by [`Source::version`].
    versions: Vec<(String, u64)>,
    /// The number of the query's bind variables.
    names: usize,
}

impl ReuseConditions {
    /// The conditions under which a plan on these collections can be reused; `None` if it cannot.
    pub(super) fn of<'a>(
        dependence: Dependence,
        collections: impl Iterator<Item = &'a str>,
        source: &dyn Source,
    ) -> Option<Self> {
        let Dependence { parameters, fixed, is_once } = dependence;
        let can_compare =
            |(_, value): &(String, Value)| matches!(value, Value::String(_) | Value::Int(_));
        if is_once || !fixed.iter().all(can_compare) {
            return None;
        }
        let versions = collections.map(|name| Some((name.to_owned(), source.version(name)?)));
        let versions = versions.collect::<Option<_>>()?;
        let parameters: Vec<_> = parameters.into_iter().map(|(_, name): (Slot, _)| name).collect();
        // Each bind variable is a parameter or fixed, or both.
        let fixed_names = fixed.iter().map(|(name, _)| name);
        let names: BTreeSet<_> = fixed_names.chain(&parameters).collect();
        let names = names.len();
        Some(Self { parameters, fixed, versions, names })
    }

    /// True if the plan fits these values and the present versions of the collections.
    pub(crate) fn serves(&self, binds: &Value, source: &dyn Source) -> bool {
        let is_same = |(name, value): &(String, Value)| match (value, &binds.attribute(name)) {
            (Value::String(one), Value::String(other)) => one.as_str() == other.as_str(),
            (Value::Int(one), Value::Int(other)) => one == other,
            _ => false,
        };
        let is_version = |(name, version): &(String, u64)| source.version(name) == Some(*version);
        let given = binds.view().as_object().map_or(0, |given| given.len());
        // There must be no other bind variables.
        self.names == given
            && self.fixed.iter().all(is_same)
            && self.parameters.iter().all(|name| is_simple(&binds.attribute(name)))
            && self.versions.iter().all(is_version)
    }
}
