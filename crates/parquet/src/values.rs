//! The values of a column within a row group, row by row.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use crate::cell::Cell;
use crate::column_type::ColumnType;
use crate::guard::{failed, guarded};
use crate::pages::Pages;
use crate::timestamp::Timestamp;

/// The most rows that are decoded at once.
const PIECE_ROWS: usize = 1_024;

/// The values of a column within a row group.
pub(crate) struct Values {
    form: ColumnType,
    is_optional: bool,
    typed: TypedValues,
    /// The definition level of each decoded row: zero if the row has no value.
    levels: Vec<i16>,
    /// The number of decoded rows.
    rows: usize,
    /// The number of decoded rows up to the current one.
    rows_passed: usize,
    /// The number of values in those rows.
    values_passed: usize,
}

/// Decoded values, by their physical type.
enum TypedValues {
    Boolean(ValueBatch<BoolType>),
    Int32(ValueBatch<Int32Type>),
    Int64(ValueBatch<Int64Type>),
    Float(ValueBatch<FloatType>),
    Double(ValueBatch<DoubleType>),
    Bytes(ValueBatch<ByteArrayType>),
    Fixed(ValueBatch<FixedLenByteArrayType>),
}

struct ValueBatch<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

impl Values {
    pub(crate) fn new(
        column: &ColumnDescPtr,
        form: ColumnType,
        pages: Pages,
    ) -> Result<Values, String> {
        Ok(Values {
            form,
            is_optional: column.max_def_level() > 0,
            typed: guarded(|| TypedValues::new(column, pages))?,
            levels: Vec::new(),
            rows: 0,
            rows_passed: 0,
            values_passed: 0,
        })
    }

    /// Moves to the next row, which must exist.
    pub(crate) fn advance(&mut self) -> Result<(), String> {
        if self.rows_passed == self.rows {
            self.decode()?;
        }
        self.rows_passed += 1;
        self.values_passed += usize::from(!self.is_missing());
        Ok(())
    }

    fn decode(&mut self) -> Result<(), String> {
        (self.rows_passed, self.values_passed) = (0, 0);
        let Values { typed, levels, .. } = self;
        // After the last row of a page, the first call only finds the end of the page.
        self.rows = guarded(|| match typed.fill(levels)? {
            0 => typed.fill(levels),
            rows => Ok(rows),
        })?;
        if self.rows == 0 {
            return Err("the file is damaged: it has fewer rows than its row group".to_owned());
        }
        Ok(())
    }

    fn is_missing(&self) -> bool {
        self.is_optional && self.levels[self.rows_passed - 1] == 0
    }

    /// The cell of the current row.
    pub(crate) fn cell(&self) -> Result<Cell<'_>, String> {
        if self.is_missing() {
            return Ok(Cell::Missing);
        }
        let place = self.values_passed - 1;
        match &self.typed {
            TypedValues::Boolean(piece) => Ok(Cell::Boolean(piece.values[place])),
            TypedValues::Int32(piece) => Ok(of_int32(self.form, piece.values[place])),
            TypedValues::Int64(piece) => Ok(of_int64(self.form, piece.values[place])),
            TypedValues::Float(piece) => Ok(Cell::Double(f64::from(piece.values[place]))),
            TypedValues::Double(piece) => Ok(Cell::Double(piece.values[place])),
            TypedValues::Bytes(piece) => of_bytes(self.form, piece.values[place].data()),
            TypedValues::Fixed(piece) => of_bytes(self.form, piece.values[place].data()),
        }
    }
}

fn of_int32(form: ColumnType, value: i32) -> Cell<'static> {
    match form {
        ColumnType::Unsigned => Cell::Unsigned(u64::from(value as u32)),
        ColumnType::Day => Cell::Day(value),
        _ => Cell::Integer(i64::from(value)),
    }
}

fn of_int64(form: ColumnType, value: i64) -> Cell<'static> {
    match form {
        ColumnType::Unsigned => Cell::Unsigned(value as u64),
        ColumnType::Moment { per_second, is_utc } => {
            Cell::Moment(Timestamp::new(value, per_second, is_utc))
        }
        _ => Cell::Integer(value),
    }
}

fn of_bytes(form: ColumnType, value: &[u8]) -> Result<Cell<'_>, String> {
    match form {
        ColumnType::Text => {
            std::str::from_utf8(value).map(Cell::Text).map_err(|_| "it is no UTF-8".to_owned())
        }
        ColumnType::Json => Ok(Cell::Json(value)),
        _ => Ok(Cell::Bytes(value)),
    }
}

impl TypedValues {
    /// Makes the values of a column, whose type was checked before.
    fn new(column: &ColumnDescPtr, pages: Pages) -> Result<TypedValues, ParquetError> {
        Ok(match get_column_reader(column.clone(), Box::new(pages)) {
            ColumnReader::BoolColumnReader(reader) => Self::Boolean(ValueBatch::new(reader)),
            ColumnReader::Int32ColumnReader(reader) => Self::Int32(ValueBatch::new(reader)),
            ColumnReader::Int64ColumnReader(reader) => Self::Int64(ValueBatch::new(reader)),
            ColumnReader::Int96ColumnReader(_) => return Err(failed("INT96 is not supported")),
            ColumnReader::FloatColumnReader(reader) => Self::Float(ValueBatch::new(reader)),
            ColumnReader::DoubleColumnReader(reader) => Self::Double(ValueBatch::new(reader)),
            ColumnReader::ByteArrayColumnReader(reader) => Self::Bytes(ValueBatch::new(reader)),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                Self::Fixed(ValueBatch::new(reader))
            }
        })
    }

    /// Decodes the next rows, at most to the end of the page. Returns their number.
    fn fill(&mut self, levels: &mut Vec<i16>) -> Result<usize, ParquetError> {
        match self {
            TypedValues::Boolean(piece) => piece.fill(levels),
            TypedValues::Int32(piece) => piece.fill(levels),
            TypedValues::Int64(piece) => piece.fill(levels),
            TypedValues::Float(piece) => piece.fill(levels),
            TypedValues::Double(piece) => piece.fill(levels),
            TypedValues::Bytes(piece) => {
                let rows = piece.fill(levels)?;
                // `data` panics for a value that is not in the dictionary; that must happen here,
                // where panics are caught.
                piece.values.iter().map(ByteArray::data).for_each(drop);
                Ok(rows)
            }
            TypedValues::Fixed(piece) => {
                let rows = piece.fill(levels)?;
                let bytes = piece.values.iter().map(|value: &FixedLenByteArray| value.data());
                bytes.for_each(drop);
                Ok(rows)
            }
        }
    }
}

impl<T: DataType> ValueBatch<T> {
    fn new(reader: ColumnReaderImpl<T>) -> ValueBatch<T> {
        ValueBatch { reader, values: Vec::new() }
    }

    fn fill(&mut self, levels: &mut Vec<i16>) -> Result<usize, ParquetError> {
        self.values.clear();
        levels.clear();
        let levels = Some(levels);
        let (rows, ..) = self.reader.read_records(PIECE_ROWS, levels, None, &mut self.values)?;
        Ok(rows)
    }
}
