//! Values of documents and queries.
//!
//! Documents are read far more often than they are written, and most reads want one attribute of
//! them. So a document is stored in a binary form ([`packed`]) in which an attribute is found
//! without looking at the others, and a [`Value`] may be a part of such bytes: a scan hands out
//! attributes without copies. Whatever a value's form, it is read through [`Ref`], and order,
//! casts, JSON and index keys are defined on that alone, so that no two forms can disagree.
//!
//! The rules (order of types, truthiness, casts, how numbers print) are those of ArangoDB's AQL.

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
mod shared;
mod text;
mod value;
mod view;
mod walk;

pub use cast::{to_number, to_text};
pub use extent::{OverLimit, VALUE_BYTES_MAX};
pub use kind::Kind;
pub use merge::{MergeOptions, merge_into};
pub use number::Number;
pub use object::ObjectBuilder;
pub use order::{compare, compare_with, equal};
pub use reference::{ArrayRef, Members, ObjectRef, Ref};
pub use shared::Shared;
pub use text::Text;
pub use value::{Array, Object, Value};

/// The rule for an attribute that an object has twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// An error, as for documents from outside.
    #[default]
    Refuse,
    /// The first one stays, as in object literals of AQL (ArangoDB 3.12).
    First,
    /// The last one stays, in the place of the first.
    Last,
}
