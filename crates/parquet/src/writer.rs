//! The writer of files of rows.

use std::mem::take;
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};

use crate::cell::Cell;
use crate::column::{Column, Kind, check_names};
use crate::guard::{failed, guarded};
use crate::pages::PAGE_BYTES_MAX;

/// The most rows of a row group.
const GROUP_ROWS_MAX: usize = 100_000;
/// The most bytes of a row group with more than one row.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// The most bytes of a cell, so that the reader accepts its page.
const CELL_BYTES_MAX: usize = PAGE_BYTES_MAX as usize - (1 << 20);
/// The number of values that are written at once. A page can end only after a batch.
const BATCH_VALUES: usize = 64;
/// The level of the compression. Gzip is used because its checksums detect damaged pages.
const GZIP_LEVEL: u32 = 1;

/// A writer that makes the bytes of a file of rows. It holds one row group in memory.
pub struct Writer {
    columns: Vec<Column>,
    /// The values of each column in the current row group.
    buffers: Vec<Buffer>,
    rows: usize,
    bytes: usize,
    /// The number of rows in the earlier row groups.
    rows_before: u64,
    file: SerializedFileWriter<Vec<u8>>,
}

impl Writer {
    /// Begins a file with these columns.
    ///
    /// # Errors
    /// If two columns have the same name, or the parquet library refuses them.
    pub fn new(columns: Vec<Column>) -> Result<Writer, String> {
        check_names(columns.iter().map(|column| &column.name))?;
        let file = guarded(|| {
            let properties = WriterProperties::builder()
                .set_compression(Compression::GZIP(GzipLevel::try_new(GZIP_LEVEL)?))
                .set_write_batch_size(BATCH_VALUES)
                .set_created_by(concat!("pellucid ", env!("CARGO_PKG_VERSION")).to_owned());
            let table = Column::table(&columns)?;
            SerializedFileWriter::new(Vec::new(), table, Arc::new(properties.build()))
        })?;
        let buffers = columns.iter().map(|column| Buffer::of(column.kind)).collect();
        Ok(Writer { columns, buffers, rows: 0, bytes: 0, rows_before: 0, file })
    }

    /// Adds a row, with one cell for each column.
    ///
    /// # Errors
    /// If a cell is not of its column's kind, is missing in a required column, or is too large; the
    /// text names the column and the row. The writer cannot be used after an error.
    pub fn add(&mut self, cells: &[Cell<'_>]) -> Result<(), String> {
        let bytes: usize = cells.iter().map(bytes_of).sum();
        if self.rows >= GROUP_ROWS_MAX || self.rows > 0 && self.bytes + bytes > GROUP_BYTES_MAX {
            self.end_group()?;
        }
        let row = self.rows_before + self.rows as u64 + 1;
        if cells.len() != self.columns.len() {
            return Err(format!("row {row}: it has {} cells", cells.len()));
        }
        let columns = self.columns.iter().zip(&mut self.buffers);
        for ((column, buffer), cell) in columns.zip(cells) {
            let what = match cell {
                Cell::Missing if column.is_required => "it is missing",
                cell if bytes_of(cell) > CELL_BYTES_MAX => "it is too large for Parquet",
                cell if buffer.add(cell) => continue,
                _ => "it is of another kind than the column",
            };
            return Err(format!("row {row}: column `{}`: {what}", column.name));
        }
        self.rows += 1;
        self.bytes += bytes;
        Ok(())
    }

    /// Returns the bytes of the file that were made since the last call.
    ///
    /// # Errors
    /// If the parquet library fails, which no caller can cause.
    pub fn take(&mut self) -> Result<Vec<u8>, String> {
        guarded(|| {
            self.file.flush()?;
            Ok(take(self.file.inner_mut()))
        })
    }

    /// Ends the file, and returns its last bytes.
    ///
    /// # Errors
    /// If the parquet library refuses the rows.
    pub fn end(mut self) -> Result<Vec<u8>, String> {
        self.end_group()?;
        guarded(|| self.file.into_inner())
    }

    fn end_group(&mut self) -> Result<(), String> {
        if self.rows == 0 {
            return Ok(());
        }
        let Writer { file, buffers, .. } = self;
        guarded(|| {
            let mut group = file.next_row_group()?;
            for buffer in buffers {
                let column = group.next_column()?.ok_or_else(|| failed("it lacks a column"))?;
                buffer.write(column)?;
            }
            group.close().map(drop)
        })?;
        self.rows_before += take(&mut self.rows) as u64;
        self.bytes = 0;
        Ok(())
    }
}

fn bytes_of(cell: &Cell<'_>) -> usize {
    match cell {
        Cell::Bytes(bytes) | Cell::Json(bytes) => bytes.len(),
        Cell::Text(text) => text.len(),
        _ => size_of::<u64>(),
    }
}

/// The values of a column in the current row group.
struct Buffer {
    kind: Kind,
    values: BufferedValues,
    /// The definition level of each row: one if it has a value, otherwise zero.
    levels: Vec<i16>,
}

/// Values by their physical type.
enum BufferedValues {
    Bytes(Vec<ByteArray>),
    Boolean(Vec<bool>),
    Integer(Vec<i64>),
    Double(Vec<f64>),
}

impl Buffer {
    fn of(kind: Kind) -> Buffer {
        let values = match kind {
            Kind::Bytes | Kind::Text | Kind::Json => BufferedValues::Bytes(Vec::new()),
            Kind::Boolean => BufferedValues::Boolean(Vec::new()),
            Kind::Integer | Kind::Moment => BufferedValues::Integer(Vec::new()),
            Kind::Double => BufferedValues::Double(Vec::new()),
        };
        Buffer { kind, values, levels: Vec::new() }
    }

    /// Adds the value of a cell. Returns false if it is of another kind than the column.
    fn add(&mut self, cell: &Cell<'_>) -> bool {
        match (&mut self.values, self.kind, cell) {
            (_, _, Cell::Missing) => {}
            (BufferedValues::Bytes(values), Kind::Bytes, Cell::Bytes(bytes))
            | (BufferedValues::Bytes(values), Kind::Json, Cell::Json(bytes)) => {
                values.push(ByteArray::from(bytes.to_vec()));
            }
            (BufferedValues::Bytes(values), Kind::Text, Cell::Text(text)) => {
                values.push(ByteArray::from(text.as_bytes().to_vec()));
            }
            (BufferedValues::Boolean(values), _, Cell::Boolean(value)) => values.push(*value),
            (BufferedValues::Integer(values), Kind::Integer, Cell::Integer(value)) => {
                values.push(*value)
            }
            (BufferedValues::Integer(values), Kind::Moment, Cell::Moment(moment)) => {
                let Some(ms) = moment.unix_ms() else { return false };
                values.push(ms);
            }
            (BufferedValues::Double(values), _, Cell::Double(value)) => values.push(*value),
            _ => return false,
        }
        self.levels.push(i16::from(*cell != Cell::Missing));
        true
    }

    /// Writes all values, and empties the buffer.
    fn write(&mut self, column: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = take(&mut self.levels);
        match &mut self.values {
            BufferedValues::Bytes(values) => write::<ByteArrayType>(&take(values), &levels, column),
            BufferedValues::Boolean(values) => write::<BoolType>(&take(values), &levels, column),
            BufferedValues::Integer(values) => write::<Int64Type>(&take(values), &levels, column),
            BufferedValues::Double(values) => write::<DoubleType>(&take(values), &levels, column),
        }
    }
}

fn write<T: DataType>(
    values: &[T::T],
    levels: &[i16],
    mut column: SerializedColumnWriter<'_>,
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(values, Some(levels), None)?;
    column.close()
}
