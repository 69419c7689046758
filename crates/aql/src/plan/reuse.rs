//! Plans that serve again for other values of their bind variables.
//!
//! A bind variable that is compared with something can be a variable of the plan, which has its
//! value before the first row. What else depends on bind variables is part of the plan, and has to
//! be the same the next time.

use std::collections::BTreeSet;

use pellucid_value::Value;

use super::binds::{Dependence, is_simple};
use crate::Source;
use crate::tree::Slot;

/// The conditions under which a plan serves again.
#[derive(Debug)]
pub(crate) struct Reuse {
    /// Bind variables that are variables of the plan.
    parameters: Vec<String>,
    fixed: Vec<(String, Value)>,
    /// The collections, and what [`Source::version`] said of them.
    versions: Vec<(String, u64)>,
    /// Bind variables that the query has.
    names: usize,
}

impl Reuse {
    /// The conditions under which a plan on these collections serves again, if it does.
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
        // Each bind variable is one of the two, or both.
        let fixed_names = fixed.iter().map(|(name, _)| name);
        let names: BTreeSet<_> = fixed_names.chain(&parameters).collect();
        let names = names.len();
        Some(Self { parameters, fixed, versions, names })
    }

    /// True if the plan serves for these values, and on the collections as they are.
    pub(crate) fn serves(&self, binds: &Value, source: &dyn Source) -> bool {
        let is_same = |(name, value): &(String, Value)| match (value, &binds.attribute(name)) {
            (Value::String(one), Value::String(other)) => one.as_str() == other.as_str(),
            (Value::Int(one), Value::Int(other)) => one == other,
            _ => false,
        };
        let is_version = |(name, version): &(String, u64)| source.version(name) == Some(*version);
        let given = binds.view().as_object().map_or(0, |given| given.len());
        // None may be given beside those.
        self.names == given
            && self.fixed.iter().all(is_same)
            && self.parameters.iter().all(|name| is_simple(&binds.attribute(name)))
            && self.versions.iter().all(is_version)
    }
}
