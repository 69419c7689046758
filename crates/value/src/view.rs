//! Reading of owned values and of their parts.

use crate::packed::{self, Damage};
use crate::{ArrayRef, Kind, LimitError, ObjectRef, Ref, SharedBytes, Text, Value, json};

impl Value {
    /// Opens a copy of a stored packed document. Only its first bytes are checked.
    ///
    /// # Errors
    /// If the format is unknown or the bytes are cut off.
    pub fn open(document: &[u8]) -> Result<Self, Damage> {
        let node = packed::node_of(document)?;
        Ok(Self::of_reference(&SharedBytes::copy(node), Ref::of_node(node)))
    }

    /// Makes a value of `part` that shares the memory of `shared` if `part` is in it.
    #[must_use]
    pub fn of_reference(shared: &SharedBytes, part: Ref<'_>) -> Self {
        match part {
            Ref::String(text) => Self::String(Text::part(shared.part(text.as_bytes()))),
            Ref::Array(ArrayRef::Packed(array)) => Self::Packed(shared.part(array.node())),
            Ref::Object(ObjectRef::Packed(object)) => Self::Packed(shared.part(object.node())),
            other => other.to_value(),
        }
    }

    /// The reference through which the value is read.
    #[must_use]
    pub fn view(&self) -> Ref<'_> {
        self.into()
    }

    /// Its type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.view().kind()
    }

    /// The attribute of that name; null if there is none or this is no object.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Self {
        match self {
            Self::Object(object) => object.get(name).cloned().unwrap_or_default(),
            Self::Packed(node) => Self::of_reference(node, self.view().attribute(name)),
            _ => Self::Null,
        }
    }

    /// The element at this index, counted from the end if it is negative; null if there is none or
    /// this is no array.
    #[must_use]
    pub fn element(&self, place: i64) -> Self {
        let Some(array) = self.view().as_array() else { return Self::Null };
        let length = i64::try_from(array.len()).unwrap_or(i64::MAX);
        let place = if place < 0 { place.saturating_add(length) } else { place };
        match usize::try_from(place) {
            Ok(place) => self.nth(place),
            Err(_) => Self::Null,
        }
    }

    /// The element at this index; null if there is none or this is no array.
    #[must_use]
    pub fn nth(&self, place: usize) -> Self {
        match self {
            Self::Array(elements) => elements.get(place).cloned().unwrap_or_default(),
            Self::Packed(node) => {
                let array = self.view().as_array();
                let part = array.and_then(|array| array.get(place)).unwrap_or(Ref::Null);
                Self::of_reference(node, part)
            }
            _ => Self::Null,
        }
    }

    /// The elements of an array, which share its memory if it is packed; none if this is no array.
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

    /// The members of an object in the order of insertion, or sorted by name if `sorted`; none if
    /// this is no object.
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

    /// All elements of [`Self::each`].
    #[must_use]
    pub fn elements(&self) -> Vec<Self> {
        self.each().collect()
    }

    /// Converts the value to a packed document.
    ///
    /// # Errors
    /// If it is deeper or larger than the limits.
    pub fn to_packed(&self) -> Result<Vec<u8>, LimitError> {
        let mut builder = packed::Builder::new();
        builder.value(self.view());
        builder.finish()
    }

    /// The value as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::to_string(self.view())
    }

    /// True if it counts as true: all but null, false, 0 and the empty string do.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.view().is_true()
    }
}

/// Equal by AQL's rules; see [`crate::equal`].
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        crate::equal(self.view(), other.view())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::samples::values;
    use crate::{Ref, Text, Value};

    proptest! {
        #[test]
        fn parts_are_those_of_the_view(value in values()) {
            for value in [Value::open(&value.to_packed().unwrap()).unwrap(), value] {
                let array = value.view().as_array();
                let parts = array.into_iter().flat_map(|array| array.iter());
                prop_assert_eq!(value.elements(), parts.map(Ref::to_value).collect::<Vec<_>>());
                for sorted in [false, true] {
                    let object = value.view().as_object();
                    let object: Option<Vec<_>> = object.map(|object| {
                        let members = if sorted { object.sorted() } else { object.iter() };
                        members.map(|(name, part)| (Text::from(name), part.to_value())).collect()
                    });
                    let members: Vec<_> = value.each_member(sorted).collect();
                    prop_assert_eq!(members, object.unwrap_or_default());
                }
            }
        }
    }
}
