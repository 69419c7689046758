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
mod kill_switch;
mod memory;
mod options;
mod parse;
mod plan;
mod query_run;
mod query_timer;
mod regex_cache;
mod source;
mod statement_cache;
mod tree;

pub use error::{QueryError, Result, number};
pub use execute::{Execution, NodeAccount, PointResult, write_point};
pub use functions::{functions, is_document_key, parse_date};
pub use kill_switch::KillSwitch;
pub use options::{QueryOptions, WARNINGS_MAX};
pub use parse::{
    DEPTH_MAX, ParsedQuery, QUERY_BYTES_MAX, parse, parse_with_collections, parse_within,
};
pub use plan::{Plan, RULES};
pub use query_run::{Stats, WRITES_MAX, Warning};
pub use source::{
    Collection, CollectionId, FieldScan, Index, IndexField, IndexId, IndexKind, IndexRange,
    IndexRequest, OverwriteMode, REPORTED_VERSION, Scan, Source, Visitor, Write, WriteBatch,
    WriteKind, WriteOptions, WriteOutcome, unreadable, visit_all,
};
pub use statement_cache::{Statement, StatementCache};
