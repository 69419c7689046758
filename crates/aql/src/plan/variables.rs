//! The variables of a plan.

use crate::tree::Slot;

/// The names of the variables in their slots; those without are the planner's own.
#[derive(Debug, Default)]
pub(crate) struct Variables(Vec<Option<String>>);

impl Variables {
    /// A slot for a value.
    pub(super) fn add(&mut self, name: Option<&str>) -> Slot {
        self.0.push(name.map(str::to_owned));
        self.0.len() - 1
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The name of a variable, or the number of its slot.
    pub(super) fn name_of(&self, slot: Slot) -> String {
        match self.0.get(slot) {
            Some(Some(name)) => name.clone(),
            _ => slot.to_string(),
        }
    }
}
