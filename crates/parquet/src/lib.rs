//! Tables of Parquet files: rows of cells in and out.
//!
//! A [`Writer`] makes a file of rows, row group after row group; a [`Reader`] gives the rows of a
//! file. Files come from anywhere, so nothing that one says is believed before it is checked: sizes
//! are bounded before there is memory for them, and a panic of the library beneath is an error like
//! any other. Columns of nested types are refused by name.
//!
//! It is a crate of its own because the library beneath takes long to compile, and most builds of
//! the command line do without.

#![forbid(unsafe_code)]

mod cell;
mod codec;
mod column;
mod footer;
mod form;
mod guard;
mod header;
mod moment;
mod pages;
mod reader;
mod source;
mod thrift;
mod values;
mod writer;

pub use cell::Cell;
pub use column::{Column, Kind};
pub use moment::Moment;
pub use reader::Reader;
pub use writer::Writer;
