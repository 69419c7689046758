//! The query language AQL: parsing, planning and execution of queries.
//!
//! This crate accesses data only through [`Source`], so that a query has the same meaning on every
//! kind of store, and tests can use a source in memory.

#![forbid(unsafe_code)]

mod aggregator;
mod error;
mod evaluate;
mod execute;
mod functions;
mod kill;
mod memory;
mod options;
mod parse;
mod plan;
mod regexes;
mod run;
mod source;
mod statements;
mod timing;
mod tree;

pub use error::{QueryError, Result, number};
pub use execute::{Execution, NodeAccount, PointResult, write_point};
pub use functions::functions;
pub use kill::KillSwitch;
pub use options::{QueryOptions, WARNINGS_MAX};
pub use parse::{DEPTH_MAX, Parsed, QUERY_BYTES_MAX, parse, parse_within};
pub use plan::{Plan, RULES};
pub use run::{Stats, WRITES_MAX, Warning};
pub use source::{
    Collection, CollectionId, FieldScan, Index, IndexField, IndexId, IndexKind, IndexRange,
    IndexRequest, OverwriteMode, REPORTED_VERSION, Scan, Source, Visitor, Write, WriteBatch,
    WriteKind, WriteOptions, Written, unreadable, visit_all,
};
pub use statements::{Statement, Statements};
