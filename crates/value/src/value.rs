//! A value of its own: what expressions give and rows hold.

use std::sync::Arc;

use crate::packed::{self, Damage};
use crate::{Array, ArrayRef, Kind, Number, Object, ObjectRef, OverLimit, Ref, Shared, Text};

/// Bytes in front of what an [`Arc`] holds.
pub(crate) const ARC_BYTES: usize = 2 * size_of::<usize>();

/// A value. A clone copies at most one reference.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number that fits a signed one.
    Int(i64),
    /// A whole number above the signed ones.
    Uint(u64),
    /// Any other number.
    Double(f64),
    /// A string.
    String(Text),
    /// An array that was built.
    Array(Arc<Array>),
    /// An object that was built.
    Object(Arc<Object>),
    /// An array or object in packed bytes: exactly one node of either kind.
    Packed(Shared),
}

impl Value {
    /// A packed document as it is stored, without looking further than its first bytes.
    ///
    /// # Errors
    /// If the format is unknown or the bytes are cut.
    pub fn open(document: &[u8]) -> Result<Self, Damage> {
        let node = packed::node_of(document)?;
        Ok(Self::of_node(&Shared::copy(node), node))
    }

    /// The node at the front of `node`, which should lie in `shared`; null if it makes no sense.
    pub(crate) fn of_node(shared: &Shared, node: &[u8]) -> Self {
        Self::of_reference(shared, Ref::of_node(node))
    }

    /// The value that `part` reads, as a part of `shared` if it lies there.
    #[must_use]
    pub fn of_reference(shared: &Shared, part: Ref<'_>) -> Self {
        match part {
            Ref::String(text) => Self::String(Text::part(shared.part(text.as_bytes()))),
            Ref::Array(ArrayRef::Packed(array)) => Self::Packed(shared.part(array.node())),
            Ref::Object(ObjectRef::Packed(object)) => Self::Packed(shared.part(object.node())),
            other => other.to_value(),
        }
    }

    /// A string.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::String(Text::from(text))
    }

    /// An array.
    ///
    /// # Errors
    /// If it were deeper or larger than values may be.
    pub fn array(elements: Vec<Self>) -> Result<Self, OverLimit> {
        Array::new(elements).map(|array| Self::Array(Arc::new(array)))
    }

    /// The number of levels that of arrays and objects it has, counted up to one more than
    /// [`packed::DEPTH_MAX`]: stored documents may have more, all other values have less.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            Self::Array(array) => array.extent().depth(),
            Self::Object(object) => object.extent().depth(),
            Self::Packed(node) => packed::depth(node),
            _ => 0,
        }
    }

    /// The number, or null where a double is none.
    #[must_use]
    pub fn number(number: Number) -> Self {
        match number {
            Number::Int(value) => Self::Int(value),
            Number::Uint(value) => i64::try_from(value).map_or(Self::Uint(value), Self::Int),
            Number::Double(value) if value.is_finite() => Self::Double(value),
            Number::Double(_) => Self::Null,
        }
    }

    /// A count.
    #[must_use]
    pub fn count(count: usize) -> Self {
        i64::try_from(count).map_or(Self::Null, Self::Int)
    }

    /// The value in the form in which it is read.
    #[must_use]
    pub fn view(&self) -> Ref<'_> {
        match self {
            Self::Null => Ref::Null,
            Self::Bool(value) => Ref::Bool(*value),
            Self::Int(value) => Ref::Number(Number::Int(*value)),
            Self::Uint(value) => Ref::Number(Number::Uint(*value)),
            Self::Double(value) => Ref::Number(Number::Double(*value)),
            Self::String(text) => Ref::String(text),
            Self::Array(elements) => Ref::Array(ArrayRef::Built(elements)),
            Self::Object(object) => Ref::Object(ObjectRef::Built(object)),
            Self::Packed(node) => Ref::of_node(node),
        }
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
            Self::Packed(node) => match Ref::of_node(node) {
                Ref::Object(object) => {
                    object.get(name).map(|part| Self::of_reference(node, part)).unwrap_or_default()
                }
                _ => Self::Null,
            },
            _ => Self::Null,
        }
    }

    /// The element in that place, from the end if it is negative; null if there is none or this is
    /// no array.
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

    /// The element in that place, or null.
    #[must_use]
    pub fn nth(&self, place: usize) -> Self {
        match self {
            Self::Array(elements) => elements.get(place).cloned().unwrap_or_default(),
            Self::Packed(node) => match Ref::of_node(node) {
                Ref::Array(array) => {
                    array.get(place).map(|part| Self::of_reference(node, part)).unwrap_or_default()
                }
                _ => Self::Null,
            },
            _ => Self::Null,
        }
    }

    /// All elements of an array, each a part of it where it is packed; none if this is no array.
    #[must_use]
    pub fn elements(&self) -> Vec<Self> {
        match self {
            Self::Array(elements) => elements.to_vec(),
            Self::Packed(node) => match Ref::of_node(node) {
                Ref::Array(array) => {
                    array.iter().map(|part| Self::of_reference(node, part)).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// All members of an object as they were inserted, or by name if `sorted`; none if this is no
    /// object.
    #[must_use]
    pub fn members(&self, sorted: bool) -> Vec<(Text, Self)> {
        let Some(object) = self.view().as_object() else { return Vec::new() };
        let shared = match self {
            Self::Packed(node) => Some(node),
            _ => None,
        };
        let members = if sorted { object.sorted() } else { object.iter() };
        members
            .map(|(name, part)| match shared {
                Some(node) => {
                    (Text::part(node.part(name.as_bytes())), Self::of_reference(node, part))
                }
                None => (Text::from(name), part.to_value()),
            })
            .collect()
    }

    /// The number of bytes that of memory this value keeps, for the limits of a query; what it
    /// holds several times is counted each time.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::String(text) => text.size_bytes(),
                Self::Array(array) => ARC_BYTES + size_of::<Array>() + array.extent().bytes(),
                Self::Object(object) => ARC_BYTES + size_of::<Object>() + object.extent().bytes(),
                Self::Packed(node) => ARC_BYTES + node.len(),
                _ => 0,
            }
    }

    /// As [`size_bytes`](Self::size_bytes), but of an array or object that others hold as well only
    /// the reference to it: for what passes on, and is counted where it stays.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        let is_shared = match self {
            Self::Array(elements) => Arc::strong_count(elements) > 1,
            Self::Object(object) => Arc::strong_count(object) > 1,
            _ => false,
        };
        if is_shared { size_of::<Self>() } else { self.size_bytes() }
    }

    /// Lets go of documents of which it is a small part, by copying that part: for values that
    /// outlive what they were read from. What others hold as well stays as it is.
    pub fn let_go(&mut self) {
        match self {
            Self::String(text) => text.let_go(),
            Self::Packed(node) if node.is_wasteful() => *node = Shared::copy(node),
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

    /// The packed document with this value, as it is stored.
    ///
    /// # Errors
    /// If it is deeper or larger than documents may be.
    pub fn to_packed(&self) -> Result<Vec<u8>, OverLimit> {
        let mut builder = packed::Builder::new();
        builder.value(self.view());
        builder.finish()
    }

    /// As JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        crate::json::to_string(self.view())
    }

    /// True if it counts as true: all but null, false, 0 and the empty string do.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.view().is_true()
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

/// Equal by AQL's rules; see [`crate::equal`].
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        crate::equal(self.view(), other.view())
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
        Self::text(value)
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
