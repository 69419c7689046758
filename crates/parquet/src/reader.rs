//! The reader of the rows of a file.

use std::fs::File;
use std::sync::Arc;

use parquet::file::metadata::ParquetMetaData;

use crate::cell::Cell;
use crate::column::check_names;
use crate::column_type::ColumnType;
use crate::footer;
use crate::pages::Pages;
use crate::source::Source;
use crate::values::Values;

/// A reader of the rows of a file, one after another. It holds one page and one dictionary of each
/// column in memory.
pub struct Reader {
    source: Arc<Source>,
    description: ParquetMetaData,
    names: Vec<String>,
    forms: Vec<ColumnType>,
    /// The index of the next row group.
    next_group: usize,
    /// The columns of the current row group.
    columns: Vec<Values>,
    /// The number of rows of the current row group after the current row.
    rows_left: u64,
    /// The number of the current row, counted from one.
    number: u64,
}

impl Reader {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// If it is no Parquet file, or has columns of types that are not supported.
    pub fn open(file: File) -> Result<Reader, String> {
        let source = Arc::new(Source::open(file)?);
        let description = footer::read(&source)?;
        let columns = description.file_metadata().schema_descr().columns();
        let names: Vec<_> = columns.iter().map(|column| column.name().to_owned()).collect();
        check_names(&names)?;
        let forms =
            columns.iter().map(|column| ColumnType::of(column)).collect::<Result<_, _>>()?;
        Ok(Reader {
            source,
            description,
            names,
            forms,
            next_group: 0,
            columns: Vec::new(),
            rows_left: 0,
            number: 0,
        })
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of bytes of the file that are processed.
    pub fn bytes(&self) -> u64 {
        self.source.read()
    }

    /// The number of the current row, counted from one; zero before the first.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Skips rows up to and including row `number`, or to the end of the file.
    ///
    /// # Errors
    /// Those of [`Reader::advance`].
    pub fn skip_to(&mut self, number: u64) -> Result<(), String> {
        while self.number < number {
            if self.rows_left == 0 {
                let Some(rows) = self.rows_of(self.next_group)? else { return Ok(()) };
                if rows <= number - self.number {
                    self.next_group += 1;
                    self.number += rows;
                    continue;
                }
            }
            if !self.advance()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Moves to the next row. Returns false after the last one.
    ///
    /// # Errors
    /// If the file is damaged or not supported; the text names the row and the column.
    pub fn advance(&mut self) -> Result<bool, String> {
        while self.rows_left == 0 {
            if !self.open_group()? {
                return Ok(false);
            }
        }
        self.rows_left -= 1;
        self.number += 1;
        let columns = self.columns.iter_mut().zip(&self.names);
        for (column, name) in columns {
            let advanced = column.advance();
            advanced.map_err(|what| format!("row {}: column `{name}`: {what}", self.number))?;
        }
        Ok(true)
    }

    /// The cell of the current row in the column with this index.
    ///
    /// # Errors
    /// If it is a string that is no UTF-8; the text names the column.
    ///
    /// # Panics
    /// If there is no such column, or no current row.
    pub fn cell(&self, place: usize) -> Result<Cell<'_>, String> {
        let cell = self.columns[place].cell();
        cell.map_err(|what| format!("column `{}`: {what}", self.names[place]))
    }

    /// The number of rows of a row group; `None` if there is no such group.
    fn rows_of(&self, group: usize) -> Result<Option<u64>, String> {
        let Some(group) = self.description.row_groups().get(group) else { return Ok(None) };
        let rows = u64::try_from(group.num_rows());
        rows.map(Some).map_err(|_| "the file is damaged: a row group has less than no rows".into())
    }

    /// Opens the next row group. Returns false after the last one.
    fn open_group(&mut self) -> Result<bool, String> {
        self.columns.clear();
        let Some(rows) = self.rows_of(self.next_group)? else { return Ok(false) };
        let group = self.description.row_group(self.next_group);
        if group.num_columns() != self.names.len() {
            return Err("the file is damaged: a row group lacks columns".to_owned());
        }
        for ((chunk, form), name) in group.columns().iter().zip(&self.forms).zip(&self.names) {
            let values = Pages::of(&self.source, chunk, rows)
                .and_then(|pages| Values::new(&chunk.column_descr_ptr(), *form, pages));
            let row = self.number + 1;
            self.columns
                .push(values.map_err(|what| format!("row {row}: column `{name}`: {what}"))?);
        }
        self.next_group += 1;
        self.rows_left = rows;
        Ok(true)
    }
}
