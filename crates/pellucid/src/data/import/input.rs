//! Inputs of any form, row after row.

use std::path::Path;

use super::super::format::Format;
#[cfg(feature = "parquet")]
use super::parquet_rows::ParquetRows;
use super::rows::{Row, Rows};
use crate::Failure;

/// See the module.
pub(super) enum Input {
    Text(Rows),
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetRows>),
}

impl Input {
    /// The rows of a file behind `skipped_to` lines, which are to be documents or entities, and the
    /// names of their columns if they have any.
    #[cfg_attr(not(feature = "parquet"), expect(unused_variables, reason = "lines are either"))]
    pub(super) fn open(
        file: &Path,
        format: Format,
        are_documents: bool,
        skipped_to: u64,
    ) -> Result<(Input, Vec<String>), Failure> {
        format.check()?;
        #[cfg(feature = "parquet")]
        if format == Format::Parquet {
            let (rows, names) = ParquetRows::open(file, are_documents, skipped_to)?;
            return Ok((Input::Parquet(Box::new(rows)), names));
        }
        let (rows, names) = Rows::open(file, format, skipped_to)?;
        Ok((Input::Text(rows), names))
    }

    /// The name of what rows are counted by.
    pub(super) fn unit(&self) -> &'static str {
        match self {
            Input::Text(_) => "line",
            #[cfg(feature = "parquet")]
            Input::Parquet(_) => "row",
        }
    }

    /// Bytes that were read.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Input::Text(rows) => rows.bytes(),
            #[cfg(feature = "parquet")]
            Input::Parquet(rows) => rows.bytes(),
        }
    }

    /// The next row, or nothing behind the last. An error names its line.
    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>, String> {
        match self {
            Input::Text(rows) => rows.next(),
            #[cfg(feature = "parquet")]
            Input::Parquet(rows) => rows.next(),
        }
    }
}
