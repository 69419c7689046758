//! Objects that a query has built: members in the order of their insertion, found by name.

use std::sync::Arc;

use crate::{Duplicates, Text, Value};

/// Members by name. Built by an [`ObjectBuilder`], never changed afterwards.
#[derive(Clone, Debug, Default)]
pub struct Object {
    members: Vec<(Text, Value)>,
    /// Places in `members`, by name.
    order: Vec<u32>,
}

impl Object {
    /// The member of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found =
            self.order.binary_search_by(|&at| self.members[at as usize].0.as_str().cmp(name));
        found.ok().map(|place| &self.members[self.order[place] as usize].1)
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// All members as they were inserted.
    #[must_use]
    pub fn members(&self) -> &[(Text, Value)] {
        &self.members
    }

    /// See [`Value::let_go`].
    pub(crate) fn let_go(&mut self) {
        for (name, value) in &mut self.members {
            name.let_go();
            value.let_go();
        }
    }

    /// The member in this place, as they were inserted, or by name if `sorted`.
    pub(crate) fn member(&self, place: usize, sorted: bool) -> Option<&(Text, Value)> {
        let place = if sorted { *self.order.get(place)? as usize } else { place };
        self.members.get(place)
    }

    /// The member that is in this place by name.
    #[must_use]
    pub fn sorted(&self, place: usize) -> Option<(&str, &Value)> {
        let (name, value) = self.members.get(*self.order.get(place)? as usize)?;
        Some((name, value))
    }
}

/// Collects members.
#[derive(Debug)]
pub struct ObjectBuilder {
    object: Object,
    duplicates: Duplicates,
}

impl ObjectBuilder {
    /// Of two members of one name the later one stays, in the place of the first.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Duplicates::Last)
    }

    /// With a rule for names that come twice; [`Duplicates::Refuse`] keeps the first here.
    #[must_use]
    pub fn with(duplicates: Duplicates) -> Self {
        Self { object: Object::default(), duplicates }
    }

    /// Adds a member.
    pub fn insert(&mut self, name: impl Into<Text>, value: Value) {
        let name = name.into();
        let Object { members, order } = &mut self.object;
        match order.binary_search_by(|&at| members[at as usize].0.as_str().cmp(&name)) {
            Ok(place) if self.duplicates == Duplicates::Last => {
                members[order[place] as usize].1 = value;
            }
            Ok(_) => {}
            Err(place) => {
                order.insert(place, u32::try_from(members.len()).unwrap_or(u32::MAX));
                members.push((name, value));
            }
        }
    }

    /// The member of that name, so far.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.object.get(name)
    }

    /// The object.
    #[must_use]
    pub fn finish(self) -> Value {
        Value::Object(Arc::new(self.object))
    }
}

impl Default for ObjectBuilder {
    fn default() -> Self {
        Self::new()
    }
}
