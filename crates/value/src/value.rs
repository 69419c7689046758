//! Owned values: results of expressions, and the contents of rows.

use std::ops::Deref;
use std::sync::Arc;

use crate::extent::{Extent, LimitError};
use crate::packed::{DEPTH_MAX, depth};
use crate::text::ARC_BYTES;
use crate::{Number, SharedBytes, Text};

/// A value. A clone copies at most one reference.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number in the signed range.
    Int(i64),
    /// A whole number above the signed range.
    Uint(u64),
    /// Any other number.
    Double(f64),
    /// A string.
    String(Text),
    /// An array that was built.
    Array(Arc<Array>),
    /// An object that was built.
    Object(Arc<Object>),
    /// An array or object in packed bytes: exactly its node.
    Packed(SharedBytes),
}

impl Value {
    /// An array.
    ///
    /// # Errors
    /// If it would be deeper or larger than the limits.
    pub fn array(elements: Vec<Self>) -> Result<Self, LimitError> {
        Array::new(elements).map(|array| Self::Array(Arc::new(array)))
    }

    /// The levels of nested arrays and objects, counted up to one more than [`DEPTH_MAX`], which
    /// only damaged bytes have.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            Self::Array(array) => array.extent.depth(),
            Self::Object(object) => object.extent.depth(),
            Self::Packed(node) => depth(node),
            _ => 0,
        }
    }

    /// Makes a value of a number; null for a NaN or infinite double.
    #[must_use]
    pub fn number(number: Number) -> Self {
        match number {
            Number::Int(value) => Self::Int(value),
            Number::Uint(value) => i64::try_from(value).map_or(Self::Uint(value), Self::Int),
            Number::Double(value) if value.is_finite() => Self::Double(value),
            Number::Double(_) => Self::Null,
        }
    }

    /// Makes a value of a count.
    #[must_use]
    pub fn count(count: usize) -> Self {
        i64::try_from(count).map_or(Self::Null, Self::Int)
    }

    /// The bytes of memory of this value, for the limits of a query. A part that occurs several
    /// times is counted each time.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::String(text) => text.size_bytes(),
                Self::Array(array) => ARC_BYTES + size_of::<Array>() + array.extent.bytes(),
                Self::Object(object) => ARC_BYTES + size_of::<Object>() + object.extent.bytes(),
                Self::Packed(node) => ARC_BYTES + node.len(),
                _ => 0,
            }
    }

    /// As [`size_bytes`](Self::size_bytes), but an array or object that is shared counts only as a
    /// reference. It is for values that are passed on, and are counted where they are kept.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        let is_shared = match self {
            Self::Array(elements) => Arc::strong_count(elements) > 1,
            Self::Object(object) => Arc::strong_count(object) > 1,
            _ => false,
        };
        if is_shared { size_of::<Self>() } else { self.size_bytes() }
    }

    /// Copies parts of large documents, so that the value does not keep the whole documents in
    /// memory. It is for values that outlive the documents that they were read from. Shared arrays
    /// and objects are not changed.
    pub fn let_go(&mut self) {
        match self {
            Self::String(text) => text.let_go(),
            Self::Packed(node) if node.is_wasteful() => *node = SharedBytes::copy(node),
            Self::Array(array) => {
                if let Some(array) = Arc::get_mut(array) {
                    array.let_go();
                }
            }
            Self::Object(object) => {
                if let Some(object) = Arc::get_mut(object) {
                    object.let_go();
                }
            }
            _ => {}
        }
    }

    /// The string that it is, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::number(Number::Double(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(Text::from(value))
    }
}

impl From<Text> for Value {
    fn from(value: Text) -> Self {
        Self::String(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::String(value.into())
    }
}

/// The elements of an array. [`Value::array`] makes it, and it never changes afterwards.
#[derive(Clone, Debug, Default)]
pub struct Array {
    elements: Vec<Value>,
    extent: Extent,
}

impl Array {
    fn new(elements: Vec<Value>) -> Result<Self, LimitError> {
        let mut extent = Extent::default();
        for element in &elements {
            add_part(&mut extent, element)?;
        }
        extent.add_bytes((elements.capacity() - elements.len()) * size_of::<Value>())?;
        Ok(Self { elements, extent })
    }

    /// See [`Value::let_go`].
    fn let_go(&mut self) {
        self.elements.iter_mut().for_each(Value::let_go);
    }
}

impl Deref for Array {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.elements
    }
}

/// The members of an object. An [`ObjectBuilder`](crate::ObjectBuilder) builds it, and it never
/// changes afterwards.
#[derive(Clone, Debug, Default)]
pub struct Object {
    members: Vec<(Text, Value)>,
    /// The indexes in `members`, sorted by name.
    order: Vec<u32>,
    extent: Extent,
}

impl Object {
    /// Makes an object of members with distinct names, and their indexes sorted by name.
    pub(crate) fn new(members: Vec<(Text, Value)>, order: Vec<u32>) -> Result<Self, LimitError> {
        let mut extent = Extent::default();
        for (name, value) in &members {
            add_part(&mut extent, value)?;
            extent.add_bytes(size_of::<Text>() + name.size_bytes())?;
        }
        let spare = members.capacity() - members.len();
        extent.add_bytes(spare * size_of::<(Text, Value)>() + order.len() * size_of::<u32>())?;
        Ok(Self { members, order, extent })
    }

    /// The member of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found =
            self.order.binary_search_by(|&at| self.members[at as usize].0.as_str().cmp(name));
        found.ok().map(|place| &self.members[self.order[place] as usize].1)
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// All members in the order of their insertion.
    #[must_use]
    pub fn members(&self) -> &[(Text, Value)] {
        &self.members
    }

    /// See [`Value::let_go`].
    fn let_go(&mut self) {
        for (name, value) in &mut self.members {
            name.let_go();
            value.let_go();
        }
    }

    /// The member at this index, in the order of insertion, or of the names if `sorted`.
    pub(crate) fn member(&self, place: usize, sorted: bool) -> Option<&(Text, Value)> {
        let place = if sorted { *self.order.get(place)? as usize } else { place };
        self.members.get(place)
    }
}

/// Adds a part of an array or object to its extent.
fn add_part(extent: &mut Extent, part: &Value) -> Result<(), LimitError> {
    let depth = part.depth();
    if depth >= DEPTH_MAX {
        return Err(LimitError::Depth);
    }
    extent.add(depth, part.size_bytes())
}
