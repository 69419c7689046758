//! Values of documents and queries.
//!
//! Documents are read far more often than they are written, and most reads want one attribute. So a
//! document is stored in a binary form ([`packed`]) in which an attribute is found without reading
//! the others. A [`Value`] may be a part of such bytes, so that a scan returns attributes without
//! copying them. Values of any form are read through [`Ref`]. Order, casts, JSON and index keys are
//! defined on `Ref` only, so that they are the same for all forms.
//!
//! The rules (order of types, truthiness, casts, format of numbers) are those of ArangoDB's AQL.

mod cast;
mod extent;
pub mod index_key;
pub mod json;
mod kind;
mod merge;
mod number;
mod object;
mod order;
pub mod packed;
mod reference;
#[cfg(test)]
mod samples;
mod shared_bytes;
mod text;
mod value;
mod view;

pub use cast::{to_number, to_text};
pub use extent::{LimitError, VALUE_BYTES_MAX};
pub use kind::Kind;
pub use merge::{MergeOptions, merge_into};
pub use number::Number;
pub use object::ObjectBuilder;
pub use order::{compare, compare_with, equal};
pub use reference::{ArrayRef, Members, ObjectRef, Ref};
pub use shared_bytes::SharedBytes;
pub use text::{Text, beginning};
pub use value::{Array, Object, Value};

/// The rule for an attribute name that occurs twice in an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DuplicateRule {
    /// The object is refused, as for documents from clients.
    #[default]
    Refuse,
    /// The first one is kept, as in object literals of AQL (ArangoDB 3.12).
    First,
    /// The last one is kept, in the position of the first.
    Last,
}
