//! Reading and writing of Parquet files, row by row.
//!
//! A [`Writer`] makes a file of rows, one row group after another. A [`Reader`] returns the rows of
//! a file. Files are not trusted: sizes in them are checked before memory is allocated, and a panic
//! of the parquet library becomes an error. Columns of nested types are refused by name.
//!
//! This is a crate of its own because the parquet library takes long to compile, and most builds of
//! the command line do not need it.

#![forbid(unsafe_code)]

mod cell;
mod codec;
mod column;
mod column_type;
mod footer;
mod guard;
mod header;
mod pages;
mod reader;
mod source;
mod thrift;
mod timestamp;
mod values;
mod writer;

pub use cell::Cell;
pub use column::{Column, Kind};
pub use reader::Reader;
pub use timestamp::Timestamp;
pub use writer::Writer;
