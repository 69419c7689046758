//! Elements and members one after another, without a list of them.

use crate::{ArrayRef, Ref, Text, Value};

impl Value {
    /// The elements of an array, each a part of it where it is packed; none if this is no array.
    pub fn each(&self) -> impl Iterator<Item = Self> + '_ {
        let array = self.view().as_array();
        let length = array.map_or(0, ArrayRef::len);
        (0..length).map(move |place| match (self, array) {
            (Self::Array(elements), _) => elements.get(place).cloned().unwrap_or_default(),
            (Self::Packed(node), Some(array)) => {
                Self::of_reference(node, array.get(place).unwrap_or(Ref::Null))
            }
            _ => Self::Null,
        })
    }

    /// The members of an object as they were inserted, or by name if `sorted`; none if this is no
    /// object.
    pub fn each_member(&self, sorted: bool) -> impl Iterator<Item = (Text, Self)> + '_ {
        let built = match self {
            Self::Object(object) => Some(object),
            _ => None,
        };
        let packed = match (self, self.view()) {
            (Self::Packed(node), Ref::Object(object)) => Some((node, object)),
            _ => None,
        };
        let built = built.into_iter().flat_map(move |object| {
            let member = move |place| object.member(place, sorted);
            (0..object.len()).filter_map(member).map(|(name, value)| (name.clone(), value.clone()))
        });
        let packed = packed.into_iter().flat_map(move |(node, object)| {
            let members = if sorted { object.sorted() } else { object.iter() };
            members.map(move |(name, part)| {
                (Text::part(node.part(name.as_bytes())), Self::of_reference(node, part))
            })
        });
        built.chain(packed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::samples::values;
    use crate::{Text, Value};

    proptest! {
        #[test]
        fn they_are_what_lists_of_them_are(value in values()) {
            for value in [Value::open(&value.to_packed().unwrap()).unwrap(), value] {
                prop_assert_eq!(value.each().collect::<Vec<_>>(), value.elements());
                for sorted in [false, true] {
                    let members: Vec<(Text, Value)> = value.each_member(sorted).collect();
                    prop_assert_eq!(members, value.members(sorted));
                }
            }
        }
    }
}
