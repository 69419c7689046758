//! References through which values of any form are read.

use std::sync::Arc;

use crate::packed::{Container, PackedArray, PackedObject, fixed, string_at, tag, text_of};
use crate::{Array, Kind, Number, Object, SharedBytes, Text, Value};

/// A reference to a value of any form.
#[derive(Clone, Copy, Debug, Default)]
pub enum Ref<'a> {
    /// `null`; damaged bytes are read as null as well.
    #[default]
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
    /// An array in packed bytes.
    Packed(PackedArray<'a>),
    /// An array that was built in memory.
    Built(&'a Arc<Array>),
}

/// The members of an object.
#[derive(Clone, Copy, Debug)]
pub enum ObjectRef<'a> {
    /// An object in packed bytes.
    Packed(PackedObject<'a>),
    /// An object that was built in memory.
    Built(&'a Arc<Object>),
}

impl<'a> Ref<'a> {
    /// Decodes the node at the front of `node`; null if it is damaged.
    #[must_use]
    pub(crate) fn of_node(node: &'a [u8]) -> Self {
        Self::decode(node).unwrap_or(Ref::Null)
    }

    fn decode(node: &'a [u8]) -> Option<Self> {
        let first = *node.first()?;
        Some(match first {
            tag::SHORT_STRING..=tag::SHORT_STRING_END | tag::STRING => {
                Ref::String(text_of(string_at(node)?.0)?)
            }
            tag::FALSE => Ref::Bool(false),
            tag::TRUE => Ref::Bool(true),
            tag::INT_1 => int(i64::from(i8::from_le_bytes(fixed(node)?))),
            tag::INT_2 => int(i64::from(i16::from_le_bytes(fixed(node)?))),
            tag::INT_4 => int(i64::from(i32::from_le_bytes(fixed(node)?))),
            tag::INT_8 => int(i64::from_le_bytes(fixed(node)?)),
            tag::UINT_8 => {
                let value = u64::from_le_bytes(fixed(node)?);
                Ref::Number(i64::try_from(value).map_or(Number::Uint(value), Number::Int))
            }
            tag::DOUBLE => {
                let value = f64::from_le_bytes(fixed(node)?);
                if !value.is_finite() {
                    return None;
                }
                Ref::Number(Number::Double(value))
            }
            _ => match Container::open(node)? {
                table if table.is_object => Ref::Object(ObjectRef::Packed(PackedObject(table))),
                table => Ref::Array(ArrayRef::Packed(PackedArray(table))),
            },
        })
    }

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

    /// Makes an owned value. Packed bytes are copied; a built array or object is shared.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::number(number),
            Self::String(text) => Value::String(Text::from(text)),
            Self::Array(ArrayRef::Built(elements)) => Value::Array(Arc::clone(elements)),
            Self::Object(ObjectRef::Built(object)) => Value::Object(Arc::clone(object)),
            Self::Array(ArrayRef::Packed(array)) => Value::Packed(SharedBytes::copy(array.node())),
            Self::Object(ObjectRef::Packed(object)) => {
                Value::Packed(SharedBytes::copy(object.node()))
            }
        }
    }
}

fn int<'a>(value: i64) -> Ref<'a> {
    Ref::Number(Number::Int(value))
}

impl<'a> From<&'a Value> for Ref<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Ref::Null,
            Value::Bool(value) => Ref::Bool(*value),
            Value::Int(value) => Ref::Number(Number::Int(*value)),
            Value::Uint(value) => Ref::Number(Number::Uint(*value)),
            Value::Double(value) => Ref::Number(Number::Double(*value)),
            Value::String(text) => Ref::String(text),
            Value::Array(elements) => Ref::Array(ArrayRef::Built(elements)),
            Value::Object(object) => Ref::Object(ObjectRef::Built(object)),
            Value::Packed(node) => Ref::of_node(node),
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

    /// The element at this index.
    #[must_use]
    pub fn get(self, place: usize) -> Option<Ref<'a>> {
        match self {
            Self::Packed(array) => array.get(place).map(Ref::of_node),
            Self::Built(elements) => elements.get(place).map(Ref::from),
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
            Self::Packed(object) => object.get(name).map(Ref::of_node),
            Self::Built(object) => object.get(name).map(Ref::from),
        }
    }

    /// As [`Self::get`], for the same name in many similar objects. `place` is the index to look at
    /// first, and is set to the index at which the member was found.
    #[must_use]
    pub fn get_near(self, name: &str, place: &mut usize) -> Option<Ref<'a>> {
        match self {
            Self::Packed(object) => object.get_near(name, place).map(Ref::of_node),
            Self::Built(object) => object.get(name).map(Ref::from),
        }
    }

    /// All members in the order of their insertion.
    #[must_use]
    pub fn iter(self) -> Members<'a> {
        Members { object: self, place: 0, offset: PackedObject::FIRST, sorted: false }
    }

    /// All members sorted by name.
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
    /// The offset of the next member in packed bytes, if they are read in the order of insertion.
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
            (ObjectRef::Built(object), sorted) => {
                let (name, value) = object.member(self.place - 1, sorted)?;
                Some((name, value.into()))
            }
            (ObjectRef::Packed(object), true) => {
                object.sorted(self.place - 1).map(|(name, node)| (name, Ref::of_node(node)))
            }
            (ObjectRef::Packed(object), false) => {
                let (name, node, next) = object.member_at(self.offset)?;
                self.offset = next;
                Some((name, Ref::of_node(node)))
            }
        }
    }
}
