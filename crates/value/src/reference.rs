//! Values as they are read, whatever their form.

use std::sync::Arc;

use crate::packed::{PackedArray, PackedObject};
use crate::{Array, Kind, Number, Object, Shared, Text, Value};

/// A value that is read where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Ref<'a> {
    /// Nothing; also what damaged bytes read as.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(&'a str),
    /// An array.
    Array(ArrayRef<'a>),
    /// An object.
    Object(ObjectRef<'a>),
}

/// The elements of an array.
#[derive(Clone, Copy, Debug)]
pub enum ArrayRef<'a> {
    /// In packed bytes.
    Packed(PackedArray<'a>),
    /// In memory of its own.
    Built(&'a Arc<Array>),
}

/// The members of an object.
#[derive(Clone, Copy, Debug)]
pub enum ObjectRef<'a> {
    /// In packed bytes.
    Packed(PackedObject<'a>),
    /// In memory of its own.
    Built(&'a Arc<Object>),
}

impl<'a> Ref<'a> {
    /// Its type.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Null => Kind::Null,
            Self::Bool(_) => Kind::Bool,
            Self::Number(_) => Kind::Number,
            Self::String(_) => Kind::String,
            Self::Array(_) => Kind::Array,
            Self::Object(_) => Kind::Object,
        }
    }

    /// True if it counts as true: all but null, false, 0 and the empty string do.
    #[must_use]
    pub fn is_true(self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(value) => value,
            Self::Number(number) => !number.is_zero(),
            Self::String(text) => !text.is_empty(),
            Self::Array(_) | Self::Object(_) => true,
        }
    }

    /// The array that it is, if it is one.
    #[must_use]
    pub fn as_array(self) -> Option<ArrayRef<'a>> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The object that it is, if it is one.
    #[must_use]
    pub fn as_object(self) -> Option<ObjectRef<'a>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The string that it is, if it is one.
    #[must_use]
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The attribute of that name; null if there is none or this is no object.
    #[must_use]
    pub fn attribute(self, name: &str) -> Ref<'a> {
        self.as_object().and_then(|object| object.get(name)).unwrap_or(Ref::Null)
    }

    /// A value of its own, copied out of packed bytes.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::number(number),
            Self::String(text) => Value::String(Text::from(text)),
            Self::Array(ArrayRef::Built(elements)) => Value::Array(Arc::clone(elements)),
            Self::Object(ObjectRef::Built(object)) => Value::Object(Arc::clone(object)),
            Self::Array(ArrayRef::Packed(array)) => Value::Packed(Shared::copy(array.node())),
            Self::Object(ObjectRef::Packed(object)) => Value::Packed(Shared::copy(object.node())),
        }
    }
}

impl<'a> ArrayRef<'a> {
    /// The number of elements.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Packed(array) => array.len(),
            Self::Built(elements) => elements.len(),
        }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The element in that place.
    #[must_use]
    pub fn get(self, place: usize) -> Option<Ref<'a>> {
        match self {
            Self::Packed(array) => array.get(place),
            Self::Built(elements) => elements.get(place).map(Value::view),
        }
    }

    /// All elements in their order.
    pub fn iter(self) -> impl Iterator<Item = Ref<'a>> {
        (0..self.len()).map(move |place| self.get(place).unwrap_or(Ref::Null))
    }
}

impl<'a> ObjectRef<'a> {
    /// The number of members.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Packed(object) => object.len(),
            Self::Built(object) => object.len(),
        }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The member of that name.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Ref<'a>> {
        match self {
            Self::Packed(object) => object.get(name),
            Self::Built(object) => object.get(name).map(Value::view),
        }
    }

    /// As [`Self::get`], for the same name in many objects that are much alike: `place` says where
    /// to look first, and where the member was.
    #[must_use]
    pub fn get_near(self, name: &str, place: &mut usize) -> Option<Ref<'a>> {
        match self {
            Self::Packed(object) => object.get_near(name, place),
            Self::Built(object) => object.get(name).map(Value::view),
        }
    }

    /// All members as they were inserted.
    #[must_use]
    pub fn iter(self) -> Members<'a> {
        Members { object: self, place: 0, offset: PackedObject::FIRST, sorted: false }
    }

    /// All members by name.
    #[must_use]
    pub fn sorted(self) -> Members<'a> {
        Members { object: self, place: 0, offset: PackedObject::FIRST, sorted: true }
    }
}

/// The members of an object, one after the other.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    object: ObjectRef<'a>,
    place: usize,
    /// Of the next member in packed bytes, where they are taken as inserted.
    offset: usize,
    sorted: bool,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Ref<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.place >= self.object.len() {
            return None;
        }
        self.place += 1;
        match (self.object, self.sorted) {
            (ObjectRef::Built(object), true) => {
                object.sorted(self.place - 1).map(|(name, value)| (name, value.view()))
            }
            (ObjectRef::Built(object), false) => {
                let (name, value) = object.members().get(self.place - 1)?;
                Some((name, value.view()))
            }
            (ObjectRef::Packed(object), true) => object.sorted(self.place - 1),
            (ObjectRef::Packed(object), false) => {
                let (name, value, next) = object.member_at(self.offset)?;
                self.offset = next;
                Some((name, value))
            }
        }
    }
}
