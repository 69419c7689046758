//! The query language AQL: text to rows.
//!
//! What data there is, and where, this crate knows through [`Source`] alone, so that a query means
//! the same on every kind of store, and is tested on one that lives in memory.

#![forbid(unsafe_code)]

mod error;
mod evaluate;
mod execute;
mod functions;
mod parse;
mod plan;
mod run;
mod source;
mod statements;

pub use error::{QueryError, number};
pub use execute::{Execution, NodeAccount, PointResult};
pub use functions::functions;
pub use parse::{DEPTH_MAX, Parsed, QUERY_BYTES_MAX, parse, parse_within};
pub use plan::{Plan, RULES};
pub use run::{KillSwitch, QueryOptions, Stats, WARNINGS_MAX, WRITES_MAX, Warning};
pub use source::{
    Collection, CollectionId, FieldScan, Index, IndexField, IndexId, IndexKind, IndexRange,
    IndexRequest, OverwriteMode, REPORTED_VERSION, Scan, Source, Visitor, Write, WriteBatch,
    WriteKind, WriteOptions, Written, visit_all,
};
pub use statements::{Statement, Statements};
