//! The query language AQL: text to rows.
//!
//! What data there is, and where, this crate knows through [`Source`] alone, so that a query means
//! the same on every kind of store, and is tested on one that lives in memory.

mod error;
mod parse;
mod source;

pub use error::{QueryError, number};
pub use parse::{DEPTH_MAX, Parsed, QUERY_BYTES_MAX, parse};
pub use source::{
    Collection, CollectionId, FieldScan, Index, IndexField, IndexId, IndexKind, IndexRange,
    IndexRequest, OverwriteMode, Scan, Source, Write, WriteBatch, WriteKind, WriteOptions, Written,
};
