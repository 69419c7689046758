//! Reads rows of Parquet and converts each to a line of JSON.

use std::fs::File;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_parquet::{Cell, Reader};
use serde_json::Value;

use super::super::entities::unreadable;
use super::super::entity::{EXPIRY_NAME, EntityField};
use super::lines::STANDARD_INPUT;
use super::rows::{Content, Input, Row};
use crate::Failure;

/// A reader of Parquet rows as lines of JSON.
pub(super) struct ParquetRows {
    reader: Reader,
    columns: Vec<Column>,
    line: Vec<u8>,
}

struct Column {
    /// Its name in the line, as a JSON string.
    label: String,
    role: Role,
}

/// The meaning of a column.
#[derive(Clone, Copy)]
enum Role {
    /// An attribute of a document.
    Attribute,
    /// The key or the value of an entity, which the line has in base64.
    Bytes,
    /// The key or the value of an entity, in base64 already.
    Base64,
    Ttl,
    Expiry,
    /// A column that is not imported.
    Ignored,
}

impl ParquetRows {
    /// Opens a file; returns its rows after the first `skipped_to`, and the names of its columns.
    /// `are_documents` tells whether its rows are documents or entities.
    pub(super) fn open(
        file: &Path,
        are_documents: bool,
        skipped_to: u64,
    ) -> Result<(ParquetRows, Vec<String>), Failure> {
        if file == Path::new(STANDARD_INPUT) {
            let text = "Parquet is read from its end: give a file, and not standard input";
            return Err(Failure::usage(text));
        }
        let shown = file.display();
        let opened = File::open(file).map_err(|error| unreadable(&shown.to_string(), &error))?;
        let named = |what| Failure::work(format!("{shown}: {what}"));
        let mut reader = Reader::open(opened).map_err(named)?;
        reader.skip_to(skipped_to).map_err(named)?;
        let names = reader.names().to_vec();
        let columns = names.iter().map(|name| Column::of(name, are_documents)).collect();
        Ok((ParquetRows { reader, columns, line: Vec::new() }, names))
    }

    fn write_line(&mut self) -> Result<(), String> {
        self.line.clear();
        self.line.push(b'{');
        for (place, column) in self.columns.iter().enumerate() {
            let cell = self.reader.cell(place)?;
            if cell == Cell::Missing || matches!(column.role, Role::Ignored) {
                continue;
            }
            if self.line.len() > 1 {
                self.line.push(b',');
            }
            self.line.extend_from_slice(column.label.as_bytes());
            self.line.push(b':');
            let written = column.role.write(&cell, &mut self.line);
            let name = &self.reader.names()[place];
            written.map_err(|what| format!("column `{name}`: {what}"))?;
        }
        self.line.push(b'}');
        Ok(())
    }
}

impl Input for ParquetRows {
    fn unit(&self) -> &'static str {
        "row"
    }

    fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    fn next(&mut self) -> Result<Option<Row<'_>>, String> {
        if !self.reader.advance()? {
            return Ok(None);
        }
        let number = self.reader.number();
        self.write_line().map_err(|what| format!("row {number}: {what}"))?;
        let content = Content::Json(&self.line);
        Ok(Some(Row { first_line: number, last_line: number, content }))
    }
}

impl Column {
    fn of(name: &str, is_of_documents: bool) -> Column {
        let [key, value] = [EntityField::Key, EntityField::Value];
        let (name, role) = match name {
            name if is_of_documents => (name, Role::Attribute),
            name if name == key.name(false) => (key.name(true), Role::Bytes),
            name if name == value.name(false) => (value.name(true), Role::Bytes),
            name if name == key.name(true) || name == value.name(true) => (name, Role::Base64),
            "ttl" => (name, Role::Ttl),
            EXPIRY_NAME => (name, Role::Expiry),
            // The ETag on another server. Unknown names are refused before the first row is read.
            name => (name, Role::Ignored),
        };
        Column { label: Value::from(name).to_string(), role }
    }
}

impl Role {
    /// Appends the value of a cell as JSON.
    fn write(self, cell: &Cell<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        match (self, cell) {
            (Role::Bytes, Cell::Bytes(bytes)) => write_base64(bytes, out),
            (Role::Bytes, Cell::Text(text)) => write_base64(text.as_bytes(), out),
            (Role::Bytes, _) => return Err("it is neither bytes nor a text".to_owned()),
            (Role::Base64, Cell::Bytes(_) | Cell::Text(_)) | (Role::Attribute, _) => {
                cell.write_json(out)?;
            }
            (Role::Base64, _) => return Err("it is no text".to_owned()),
            (Role::Ttl, Cell::Integer(_) | Cell::Unsigned(_) | Cell::Double(_)) => {
                cell.write_json(out)?;
            }
            (Role::Ttl, _) => return Err("it is no number of seconds".to_owned()),
            (Role::Expiry, cell) => {
                let ms = ms_of(cell).ok_or("it is no number of milliseconds since 1970")?;
                out.extend_from_slice(ms.to_string().as_bytes());
            }
            (Role::Ignored, _) => {}
        }
        Ok(())
    }
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}

fn ms_of(cell: &Cell<'_>) -> Option<u64> {
    match cell {
        Cell::Integer(ms) => u64::try_from(*ms).ok(),
        Cell::Unsigned(ms) => Some(*ms),
        Cell::Moment(moment) => u64::try_from(moment.unix_ms()?).ok(),
        _ => None,
    }
}
