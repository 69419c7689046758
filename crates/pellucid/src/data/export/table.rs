//! Converts documents to rows of Parquet, whose columns have types.

use pellucid_parquet::{Cell, Column, Kind, Writer};

use super::columns::Columns;
use super::kinds::Kinds;
use crate::Failure;

/// A Parquet table of documents that is being written.
pub(super) struct Table {
    columns: Columns,
    kinds: Vec<Kind>,
    writer: Writer,
}

/// A value of a document: a string that was unescaped, or a cell that borrows from the document.
enum Value<'a> {
    Text(String),
    Other(Cell<'a>),
}

impl Table {
    pub(super) fn new(columns: Columns, kinds: &Kinds) -> Result<Table, Failure> {
        let kinds: Vec<_> = columns.names().iter().map(|name| kinds.of(name)).collect();
        let column = |(name, kind): (&String, &Kind)| {
            let (name, kind) = (name.clone(), *kind);
            Column { name, kind, is_required: false }
        };
        let typed = columns.names().iter().zip(&kinds).map(column).collect();
        let writer = Writer::new(typed)?;
        Ok(Table { columns, kinds, writer })
    }

    /// Adds a document, and appends the finished bytes of the file to `text`.
    pub(super) fn add(&mut self, document: &[u8], text: &mut Vec<u8>) -> Result<(), Failure> {
        let values = self.columns.values(document)?;
        let named = self.columns.names().iter().zip(&self.kinds).zip(values);
        let values = named.map(|((name, kind), value)| {
            let Some(value) = value else { return Ok(Value::Other(Cell::Missing)) };
            value_of(*kind, value).ok_or_else(|| another_kind(name))
        });
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let cells: Vec<_> = values.iter().map(Value::cell).collect();
        self.writer.add(&cells)?;
        text.append(&mut self.writer.take()?);
        Ok(())
    }

    /// Ends the table; returns the last bytes of the file.
    pub(super) fn end(self) -> Result<Vec<u8>, Failure> {
        self.writer.end().map_err(Failure::work)
    }
}

impl Value<'_> {
    fn cell(&self) -> Cell<'_> {
        match self {
            Value::Text(text) => Cell::Text(text),
            Value::Other(cell) => *cell,
        }
    }
}

/// Parses `json` as a value of this kind; `None` if it is of another kind.
fn value_of(kind: Kind, json: &[u8]) -> Option<Value<'_>> {
    let text = std::str::from_utf8(json).ok()?;
    Some(match kind {
        Kind::Text => Value::Text(serde_json::from_str(text).ok()?),
        Kind::Boolean => Value::Other(Cell::Boolean(text.parse().ok()?)),
        Kind::Integer => Value::Other(Cell::Integer(text.parse().ok()?)),
        Kind::Double => Value::Other(Cell::Double(text.parse().ok()?)),
        _ => Value::Other(Cell::Json(json)),
    })
}

fn another_kind(name: &str) -> Failure {
    Failure::work(format!(
        "the attribute `{name}` has a value of another type than any had when the export began: \
         begin again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(of: &[&str]) -> Kinds {
        let mut kinds = Kinds::default();
        of.iter().for_each(|result| kinds.note(result.as_bytes()).unwrap());
        kinds
    }

    /// Regression: a double was rounded twice, to its neighbour.
    #[test]
    fn a_double_is_the_nearest_to_its_text() {
        for text in ["0.38120423768821243", "-5e-324", "1.7976931348623157e308", "7"] {
            let value = value_of(Kind::Double, text.as_bytes()).unwrap();
            assert_eq!(value.cell(), Cell::Double(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_value_of_another_kind_is_named() {
        let kinds = kinds(&[r#"["_key","string"]"#, r#"["n","integer"]"#, r#"["d","double"]"#]);
        let mut table = Table::new(Columns::all(kinds.names()), &kinds).unwrap();
        let mut text = Vec::new();
        table.add(br#"{"_key":"1","n":-7,"d":1}"#, &mut text).unwrap();
        for (document, what) in [
            (&br#"{"n":"x"}"#[..], "`n` has a value of another type"),
            (br#"{"n":1.5}"#, "`n` has a value of another type"),
            (br#"{"d":null}"#, "`d` has a value of another type"),
            (br#"{"_key":1}"#, "`_key` has a value of another type"),
            (br#"{"new":1}"#, "attribute `new`"),
            (b"[]", "no document"),
        ] {
            let failure = table.add(document, &mut text).unwrap_err();
            assert!(failure.text.contains(what), "{}", failure.text);
        }
        text.append(&mut table.end().unwrap());
        assert!(text.starts_with(b"PAR1") && text.ends_with(b"PAR1"));
    }
}
