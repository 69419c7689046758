//! The builder of objects in memory.

use std::sync::Arc;

use crate::{DuplicateRule, LimitError, Object, Text, Value};

/// A builder that collects the members of an object.
#[derive(Debug)]
pub struct ObjectBuilder {
    /// The members in the order of their insertion, with duplicate names.
    members: Vec<(Text, Value)>,
    duplicates: DuplicateRule,
}

impl ObjectBuilder {
    /// Makes a builder that keeps the last member of a name, in the position of the first.
    #[must_use]
    pub fn new() -> Self {
        Self::with(DuplicateRule::Last)
    }

    /// Makes a builder with this rule for duplicate names. [`DuplicateRule::Refuse`] keeps the
    /// first here.
    #[must_use]
    pub fn with(duplicates: DuplicateRule) -> Self {
        Self { members: Vec::new(), duplicates }
    }

    /// Adds a member.
    pub fn insert(&mut self, name: impl Into<Text>, value: Value) {
        self.members.push((name.into(), value));
    }

    /// The member of this name so far. It searches all members.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let mut members = self.members.iter();
        let is_it = |(own, _): &&(Text, Value)| own.as_str() == name;
        let found = match self.duplicates {
            DuplicateRule::Last => members.rfind(is_it),
            _ => members.find(is_it),
        };
        found.map(|(_, value)| value)
    }

    /// Returns the object.
    ///
    /// # Errors
    /// If it would be deeper or larger than the limits.
    pub fn finish(mut self) -> Result<Value, LimitError> {
        let mut order = self.order()?;
        let name = |at: u32| self.members[at as usize].0.as_str();
        if order.windows(2).any(|pair| name(pair[0]) == name(pair[1])) {
            self.drop_duplicates(&order);
            order = self.order()?;
        }
        Object::new(self.members, order).map(|object| Value::Object(Arc::new(object)))
    }

    /// The indexes of all members sorted by name, and those of one name in the order of insertion.
    fn order(&self) -> Result<Vec<u32>, LimitError> {
        let count = u32::try_from(self.members.len()).map_err(|_| LimitError::Size)?;
        let name = |at: u32| self.members[at as usize].0.as_str();
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_unstable_by(|&left, &right| {
            name(left).cmp(name(right)).then_with(|| left.cmp(&right))
        });
        Ok(order)
    }

    /// Keeps one member for each name, in the position of the first.
    fn drop_duplicates(&mut self, order: &[u32]) {
        let mut stays = vec![false; self.members.len()];
        let mut at = 0;
        while at < order.len() {
            let name = self.members[order[at] as usize].0.clone();
            let same = |place: &&u32| self.members[**place as usize].0 == name;
            let count = order[at..].iter().take_while(same).count();
            let (first, last) = (order[at] as usize, order[at + count - 1] as usize);
            stays[first] = true;
            if self.duplicates == DuplicateRule::Last {
                self.members.swap(first, last);
            }
            at += count;
        }
        let mut stays = stays.into_iter();
        self.members.retain(|_| stays.next().unwrap_or_default());
    }
}

impl Default for ObjectBuilder {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: each name was searched among all before it and moved half of them, so that
    /// 200,000 names took minutes.
    #[test]
    fn the_time_for_many_names_and_duplicates_is_not_quadratic() {
        for duplicates in [DuplicateRule::First, DuplicateRule::Last] {
            let mut builder = ObjectBuilder::with(duplicates);
            for number in 0..400_000_i64 {
                let name = format!("{:06}", (number * 7919) % 200_000);
                builder.insert(name, Value::Int(number));
            }
            let begun = std::time::Instant::now();
            let object = builder.finish().unwrap();
            assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
            let Value::Object(object) = &object else { panic!("an object is built") };
            assert_eq!(object.len(), 200_000);
            let kept = if duplicates == DuplicateRule::First { 0 } else { 200_000 };
            assert_eq!(object.get("000000").map(Value::to_json), Some(kept.to_string()));
            assert_eq!(object.members()[1].0.as_str(), "007919");
        }
    }
}
