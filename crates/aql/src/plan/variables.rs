//! The variables of a plan.

use crate::tree::Slot;

/// The names of the variables by slot. Variables without a name are made by the planner.
#[derive(Debug, Default)]
pub(crate) struct Variables(Vec<Option<String>>);

impl Variables {
    /// Adds a variable, and returns its slot.
    pub(super) fn add(&mut self, name: Option<&str>) -> Slot {
        self.0.push(name.map(str::to_owned));
        self.0.len() - 1
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The name of a variable; the number of its slot if it has none.
    pub(super) fn name_of(&self, slot: Slot) -> String {
        match self.0.get(slot) {
            Some(Some(name)) => name.clone(),
            _ => slot.to_string(),
        }
    }
}
