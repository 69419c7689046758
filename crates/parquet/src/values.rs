//! The values of a column within a row group, row by row.

use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use crate::cell::Cell;
use crate::form::Form;
use crate::guard::guarded;
use crate::moment::Moment;
use crate::pages::Pages;

/// The most rows that are decoded at once.
const PIECE_ROWS: usize = 1_024;

/// The values of a column within a row group.
pub(crate) struct Values {
    form: Form,
    is_optional: bool,
    typed: Typed,
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
enum Typed {
    Boolean(Piece<BoolType>),
    Int32(Piece<Int32Type>),
    Int64(Piece<Int64Type>),
    Float(Piece<FloatType>),
    Double(Piece<DoubleType>),
    Bytes(Piece<ByteArrayType>),
    Fixed(Piece<FixedLenByteArrayType>),
}

struct Piece<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

impl Values {
    pub(crate) fn new(column: &ColumnDescPtr, form: Form, pages: Pages) -> Result<Values, String> {
        Ok(Values {
            form,
            is_optional: column.max_def_level() > 0,
            typed: guarded(|| Ok(Typed::new(column, pages)))?,
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
            Typed::Boolean(piece) => Ok(Cell::Boolean(piece.values[place])),
            Typed::Int32(piece) => Ok(of_int32(self.form, piece.values[place])),
            Typed::Int64(piece) => Ok(of_int64(self.form, piece.values[place])),
            Typed::Float(piece) => Ok(Cell::Double(f64::from(piece.values[place]))),
            Typed::Double(piece) => Ok(Cell::Double(piece.values[place])),
            Typed::Bytes(piece) => of_bytes(self.form, piece.values[place].data()),
            Typed::Fixed(piece) => of_bytes(self.form, piece.values[place].data()),
        }
    }
}

fn of_int32(form: Form, value: i32) -> Cell<'static> {
    match form {
        Form::Unsigned => Cell::Unsigned(u64::from(value as u32)),
        Form::Day => Cell::Day(value),
        _ => Cell::Integer(i64::from(value)),
    }
}

fn of_int64(form: Form, value: i64) -> Cell<'static> {
    match form {
        Form::Unsigned => Cell::Unsigned(value as u64),
        Form::Moment { per_second, is_utc } => Cell::Moment(Moment::new(value, per_second, is_utc)),
        _ => Cell::Integer(value),
    }
}

fn of_bytes(form: Form, value: &[u8]) -> Result<Cell<'_>, String> {
    match form {
        Form::Text => {
            std::str::from_utf8(value).map(Cell::Text).map_err(|_| "it is no UTF-8".to_owned())
        }
        Form::Json => Ok(Cell::Json(value)),
        _ => Ok(Cell::Bytes(value)),
    }
}

impl Typed {
    /// Makes the values of a column, whose type was checked before.
    fn new(column: &ColumnDescPtr, pages: Pages) -> Typed {
        let physical = column.physical_type();
        let reader = get_column_reader(column.clone(), Box::new(pages));
        match physical {
            Physical::BOOLEAN => Typed::Boolean(Piece::new(get_typed_column_reader(reader))),
            Physical::INT32 => Typed::Int32(Piece::new(get_typed_column_reader(reader))),
            Physical::INT64 | Physical::INT96 => {
                Typed::Int64(Piece::new(get_typed_column_reader(reader)))
            }
            Physical::FLOAT => Typed::Float(Piece::new(get_typed_column_reader(reader))),
            Physical::DOUBLE => Typed::Double(Piece::new(get_typed_column_reader(reader))),
            Physical::BYTE_ARRAY => Typed::Bytes(Piece::new(get_typed_column_reader(reader))),
            Physical::FIXED_LEN_BYTE_ARRAY => {
                Typed::Fixed(Piece::new(get_typed_column_reader(reader)))
            }
        }
    }

    /// Decodes the next rows, at most to the end of the page. Returns their number.
    fn fill(&mut self, levels: &mut Vec<i16>) -> Result<usize, ParquetError> {
        match self {
            Typed::Boolean(piece) => piece.fill(levels),
            Typed::Int32(piece) => piece.fill(levels),
            Typed::Int64(piece) => piece.fill(levels),
            Typed::Float(piece) => piece.fill(levels),
            Typed::Double(piece) => piece.fill(levels),
            Typed::Bytes(piece) => {
                let rows = piece.fill(levels)?;
                // `data` panics for a value that is not in the dictionary; that must happen here,
                // where panics are caught.
                piece.values.iter().map(ByteArray::data).for_each(drop);
                Ok(rows)
            }
            Typed::Fixed(piece) => {
                let rows = piece.fill(levels)?;
                let bytes = piece.values.iter().map(|value: &FixedLenByteArray| value.data());
                bytes.for_each(drop);
                Ok(rows)
            }
        }
    }
}

impl<T: DataType> Piece<T> {
    fn new(reader: ColumnReaderImpl<T>) -> Piece<T> {
        Piece { reader, values: Vec::new() }
    }

    fn fill(&mut self, levels: &mut Vec<i16>) -> Result<usize, ParquetError> {
        self.values.clear();
        levels.clear();
        let levels = Some(levels);
        let (rows, ..) = self.reader.read_records(PIECE_ROWS, levels, None, &mut self.values)?;
        Ok(rows)
    }
}
